"""Stream of changes: parts are joined without gap or repetition, and the position follows them."""

from typing import Any

from creekdb.client.changes import ChangePosition, ChangeStream
from creekdb.client.replica_connection import ReplicaDiscovery
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.changes import Change, encode_changes
from creekdb.wire.messages import ChangesPart, ClientHello, TentativeImage
from creekdb.wire.tentative import StagedChange


def change(index: int, event: int = 0) -> Change:
    writes = (("a", index),)
    return Change(index, Dot(0, event or index), 5, "put", (), True, None, None, None, writes, ())


def part(first: int, *indices: int, image: TentativeImage | None = None) -> ChangesPart:
    bodies = (encode_changes([change(each) for each in indices]),) if indices else ()
    end = indices[-1] + 1 if indices else first
    return ChangesPart(1, "creek:1", first, end, 9, bodies, None, image)


async def make_stream(start: int = 1, **options: Any) -> ChangeStream:
    discovery = ReplicaDiscovery([("127.0.0.1", 1)], None, 1.0)
    return ChangeStream(discovery, ClientHello(1, "me"), ChangePosition("", start), **options)


async def test_changes_before_the_position_are_skipped() -> None:
    stream = await make_stream(3)
    stream._take(part(3, 1, 2, 3, 4))  # the replica sends whole frames

    assert [(await anext(stream)).index for _ in range(2)] == [3, 4]
    assert stream.position == ChangePosition("creek:1", 5)


async def test_the_position_is_that_of_the_next_change() -> None:
    stream = await make_stream()
    stream._take(part(1, 1, 2, 4))

    positions = [stream.position.index]
    for _ in range(3):
        await anext(stream)
        positions.append(stream.position.index)
    assert positions == [1, 2, 4, 5]


async def test_changes_that_are_not_final_do_not_move_the_position() -> None:
    stream = await make_stream(view="tentative")
    stream._take(part(1, 1))
    shown = encode_changes([change(0, 7), change(0, 8)])
    stream._take(part(2, image=TentativeImage(5, shown, ())))

    staged = [await anext(stream) for _ in range(2)]
    assert [each.stage for each in staged if isinstance(each, StagedChange)] == ["tentative"] * 2
    assert stream.position == ChangePosition("creek:1", 2)
