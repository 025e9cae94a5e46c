"""Backups: a committed prefix of a cluster in one file.

    start    magic, version of the schema
    blocks   length, and then a message in msgpack: first `BackupHeader`, then the others
    end      a length of zero, and the SHA-256 of everything before it

The replica that was asked makes these bytes (`encoded`); whoever keeps them writes them as they
come. A file is read twice: it is found to be whole before anything in it is looked at. Whatever is
not whole, or not what it is taken for, is refused with the reason.
"""

import hashlib
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import msgspec

from creekdb.errors import StorageFault, UsageError
from creekdb.execution.keys import collation_key
from creekdb.protocol.checkpoint import stream
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key, freeze
from creekdb.server.storage.file_ops import SYSTEM_FILE_OPS

SCHEMA_VERSION: Final = 1
"""Raised whenever a reader of the old form would misread the new one."""
BLOCK_BYTES: Final = 256 * 1024
"""A block ends when it has that many: a register that has more makes it longer."""
REGISTERS_PER_READ: Final = 256
"""Registers, at a time."""

_MAGIC = b"CREEKBAK"
_START = struct.Struct(">8sI")
_LENGTH = struct.Struct(">I")
_READ_BYTES = 1024 * 1024


class BackupHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of."""

    cluster: str
    replica: int
    """That was asked."""
    members: tuple[int, ...]
    datatype: str
    """Its name, and where replicas find it."""
    imported: str
    scheme: str
    release: str
    """Of Creek, that wrote it."""
    taken_us: int
    """When, by the clock of the replica."""
    length: int
    """The commit index: how many requests the state is the result of."""
    instance: int
    ids: Dots
    timestamp: int
    first: int
    """The commit index from which on the operations follow, too."""


class RegisterBlock(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """What they hold, in any order. What clients' calls came to is among them."""

    items: tuple[tuple[Key, Any], ...]


class DeletedBlock(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Registers that the data type begins with and that hold nothing any more."""

    keys: tuple[Key, ...]


class OperationBlock(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The last requests of the prefix, in their order."""

    requests: tuple[Request, ...]


BackupBlock: TypeAlias = RegisterBlock | DeletedBlock | OperationBlock

_encode = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(BackupHeader).decode
_decode_block = msgspec.msgpack.Decoder(BackupBlock).decode
_DECODE_ERRORS = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)


# --- making one -------------------------------------------------------------------------------


class EncodedChunk(NamedTuple):
    data: bytes
    registers_done: int
    """Of the registers, those that are in this piece or in one before."""


def encode_backup(
    head: BackupHeader, state: stream.RegisterCursor, requests: Iterable[Request]
) -> Iterator[EncodedChunk]:
    """The bytes of a backup, each piece made when it is asked for."""
    hashed = hashlib.sha256()
    done = 0
    for data, registers in _encode_blocks(head, state, requests):
        hashed.update(data)
        done += registers
        yield EncodedChunk(data, done)
    yield EncodedChunk(hashed.digest(), done)


def _encode_blocks(
    head: BackupHeader, state: stream.RegisterCursor, requests: Iterable[Request]
) -> Iterator[tuple[bytes, int]]:
    yield _START.pack(_MAGIC, SCHEMA_VERSION) + _encode_block(head), 0
    deleted: list[Key] = []
    for items in _split_by_size(_read_registers(state, deleted)):
        yield _encode_block(RegisterBlock(items)), len(items)
    for keys in _split_by_size(deleted):
        yield _encode_block(DeletedBlock(keys)), 0
    for told in _split_by_size(requests):
        yield _encode_block(OperationBlock(told)), 0
    yield _LENGTH.pack(0), 0


def _read_registers(state: stream.RegisterCursor, deleted: list[Key]) -> Iterator[tuple[Key, Any]]:
    while (taken := state.take(REGISTERS_PER_READ)) is not None:
        held, gone = taken
        deleted += gone
        yield from held


def _encode_block(message: BackupHeader | BackupBlock) -> bytes:
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


def _split_by_size(items: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    portion: list[Any] = []
    size = 0
    for item in items:
        portion.append(item)
        size += len(_encode(item))
        if size >= BLOCK_BYTES:
            yield tuple(portion)
            portion, size = [], 0
    if portion:
        yield tuple(portion)


# --- keeping one ------------------------------------------------------------------------------


@contextmanager
def open_backup_writer(path: Path, force: bool = False) -> Iterator[BinaryIO]:
    """A file to write a backup to. It gets its name when it is whole and on disk; if anything goes
    wrong, nothing is left of it. What is there already is replaced only by `force`."""
    reject_existing(path, force)
    try:
        descriptor, name = tempfile.mkstemp(".partial", f".{path.name}.", path.parent)
    except OSError as error:
        raise StorageFault(f"cannot write {path}: {error.strerror}") from error
    aside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        read_header(aside)
        reject_existing(path, force)
        aside.replace(path)
        SYSTEM_FILE_OPS.sync_directory(path.parent)
    except OSError as error:
        raise StorageFault(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()


def reject_existing(path: Path, force: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already: name another file, or replace it with --force")


# --- reading one ------------------------------------------------------------------------------


def read_header(path: Path) -> BackupHeader:
    """What a backup is of, once all of it was found to be whole. Raises `UsageError` for what is
    no backup, or one of another schema, and `StorageFault` for one that is damaged."""
    try:
        with path.open("rb") as file:
            _verify_checksum(path, file)
            file.seek(_START.size)
            return _decode_header(_read_block(file))
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    except _DECODE_ERRORS as error:
        raise _damage_error(path, f"its head is not what it should be ({error})") from error


def read_blocks(path: Path) -> Iterator[BackupBlock]:
    """What follows the head. The backup was found to be whole by `read_head`."""
    try:
        with path.open("rb") as file:
            file.seek(_START.size)
            _read_block(file)
            while body := _read_block(file):
                yield _decode_block(body)
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    except _DECODE_ERRORS as error:
        raise _damage_error(path, f"it holds what no backup holds ({error})") from error


def read_checkpoint(path: Path, head: BackupHeader) -> Checkpoint:
    """All of the state, in memory."""
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
        instance=head.instance,
        length=head.length,
        ids=head.ids,
        timestamp=head.timestamp,
        state=tuple(state),
        outcomes=(),
        deleted=tuple(deleted),
    )


def read_registers(path: Path) -> Iterator[tuple[Key, Any]]:
    for block in read_blocks(path):
        if isinstance(block, RegisterBlock):
            for key, value in block.items:
                yield key, freeze(value)


def read_requests(path: Path) -> Iterator[Request]:
    for block in read_blocks(path):
        if isinstance(block, OperationBlock):
            yield from block.requests


def _verify_checksum(path: Path, file: BinaryIO) -> None:
    start = file.read(_START.size)
    if start[: len(_MAGIC)] != _MAGIC:
        raise UsageError(f"{path} is not a backup: 'creek backup' makes them")
    if len(start) < _START.size:
        raise _damage_error(path, "it is cut short")
    _, version = _START.unpack(start)
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{path} is written in version {version} of the schema, and version {SCHEMA_VERSION} "
            "is read: use the release that wrote it"
        )
    hashed = hashlib.sha256(start)
    while True:
        prefix = file.read(_LENGTH.size)
        hashed.update(prefix)
        if len(prefix) < _LENGTH.size:
            raise _damage_error(path, "it is cut short")
        (left,) = _LENGTH.unpack(prefix)
        if not left:
            break
        while left:
            data = file.read(min(left, _READ_BYTES))
            if not data:
                raise _damage_error(path, "it is cut short")
            hashed.update(data)
            left -= len(data)
    told = file.read(hashed.digest_size)
    if len(told) < hashed.digest_size:
        raise _damage_error(path, "it is cut short")
    if told != hashed.digest():
        raise _damage_error(path, "its checksum is wrong")
    if file.read(1):
        raise _damage_error(path, "it goes on behind its end")


def _read_block(file: BinaryIO) -> bytes:
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    return file.read(length)


def _damage_error(path: Path, what: str) -> StorageFault:
    return StorageFault(f"{path} is damaged: {what}. Nothing was changed; use another backup")
