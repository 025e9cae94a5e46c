"""Streamed checkpoints and snapshots: their encoding equals that of the whole."""

from typing import Any

import pytest

from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    LazyCheckpoint,
    encode_chunks,
    lazy_checkpoint_of,
)
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import (
    AcceptedValue,
    Ballot,
    Checkpoint,
    CheckpointRecord,
    Snapshot,
    decode_message,
    decode_record,
    encode,
)
from creekdb.protocol.request import Operation, Outcome, Request


def checkpoint(live: int, deleted: int) -> Checkpoint:
    return Checkpoint(
        instance=7,
        length=3,
        ids=Dots({0: (1, 3)}),
        timestamp=99,
        state=tuple((("item", each), (each, "x" * (each % 50), None)) for each in range(live)),
        outcomes=((Dot(0, 1), Outcome(5)),),
        deleted=tuple(f"deleted {each}" for each in range(deleted)),
    )


def record_of(checkpoint: Checkpoint) -> CheckpointRecord:
    request = Request(50, Dot(1, 9), Operation("put", ("a", 1)), False)
    accepted = AcceptedValue(8, Ballot(2, 1), (Dot(1, 9),))
    return CheckpointRecord(checkpoint, Ballot(2, 1), (accepted,), ((7, (Dot(1, 8),)),), (request,))


def encode_registers(lazy: LazyCheckpoint, limit: int) -> tuple[ArrayEncoder, ArrayEncoder]:
    live, deleted = ArrayEncoder(), ArrayEncoder()
    while (taken := lazy.registers.take(limit)) is not None:
        assert len(taken[0]) + len(taken[1]) <= limit
        live.extend(taken[0])
        deleted.extend(taken[1])
    return live, deleted


@pytest.mark.parametrize("limit", [1, 15, 16, 70_000])
@pytest.mark.parametrize(("live", "deleted"), [(0, 0), (1, 0), (0, 1), (15, 16), (40, 33)])
def test_streamed_encoding_decodes_to_the_whole(live: int, deleted: int, limit: int) -> None:
    whole = checkpoint(live, deleted)
    lazy = lazy_checkpoint_of(whole)
    assert (lazy.checkpoint.state, lazy.checkpoint.deleted) == ((), ())
    taken: tuple[Any, ...] = encode_registers(lazy, limit)
    chunks = encode_chunks(record_of(lazy.checkpoint), *taken)
    assert decode_record(b"".join(chunks)) == record_of(whole)
    chunks = encode_chunks(Snapshot(lazy.checkpoint), *taken)
    assert decode_message(b"".join(chunks)) == Snapshot(whole)


def test_arrays_of_any_length_round_trip() -> None:
    whole = checkpoint(70_000, 0)
    lazy = lazy_checkpoint_of(whole)
    data = b"".join(encode_chunks(Snapshot(lazy.checkpoint), *encode_registers(lazy, 66_000)))
    assert decode_message(data) == decode_message(encode(Snapshot(whole)))
