"""Offsets of streams, as Spark stores them in a checkpoint."""

import json
from typing import Any

import pytest

from creekdb.client.snapshots import SnapshotTicket
from creekdb.errors import UsageError
from creekdb.pipeline.source.offsets import StreamOffset, parse_offset

TICKET = SnapshotTicket("id", ("127.0.0.1", 7100), "creek:1", 41, ("a", ("b", 7)), ("x",))


@pytest.mark.parametrize(
    "offset",
    [StreamOffset(), StreamOffset("creek:1", 42), StreamOffset("creek:1", 42, TICKET)],
)
def test_a_stored_offset_is_read_back(offset: StreamOffset) -> None:
    stored = json.dumps(offset.to_json())

    assert parse_offset(json.loads(stored)) == offset
    assert json.dumps(parse_offset(json.loads(stored)).to_json()) == stored


@pytest.mark.parametrize(
    "stored", [{}, {"topic": 3}, {"cluster": "a", "index": 1, "snapshot": "{"}, {"index": None}]
)
def test_a_checkpoint_of_another_source_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="which is not one of format creek"):
        parse_offset(stored)
