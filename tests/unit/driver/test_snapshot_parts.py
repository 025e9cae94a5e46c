"""Snapshots in parts: the assembled snapshot is complete, or rejected."""

import msgspec
import pytest

from creekdb.driver.snapshot_parts import SnapshotAssembler, snapshot_payloads
from creekdb.errors import MalformedMessage
from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.transaction import ABSENT
from creekdb.protocol import validation
from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    AssembledSnapshot,
    EncodedCheckpoint,
    EncodedSnapshot,
)
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import Ballot, Checkpoint, CheckpointRecord, Snapshot, decode_record
from creekdb.protocol.request import Outcome
from creekdb.protocol.settings import Settings
from creekdb.wire.messages import PEER_FRAME_BYTES_MAX, SnapshotPart, decode_peer_message

BARE = Snapshot(Checkpoint(4, 0, Dots(), 9, (), ()))
STATE = tuple((("item", each), (each, "x" * 50)) for each in range(1000))
DELETED = tuple(f"deleted {each}" for each in range(300))


def encoded_snapshot(
    state: tuple[object, ...] = STATE, deleted: tuple[object, ...] = DELETED
) -> EncodedSnapshot:
    live_array, deleted_array = ArrayEncoder(), ArrayEncoder()
    for first in range(0, len(state), 64):
        live_array.extend(state[first : first + 64])
    for first in range(0, len(deleted), 64):
        deleted_array.extend(deleted[first : first + 64])
    return EncodedSnapshot(1, BARE, live_array, deleted_array)


def new_assembler() -> SnapshotAssembler:
    return SnapshotAssembler(lambda: StateLoader(EmptyBase(), with_digest=True))


def as_single_message(received: Snapshot | AssembledSnapshot) -> Snapshot:
    """Return the snapshot as one message, and check that its checkpoint on disk is equal."""
    if isinstance(received, Snapshot):
        return received
    loader, checkpoint = received.loader, received.checkpoint
    assert isinstance(loader, StateLoader)
    assert loader.has_unique_keys()
    state = tuple([item for item in loader.registers.items() if item[1] is not ABSENT])
    deleted = tuple([key for key, value in loader.registers.items() if value is ABSENT])
    complete = msgspec.structs.replace(checkpoint, state=state, deleted=deleted)
    record = CheckpointRecord(complete, Ballot(1, 2), (), ((3, (Dot(1, 1),)),), ())
    bare = msgspec.structs.replace(record, checkpoint=checkpoint)
    chunks = EncodedCheckpoint(0, bare, received.live, received.deleted).chunks()
    assert decode_record(b"".join(chunks)) == record
    return Snapshot(complete)


def payloads_of(
    encoded: EncodedSnapshot, payload_bytes_max: int = PEER_FRAME_BYTES_MAX, part_bytes: int = 1
) -> list[bytes]:
    return list(snapshot_payloads(encoded, payload_bytes_max, part_bytes))


def received_snapshot(payloads: list[bytes]) -> Snapshot:
    assembler = new_assembler()
    for payload in payloads:
        message = decode_peer_message(payload)
        if isinstance(message, SnapshotPart):
            assembler.add(message)
        else:
            assert isinstance(message, Snapshot)
            return as_single_message(assembler.assemble(message))
    raise AssertionError("no snapshot was received")


@pytest.mark.parametrize("part_bytes", [1, 5000, 10**9])
def test_parts_assemble_to_the_original_snapshot(part_bytes: int) -> None:
    complete = Snapshot(Checkpoint(4, 0, Dots(), 9, STATE, (), DELETED))
    assert received_snapshot(payloads_of(encoded_snapshot(), part_bytes=part_bytes)) == complete


def test_an_empty_snapshot_has_no_parts() -> None:
    payloads = payloads_of(encoded_snapshot((), ()))
    assert len(payloads) == 1
    assert received_snapshot(payloads) == BARE


def test_a_missing_part_is_detected() -> None:
    payloads = payloads_of(encoded_snapshot())
    assert len(payloads) == 22
    for missing in range(len(payloads) - 1):
        with pytest.raises(MalformedMessage, match="part"):
            received_snapshot(payloads[:missing] + payloads[missing + 1 :])


def test_too_many_registers_are_rejected() -> None:
    assembler = SnapshotAssembler(
        lambda: StateLoader(EmptyBase(), with_digest=True), registers_max=2
    )
    with pytest.raises(MalformedMessage, match="more than 2 registers"):
        assembler.add(SnapshotPart(0, 2, (("a", 1),), ()))


def test_a_part_cannot_evade_the_limit_with_a_negative_count() -> None:
    with pytest.raises(MalformedMessage, match="does not continue"):
        new_assembler().add(SnapshotPart(0, -1, (("a", 1),), ()))


def test_outcomes_that_exceed_the_limit_are_omitted() -> None:
    outcomes = tuple((Dot(1, each), Outcome("x" * 100)) for each in range(1, 20))
    with_outcomes = Snapshot(Checkpoint(4, 0, Dots(), 9, (), outcomes))
    payloads = payloads_of(encoded_snapshot()._replace(snapshot=with_outcomes), 1000)

    assert len(payloads[-1]) <= 1000
    size = len(payloads_of(encoded_snapshot()._replace(snapshot=with_outcomes))[-1])
    for limit, is_complete in ((size, True), (size - 1, False)):
        payload = payloads_of(encoded_snapshot()._replace(snapshot=with_outcomes), limit)[-1]
        assert (len(payload) == size) is is_complete
    assert received_snapshot(payloads) == Snapshot(Checkpoint(4, 0, Dots(), 9, STATE, (), DELETED))


def test_parts_are_encoded_when_they_are_sent() -> None:
    """Chunks that are removed before their turn are in no part."""
    complete = list(snapshot_payloads(encoded_snapshot(), PEER_FRAME_BYTES_MAX, part_bytes=1))
    encoded = encoded_snapshot()
    payloads = snapshot_payloads(encoded, PEER_FRAME_BYTES_MAX, part_bytes=1)
    first = next(payloads)
    removed = len(encoded.live.chunks_by_count) - 1
    del encoded.live.chunks_by_count[1:]

    assert first == complete[0]
    assert removed > 0
    assert len(list(payloads)) == len(complete) - 1 - removed


def test_registers_are_loaded_as_they_arrive() -> None:
    """The last part leaves no work for the others."""
    loader = StateLoader(EmptyBase(), with_digest=True)
    assembler = SnapshotAssembler(lambda: loader)
    first, last = (
        SnapshotPart(0, 1, (("a", (1, [2])),), ()),
        SnapshotPart(1, 0, (("b", {"c": [3]}),), ()),
    )
    assembler.add(first)
    assert loader.registers == {"a": (1, (2,))}
    assembler.add(last)
    received = assembler.assemble(BARE)

    assert isinstance(received, AssembledSnapshot)
    assert received.loader is loader
    assert loader.registers == {"a": (1, (2,)), "b": {"c": (3,)}}
    assert received.checkpoint.state == ()
    assert assembler.assemble(BARE) == BARE, "the next transfer starts again"


def test_the_assembled_checkpoint_contains_the_membership() -> None:
    assembler = new_assembler()
    members = (MEMBERSHIP_KEY, (1, ((0, ""), (3, "")), (1, 2)))
    assembler.add(SnapshotPart(0, 1, (("a", 1), members), ()))
    assembler.add(SnapshotPart(2, 0, (("b", 2),), ()))
    assert assembler.assemble(BARE).checkpoint.state == (members,)


def test_a_duplicate_register_is_detected() -> None:
    assembler = new_assembler()
    assembler.add(SnapshotPart(0, 1, (("a", 1),), ()))
    assembler.add(SnapshotPart(1, 0, (("a", 2),), ()))
    received = assembler.assemble(BARE)
    assert isinstance(received, AssembledSnapshot)
    settings = Settings(members=(0, 1))
    assert (
        validation.rejection_reason(received, 1, settings)
        == validation.MessageRejection.BAD_CHECKPOINT
    )
