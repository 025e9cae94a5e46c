"""Snapshots in parts: put together they are the whole, or nothing."""

import asyncio

import msgspec
import pytest

from creekdb.errors import MalformedMessage
from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.transaction import ABSENT
from creekdb.protocol import validation
from creekdb.protocol.checkpoint.stream import ArrayEncoder, AssembledSnapshot, EncodedCheckpoint
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import Ballot, Checkpoint, CheckpointRecord, Snapshot, decode_record
from creekdb.protocol.request import Outcome
from creekdb.protocol.settings import Settings
from creekdb.server.storage.checkpoint_writer import REGISTERS_PER_TURN_MAX, EncodedSnapshot
from creekdb.server.transport import snapshot_transfer
from creekdb.server.transport.snapshot_transfer import (
    SnapshotAssembler,
    discard_gradually,
    snapshot_frames,
)
from creekdb.wire.messages import (
    PEER_FRAME_BYTES_MAX,
    FrameDecoder,
    SnapshotPart,
    decode_peer_message,
    frame_payload,
)

BARE = Snapshot(Checkpoint(4, 0, Dots(), 9, (), ()))
STATE = tuple((("item", each), (each, "x" * 50)) for each in range(1000))
DELETED = tuple(f"gone {each}" for each in range(300))


def drawn(
    state: tuple[object, ...] = STATE, deleted: tuple[object, ...] = DELETED
) -> EncodedSnapshot:
    held, gone = ArrayEncoder(), ArrayEncoder()
    for first in range(0, len(state), 64):
        held.extend(state[first : first + 64])
    for first in range(0, len(deleted), 64):
        gone.extend(deleted[first : first + 64])
    return EncodedSnapshot(1, BARE, held, gone)


def new_assembly() -> SnapshotAssembler:
    return SnapshotAssembler(lambda: StateLoader(EmptyBase(), digested=True))


def whole(brought: Snapshot | AssembledSnapshot) -> Snapshot:
    """As it is where it comes in one message; and that it would be on disk like that."""
    if isinstance(brought, Snapshot):
        return brought
    intake, checkpoint = brought.loader, brought.checkpoint
    assert isinstance(intake, StateLoader)
    assert intake.has_unique_keys()
    state = tuple([item for item in intake.registers.items() if item[1] is not ABSENT])
    deleted = tuple([key for key, value in intake.registers.items() if value is ABSENT])
    complete = msgspec.structs.replace(checkpoint, state=state, deleted=deleted)
    image = CheckpointRecord(complete, Ballot(1, 2), (), ((3, (Dot(1, 1),)),), ())
    bare = msgspec.structs.replace(image, checkpoint=checkpoint)
    pieces = EncodedCheckpoint(0, bare, brought.live, brought.deleted).chunks()
    assert decode_record(b"".join(pieces)) == image
    return Snapshot(complete)


def heard(frames: list[bytes]) -> Snapshot:
    assembly = new_assembly()
    for payload in FrameDecoder(PEER_FRAME_BYTES_MAX).feed(b"".join(frames)):
        message = decode_peer_message(payload)
        if isinstance(message, SnapshotPart):
            assembly.add(message)
        else:
            assert isinstance(message, Snapshot)
            return whole(assembly.assemble(message))
    raise AssertionError("there was no snapshot")


@pytest.mark.parametrize("part_bytes", [1, 5000, 10**9])
def test_parts_make_the_whole(part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_transfer, "PART_BYTES", part_bytes)
    complete = Snapshot(Checkpoint(4, 0, Dots(), 9, STATE, (), DELETED))
    assert heard(list(snapshot_frames(drawn()))) == complete


def test_a_snapshot_of_nothing_has_no_parts() -> None:
    frames = list(snapshot_frames(drawn((), ())))
    assert len(frames) == 1
    assert heard(frames) == BARE


def test_a_part_that_is_missing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_transfer, "PART_BYTES", 1)
    frames = list(snapshot_frames(drawn()))
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
    frames = list(snapshot_frames(drawn()._replace(snapshot=told)))

    assert len(frames[-1]) <= 1000
    assert heard(frames) == Snapshot(Checkpoint(4, 0, Dots(), 9, STATE, (), DELETED))


def test_frames_are_made_when_they_are_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_transfer, "PART_BYTES", 1)
    made = list[int]()

    def making(payload: bytes) -> bytes:
        made.append(len(payload))
        return frame_payload(payload)

    monkeypatch.setattr(snapshot_transfer, "framed", making)
    frames = snapshot_frames(drawn())
    for count in (1, 2, 3):
        next(frames)
        assert len(made) == count


def test_registers_are_taken_in_as_they_come() -> None:
    """With the last one there is nothing left to do for the others."""
    arrivals = StateLoader(EmptyBase(), digested=True)
    assembly = SnapshotAssembler(lambda: arrivals)
    first, last = (
        SnapshotPart(0, 1, (("a", (1, [2])),), ()),
        SnapshotPart(1, 0, (("b", {"c": [3]}),), ()),
    )
    assembly.add(first)
    assert arrivals.registers == {"a": (1, (2,))}
    assembly.add(last)
    brought = assembly.assemble(BARE)

    assert isinstance(brought, AssembledSnapshot)
    assert brought.loader is arrivals
    assert arrivals.registers == {"a": (1, (2,)), "b": {"c": (3,)}}
    assert brought.checkpoint.state == ()
    assert assembly.assemble(BARE) == BARE, "it begins anew"


def test_who_the_members_are_is_told_with_the_rest() -> None:
    assembly = new_assembly()
    members = (MEMBERSHIP_KEY, (1, ((0, ""), (3, "")), (1, 2)))
    assembly.add(SnapshotPart(0, 1, (("a", 1), members), ()))
    assembly.add(SnapshotPart(2, 0, (("b", 2),), ()))
    assert assembly.assemble(BARE).checkpoint.state == (members,)


def test_a_register_that_comes_twice_is_noticed() -> None:
    assembly = new_assembly()
    assembly.add(SnapshotPart(0, 1, (("a", 1),), ()))
    assembly.add(SnapshotPart(1, 0, (("a", 2),), ()))
    brought = assembly.assemble(BARE)
    assert isinstance(brought, AssembledSnapshot)
    settings = Settings(members=(0, 1))
    assert validation.rejection_reason(brought, 1, settings) == validation.BAD_CHECKPOINT


def test_what_is_not_wanted_is_given_up_in_turns() -> None:
    arrivals = StateLoader(EmptyBase(), digested=False)
    arrivals.add([(each, each) for each in range(REGISTERS_PER_TURN_MAX * 3)], ())
    turns = 0

    async def story() -> None:
        nonlocal turns
        discard_gradually(arrivals)
        while arrivals.registers or arrivals.keys:
            before = len(arrivals.registers)
            await asyncio.sleep(0)
            assert before - len(arrivals.registers) <= REGISTERS_PER_TURN_MAX
            turns += 1

    asyncio.run(story())
    assert turns == 2
