"""Stream of changes: parts are joined without gap or repetition, and the position follows them."""

import asyncio
from typing import Any

import msgspec

from creekdb.client.changes import ChangePosition, ChangeStream
from creekdb.client.replica_connection import ReplicaDiscovery
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.changes import Change, encode_changes
from creekdb.wire.messages import ChangesPart, ClientHello, TentativeImage
from creekdb.wire.tentative import StagedChange


def change(index: int, event: int = 0) -> Change:
    writes = (("a", index),)
    return Change(index, Dot(0, event or index), 5, "put", (), True, None, None, None, writes, ())


def part(
    first: int, *indices: int, image: TentativeImage | None = None, newest: int = 9
) -> ChangesPart:
    bodies = (encode_changes([change(each) for each in indices]),) if indices else ()
    end = indices[-1] + 1 if indices else first
    return ChangesPart(1, "creek:1", first, end, newest, bodies, None, image)


async def make_stream(start: int = 1, **options: Any) -> ChangeStream:
    discovery = ReplicaDiscovery([("127.0.0.1", 1)], None, 0.1)
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


class ScriptedConnection:
    """Connection that responds to each request with the next part."""

    chunks_received = 0

    def __init__(self, stream: ChangeStream, *parts: ChangesPart) -> None:
        self._stream = stream
        self._parts = list(parts)

    def write(self, frame: bytes) -> None:
        response = msgspec.structs.replace(self._parts.pop(0), number=self._stream._number)
        self._stream._received.put_nowait(response)

    async def aclose(self) -> None:
        pass


async def test_a_stream_with_an_end_waits_for_a_replica_that_lags() -> None:
    stream = await make_stream(follow=False)
    stream._connection = ScriptedConnection(  # type: ignore[assignment]
        stream,
        part(1, 1, newest=3),
        part(2, 2, newest=2),  # of another replica
        part(3, newest=2),
        part(3, 3, newest=4),
    )

    assert [change.index async for change in stream] == [1, 2, 3]


async def test_a_stream_with_an_end_gives_up_a_change_that_was_lost() -> None:
    stream = await make_stream(2, follow=False)
    stream._take(part(2, newest=2))
    stream._take(part(2, newest=1))
    await asyncio.sleep(0.2)  # longer than the timeout of the discovery
    stream._take(part(2, newest=1))

    assert [change async for change in stream] == []


class SlowConnection:
    """Connection over which one response arrives in pieces."""

    def __init__(self, stream: ChangeStream, pieces: int) -> None:
        self.chunks_received = 0
        self._stream = stream
        self._pieces = pieces

    def write(self, frame: bytes) -> None:
        self._receive()

    def _receive(self) -> None:
        self.chunks_received += 1
        if self.chunks_received < self._pieces:
            asyncio.get_running_loop().call_later(0.1, self._receive)
        elif self.chunks_received == self._pieces:
            self._stream._received.put_nowait(part(1, 1))

    async def aclose(self) -> None:
        self._stream._received.put_nowait(None)


async def test_a_response_that_arrives_slowly_is_awaited() -> None:
    stream = await make_stream(poll_s=0.0, response_timeout_s=0.25)
    stream._connection = SlowConnection(stream, 6)  # type: ignore[assignment]

    assert (await anext(stream)).index == 1
