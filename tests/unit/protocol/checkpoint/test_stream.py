"""Drafts: what comes of them in the end is what would have been written at once."""

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


def checkpoint(held: int, deleted: int) -> Checkpoint:
    return Checkpoint(
        instance=7,
        length=3,
        ids=Dots({0: (1, 3)}),
        timestamp=99,
        state=tuple((("item", each), (each, "x" * (each % 50), None)) for each in range(held)),
        outcomes=((Dot(0, 1), Outcome(5)),),
        deleted=tuple(f"gone {each}" for each in range(deleted)),
    )


def image(of: Checkpoint) -> CheckpointRecord:
    request = Request(50, Dot(1, 9), Operation("put", ("a", 1)), False)
    accepted = AcceptedValue(8, Ballot(2, 1), (Dot(1, 9),))
    return CheckpointRecord(of, Ballot(2, 1), (accepted,), ((7, (Dot(1, 8),)),), (request,))


def drawn(draft: LazyCheckpoint, most: int) -> tuple[ArrayEncoder, ArrayEncoder]:
    held, deleted = ArrayEncoder(), ArrayEncoder()
    while (found := draft.registers.take(most)) is not None:
        assert len(found[0]) + len(found[1]) <= most
        held.extend(found[0])
        deleted.extend(found[1])
    return held, deleted


@pytest.mark.parametrize("most", [1, 15, 16, 70_000])
@pytest.mark.parametrize(("held", "deleted"), [(0, 0), (1, 0), (0, 1), (15, 16), (40, 33)])
def test_what_is_drawn_in_parts_is_the_whole(held: int, deleted: int, most: int) -> None:
    whole = checkpoint(held, deleted)
    draft = lazy_checkpoint_of(whole)
    assert (draft.checkpoint.state, draft.checkpoint.deleted) == ((), ())
    found: tuple[Any, ...] = drawn(draft, most)
    pieces = encode_chunks(image(draft.checkpoint), *found)
    assert decode_record(b"".join(pieces)) == image(whole)
    pieces = encode_chunks(Snapshot(draft.checkpoint), *found)
    assert decode_message(b"".join(pieces)) == Snapshot(whole)


def test_arrays_of_any_length_are_encoded_as_they_are_decoded() -> None:
    whole = checkpoint(70_000, 0)
    draft = lazy_checkpoint_of(whole)
    data = b"".join(encode_chunks(Snapshot(draft.checkpoint), *drawn(draft, 66_000)))
    assert decode_message(data) == decode_message(encode(Snapshot(whole)))
