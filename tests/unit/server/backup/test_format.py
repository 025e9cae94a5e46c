"""Backup format: a backup is read as written."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.keys import collation_key
from creekdb.protocol.checkpoint.stream import InMemoryRegisterCursor
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Request
from creekdb.server.backup import format
from creekdb.server.backup.format import (
    BackupHeader,
    encode_backup,
    open_backup_writer,
    read_checkpoint,
    read_header,
    read_requests,
)
from tests.unit.protocol.strategies import checkpoints, keys, request_tuples


def make_header(checkpoint: Checkpoint) -> BackupHeader:
    return BackupHeader(
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


def canonical_bytes(checkpoint: Checkpoint) -> bytes:
    """Encode a checkpoint with sorted registers, without the outcomes, which a backup omits."""
    return msgspec.msgpack.encode(
        msgspec.structs.replace(
            checkpoint,
            state=tuple(sorted(checkpoint.state, key=lambda item: collation_key(item[0]))),
            deleted=tuple(sorted(checkpoint.deleted, key=collation_key)),
            outcomes=(),
        )
    )


@given(
    checkpoints,
    st.lists(keys, unique=True, max_size=3).map(tuple),
    request_tuples,
    st.sampled_from([1, 30, 1000]),
)
def test_backup_is_read_as_written(
    checkpoint: Checkpoint,
    deleted: tuple[Any, ...],
    requests: tuple[Request, ...],
    block_bytes: int,
) -> None:
    checkpoint = msgspec.structs.replace(checkpoint, deleted=deleted)
    header = make_header(checkpoint)
    with TemporaryDirectory() as directory, patch.object(format, "BLOCK_BYTES", block_bytes):
        path = Path(directory) / "one.backup"
        with open_backup_writer(path) as file:
            for chunk in encode_backup(header, InMemoryRegisterCursor(checkpoint), requests):
                file.write(chunk.data)
        assert read_header(path) == header
        assert canonical_bytes(read_checkpoint(path, header)) == canonical_bytes(checkpoint)
        assert tuple(read_requests(path)) == requests
