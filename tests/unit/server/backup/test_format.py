"""What is written to a backup is what is read from it."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.keys import place
from creekdb.protocol.checkpoint.stream import Collected
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Request
from creekdb.server.backup import format
from creekdb.server.backup.format import (
    Head,
    checkpoint_of,
    encoded,
    kept_as,
    read_head,
    requests_of,
)
from tests.unit.protocol.strategies import checkpoints, keys, request_tuples


def head_of(checkpoint: Checkpoint) -> Head:
    return Head(
        cluster="shop",
        replica=0,
        members=(0, 1, 2),
        datatype="kv",
        imported="kv",
        scheme="creek",
        release="0",
        taken_us=1,
        length=checkpoint.length,
        instance=checkpoint.instance,
        ids=checkpoint.ids,
        timestamp=checkpoint.timestamp,
        first=0,
    )


def in_order(checkpoint: Checkpoint) -> Any:
    """As it travels; without what only replicas of the same cluster need."""
    return msgspec.msgpack.encode(
        msgspec.structs.replace(
            checkpoint,
            state=tuple(sorted(checkpoint.state, key=lambda item: place(item[0]))),
            deleted=tuple(sorted(checkpoint.deleted, key=place)),
            outcomes=(),
        )
    )


@given(
    checkpoints,
    st.lists(keys, unique=True, max_size=3).map(tuple),
    request_tuples,
    st.sampled_from([1, 30, 1000]),
)
def test_whatever_it_holds(
    checkpoint: Checkpoint,
    deleted: tuple[Any, ...],
    requests: tuple[Request, ...],
    block_bytes: int,
) -> None:
    checkpoint = msgspec.structs.replace(checkpoint, deleted=deleted)
    head = head_of(checkpoint)
    with TemporaryDirectory() as folder, patch.object(format, "BLOCK_BYTES", block_bytes):
        path = Path(folder) / "one.backup"
        with kept_as(path) as file:
            for piece in encoded(head, Collected(checkpoint), requests):
                file.write(piece.data)
        assert read_head(path) == head
        assert in_order(checkpoint_of(path, head)) == in_order(checkpoint)
        assert tuple(requests_of(path)) == requests
