"""Backup format: a committed prefix of a cluster in one file.

    start    magic, version of the schema
    blocks   length, then a message in msgpack: first `BackupHeader`, then the others
    end      a length of zero, and the SHA-256 of everything before it

The replica encodes the bytes (`encode_backup`), and the client writes them as they arrive. A file
is read twice: its checksum is verified before its contents are decoded. A damaged file, or a file
of another kind, is rejected with the reason.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import msgspec

from creekdb.atomic_write import atomic_write
from creekdb.errors import DECODE_ERRORS, StorageFault, UsageError
from creekdb.execution.keys import collation_key
from creekdb.protocol.checkpoint import stream
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key, freeze

SCHEMA_VERSION: Final = 1
"""Version of the schema. Raised whenever a reader of the old schema would misread the new one."""
BLOCK_BYTES: Final = 256 * 1024
"""Size at which a block ends, in bytes. A large register can make a block longer."""
REGISTERS_PER_READ: Final = 256
"""Upper bound for the registers that are read at a time."""

_MAGIC = b"CREEKBAK"
_START = struct.Struct(">8sI")
_LENGTH = struct.Struct(">I")
_READ_BYTES = 1024 * 1024


class BackupHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Origin and extent of a backup."""

    cluster: str
    replica: int
    """Replica that encoded the backup."""
    members: tuple[int, ...]
    datatype: str
    """Name of the data type."""
    imported: str
    """Name or import path by which the replica loaded the data type."""
    scheme: str
    release: str
    """Release of Creek that wrote the backup."""
    taken_us: int
    """Time of the capture by the replica's clock, in microseconds."""
    length: int
    """Commit index: the number of requests that led to the state."""
    instance: int
    ids: Dots
    timestamp: int
    first: int
    """Commit index of the first request in the operation blocks."""


class RegisterBlock(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Registers with their values, in any order, including the outcomes of clients' calls."""

    items: tuple[tuple[Key, Any], ...]

    def __post_init__(self) -> None:
        items = tuple([(key, freeze(value)) for key, value in self.items])
        msgspec.structs.force_setattr(self, "items", items)


class DeletedBlock(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Registers of the data type's initial state that have been deleted."""

    keys: tuple[Key, ...]


class OperationBlock(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Last requests of the prefix, in their order."""

    requests: tuple[Request, ...]


BackupBlock: TypeAlias = RegisterBlock | DeletedBlock | OperationBlock

_encode = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(BackupHeader).decode
_decode_block = msgspec.msgpack.Decoder(BackupBlock).decode


# --- encoding ---------------------------------------------------------------------------------


class EncodedChunk(NamedTuple):
    """Bytes of a backup, with the progress."""

    data: bytes
    registers_done: int
    """Number of registers in this chunk and all earlier ones."""


def encode_backup(
    header: BackupHeader, state: stream.RegisterCursor, requests: Iterable[Request]
) -> Iterator[EncodedChunk]:
    """Yield the bytes of a backup. Each chunk is encoded on demand."""
    checksum = hashlib.sha256()
    done = 0
    for data, registers in _encode_blocks(header, state, requests):
        checksum.update(data)
        done += registers
        yield EncodedChunk(data, done)
    yield EncodedChunk(checksum.digest(), done)


def _encode_blocks(
    header: BackupHeader, state: stream.RegisterCursor, requests: Iterable[Request]
) -> Iterator[tuple[bytes, int]]:
    yield _START.pack(_MAGIC, SCHEMA_VERSION) + _encode_block(header), 0
    deleted: list[Key] = []
    for items in _split_by_size(_read_registers(state, deleted)):
        yield _encode_block(RegisterBlock(items)), len(items)
    for keys in _split_by_size(deleted):
        yield _encode_block(DeletedBlock(keys)), 0
    for batch in _split_by_size(requests):
        yield _encode_block(OperationBlock(batch)), 0
    yield _LENGTH.pack(0), 0


def _read_registers(state: stream.RegisterCursor, deleted: list[Key]) -> Iterator[tuple[Key, Any]]:
    while (batch := state.take(REGISTERS_PER_READ)) is not None:
        items, keys = batch
        deleted += keys
        yield from items


def _encode_block(message: BackupHeader | BackupBlock) -> bytes:
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


def _split_by_size(items: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    batch: list[Any] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(_encode(item))
        if size >= BLOCK_BYTES:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


# --- writing ----------------------------------------------------------------------------------


@contextmanager
def open_backup_writer(path: Path, force: bool = False) -> Iterator[BinaryIO]:
    """Open a file for a backup. The file gets its name when it is complete and durable.

    On an error, no file remains. An existing file is replaced only with `force`.
    """
    reject_existing(path, force)
    try:
        with atomic_write(path, durable=True, shared=True) as partial:
            partial.touch(0o600, exist_ok=False)
            with partial.open("wb") as file:
                yield file
            read_header(partial)
            reject_existing(path, force)
    except OSError as error:
        raise StorageFault(f"cannot write {path}: {error.strerror or error}") from error


def reject_existing(path: Path, force: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a directory; name a file in it")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already; name another file, or replace it with --force")


# --- reading ----------------------------------------------------------------------------------


def read_header(path: Path) -> BackupHeader:
    """Verify the whole file, and return its header.

    Raise `UsageError` for a file that is no backup or has another schema, and `StorageFault` for a
    damaged backup.
    """
    try:
        with path.open("rb") as file:
            _verify_checksum(path, file)
            file.seek(_START.size)
            return _decode_header(_read_block(file))
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    except DECODE_ERRORS as error:
        raise _damage_error(path, f"its header is invalid ({error})") from error


def read_blocks(path: Path) -> Iterator[BackupBlock]:
    """Yield the blocks after the header. `read_header` must have verified the backup."""
    try:
        with path.open("rb") as file:
            file.seek(_START.size)
            _read_block(file)
            while body := _read_block(file):
                yield _decode_block(body)
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    except DECODE_ERRORS as error:
        raise _damage_error(path, f"a block is invalid ({error})") from error


def read_checkpoint(path: Path, header: BackupHeader) -> Checkpoint:
    """Return the whole state, in memory."""
    state: list[tuple[Key, Any]] = []
    deleted: list[Key] = []
    for block in read_blocks(path):
        match block:
            case RegisterBlock(items=items):
                state += items
            case DeletedBlock(keys=keys):
                deleted += keys
            case OperationBlock():
                pass
    state.sort(key=lambda item: collation_key(item[0]))
    deleted.sort(key=collation_key)
    return Checkpoint(
        instance=header.instance,
        length=header.length,
        ids=header.ids,
        timestamp=header.timestamp,
        state=tuple(state),
        outcomes=(),
        deleted=tuple(deleted),
    )


def read_registers(path: Path) -> Iterator[tuple[Key, Any]]:
    for block in read_blocks(path):
        if isinstance(block, RegisterBlock):
            yield from block.items


def read_requests(path: Path) -> Iterator[Request]:
    for block in read_blocks(path):
        if isinstance(block, OperationBlock):
            yield from block.requests


def _verify_checksum(path: Path, file: BinaryIO) -> None:
    start = file.read(_START.size)
    if start[: len(_MAGIC)] != _MAGIC:
        raise UsageError(f"{path} is not a backup; 'creek backup' creates one")
    if len(start) < _START.size:
        raise _damage_error(path, "it is truncated")
    _, version = _START.unpack(start)
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"cannot read {path}: it has schema version {version}, this release reads version "
            f"{SCHEMA_VERSION}; use the release that wrote it"
        )
    checksum = hashlib.sha256(start)
    while True:
        prefix = file.read(_LENGTH.size)
        checksum.update(prefix)
        if len(prefix) < _LENGTH.size:
            raise _damage_error(path, "it is truncated")
        (remaining,) = _LENGTH.unpack(prefix)
        if not remaining:
            break
        while remaining:
            data = file.read(min(remaining, _READ_BYTES))
            if not data:
                raise _damage_error(path, "it is truncated")
            checksum.update(data)
            remaining -= len(data)
    stored = file.read(checksum.digest_size)
    if len(stored) < checksum.digest_size:
        raise _damage_error(path, "it is truncated")
    if stored != checksum.digest():
        raise _damage_error(path, "its checksum does not match")
    if file.read(1):
        raise _damage_error(path, "it has data after its end")


def _read_block(file: BinaryIO) -> bytes:
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    return file.read(length)


def _damage_error(path: Path, cause: str) -> StorageFault:
    return StorageFault(f"{path} is damaged: {cause}; nothing was changed, use another backup")
