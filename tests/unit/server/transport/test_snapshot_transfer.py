"""Snapshots in parts: put together they are the whole, or nothing."""

import asyncio

import msgspec
import pytest

from creekdb.errors import MalformedMessage
from creekdb.execution.base_state import Nothing
from creekdb.execution.mvcc.state_loader import Arrivals
from creekdb.execution.transaction import ABSENT
from creekdb.protocol import validation
from creekdb.protocol.checkpoint.stream import Array, Brought, DrawnImage
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import REGISTER
from creekdb.protocol.messages import Ballot, Checkpoint, Image, Snapshot, decode_record
from creekdb.protocol.request import Outcome
from creekdb.protocol.settings import Settings
from creekdb.server.storage.checkpoint_writer import REGISTERS_MAX, DrawnSnapshot
from creekdb.server.transport import snapshot_transfer
from creekdb.server.transport.snapshot_transfer import Assembly, frames_of, give_up
from creekdb.wire.messages import PEER_FRAME_MAX, Frames, Part, framed, from_peer

BARE = Snapshot(Checkpoint(4, 0, Dots(), 9, (), ()))
STATE = tuple((("item", each), (each, "x" * 50)) for each in range(1000))
DELETED = tuple(f"gone {each}" for each in range(300))


def drawn(
    state: tuple[object, ...] = STATE, deleted: tuple[object, ...] = DELETED
) -> DrawnSnapshot:
    held, gone = Array(), Array()
    for first in range(0, len(state), 64):
        held.extend(state[first : first + 64])
    for first in range(0, len(deleted), 64):
        gone.extend(deleted[first : first + 64])
    return DrawnSnapshot(1, BARE, held, gone)


def new_assembly() -> Assembly:
    return Assembly(lambda: Arrivals(Nothing(), digested=True))


def whole(brought: Snapshot | Brought) -> Snapshot:
    """As it is where it comes in one message; and that it would be on disk like that."""
    if isinstance(brought, Snapshot):
        return brought
    intake, checkpoint = brought.intake, brought.checkpoint
    assert isinstance(intake, Arrivals)
    assert intake.is_sound()
    state = tuple([item for item in intake.held.items() if item[1] is not ABSENT])
    deleted = tuple([key for key, value in intake.held.items() if value is ABSENT])
    complete = msgspec.structs.replace(checkpoint, state=state, deleted=deleted)
    image = Image(complete, Ballot(1, 2), (), ((3, (Dot(1, 1),)),), ())
    bare = msgspec.structs.replace(image, checkpoint=checkpoint)
    pieces = DrawnImage(0, bare, brought.held, brought.deleted).pieces()
    assert decode_record(b"".join(pieces)) == image
    return Snapshot(complete)


def heard(frames: list[bytes]) -> Snapshot:
    assembly = new_assembly()
    for payload in Frames(PEER_FRAME_MAX).feed(b"".join(frames)):
        message = from_peer(payload)
        if isinstance(message, Part):
            assembly.add(message)
        else:
            assert isinstance(message, Snapshot)
            return whole(assembly.whole(message))
    raise AssertionError("there was no snapshot")


@pytest.mark.parametrize("part_bytes", [1, 5000, 10**9])
def test_parts_make_the_whole(part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_transfer, "PART_BYTES", part_bytes)
    complete = Snapshot(Checkpoint(4, 0, Dots(), 9, STATE, (), DELETED))
    assert heard(list(frames_of(drawn()))) == complete


def test_a_snapshot_of_nothing_has_no_parts() -> None:
    frames = list(frames_of(drawn((), ())))
    assert len(frames) == 1
    assert heard(frames) == BARE


def test_a_part_that_is_missing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_transfer, "PART_BYTES", 1)
    frames = list(frames_of(drawn()))
    assert len(frames) == 22
    for missing in range(len(frames) - 1):
        with pytest.raises(MalformedMessage, match="part"):
            heard(frames[:missing] + frames[missing + 1 :])


def test_answers_that_make_a_snapshot_too_long_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_transfer, "PEER_FRAME_MAX", 1000)
    outcomes = tuple((Dot(1, each), Outcome("x" * 100)) for each in range(1, 20))
    told = Snapshot(Checkpoint(4, 0, Dots(), 9, (), outcomes))
    frames = list(frames_of(drawn()._replace(snapshot=told)))

    assert len(frames[-1]) <= 1000
    assert heard(frames) == Snapshot(Checkpoint(4, 0, Dots(), 9, STATE, (), DELETED))


def test_frames_are_made_when_they_are_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_transfer, "PART_BYTES", 1)
    made = list[int]()

    def making(payload: bytes) -> bytes:
        made.append(len(payload))
        return framed(payload)

    monkeypatch.setattr(snapshot_transfer, "framed", making)
    frames = frames_of(drawn())
    for count in (1, 2, 3):
        next(frames)
        assert len(made) == count


def test_registers_are_taken_in_as_they_come() -> None:
    """With the last one there is nothing left to do for the others."""
    arrivals = Arrivals(Nothing(), digested=True)
    assembly = Assembly(lambda: arrivals)
    first, last = Part(0, 1, (("a", (1, [2])),), ()), Part(1, 0, (("b", {"c": [3]}),), ())
    assembly.add(first)
    assert arrivals.held == {"a": (1, (2,))}
    assembly.add(last)
    brought = assembly.whole(BARE)

    assert isinstance(brought, Brought)
    assert brought.intake is arrivals
    assert arrivals.held == {"a": (1, (2,)), "b": {"c": (3,)}}
    assert brought.checkpoint.state == ()
    assert assembly.whole(BARE) == BARE, "it begins anew"


def test_who_the_members_are_is_told_with_the_rest() -> None:
    assembly = new_assembly()
    members = (REGISTER, (1, ((0, ""), (3, "")), (1, 2)))
    assembly.add(Part(0, 1, (("a", 1), members), ()))
    assembly.add(Part(2, 0, (("b", 2),), ()))
    assert assembly.whole(BARE).checkpoint.state == (members,)


def test_a_register_that_comes_twice_is_noticed() -> None:
    assembly = new_assembly()
    assembly.add(Part(0, 1, (("a", 1),), ()))
    assembly.add(Part(1, 0, (("a", 2),), ()))
    brought = assembly.whole(BARE)
    assert isinstance(brought, Brought)
    settings = Settings(members=(0, 1))
    assert validation.problem(brought, 1, settings) == validation.BAD_CHECKPOINT


def test_what_is_not_wanted_is_given_up_in_turns() -> None:
    arrivals = Arrivals(Nothing(), digested=False)
    arrivals.add([(each, each) for each in range(REGISTERS_MAX * 3)], ())
    turns = 0

    async def story() -> None:
        nonlocal turns
        give_up(arrivals)
        while arrivals.held or arrivals.keys:
            before = len(arrivals.held)
            await asyncio.sleep(0)
            assert before - len(arrivals.held) <= REGISTERS_MAX
            turns += 1

    asyncio.run(story())
    assert turns == 2
