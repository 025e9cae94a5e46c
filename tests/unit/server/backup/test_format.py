"""Backup format: a backup is read as written."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import StorageFault, UsageError
from creekdb.execution.keys import collation_key
from creekdb.protocol.checkpoint.stream import InMemoryRegisterCursor
from creekdb.protocol.ids.version_vector import Dots
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


def write_backup(path: Path) -> BackupHeader:
    checkpoint = Checkpoint(1, 2, Dots(), 3, (("a", 1), ("b", 2)), (), ("c",))
    header = make_header(checkpoint)
    with open_backup_writer(path) as file:
        for chunk in encode_backup(header, InMemoryRegisterCursor(checkpoint), ()):
            file.write(chunk.data)
    return header


def test_a_damaged_byte_is_detected_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "one.backup"
    write_backup(path)
    data = path.read_bytes()
    for at in range(8, len(data)):  # after the magic number
        path.write_bytes(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
        with pytest.raises((StorageFault, UsageError)):
            read_header(path)


def test_a_truncated_or_longer_backup_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "one.backup"
    write_backup(path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises((StorageFault, UsageError)):
            read_header(path)
    path.write_bytes(data + b"x")
    with pytest.raises(StorageFault, match="it has data after its end"):
        read_header(path)


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "one.backup"
    write_backup(path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        write_backup(path)
    assert path.read_bytes() == before
    with open_backup_writer(path, force=True) as file:
        file.write(before)
    assert path.read_bytes() == before
