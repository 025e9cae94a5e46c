"""Backups: a committed prefix of a cluster in one file.

    start    magic, version of the schema
    blocks   length, and then a message in msgpack: first `Head`, then the others
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
from creekdb.execution.keys import place
from creekdb.protocol.checkpoint import stream
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key, frozen
from creekdb.server.storage.file_ops import SYSTEM

SCHEMA_VERSION: Final = 1
"""Raised whenever a reader of the old form would misread the new one."""
BLOCK_BYTES: Final = 256 * 1024
"""A block ends when it has that many: a register that has more makes it longer."""
TAKEN: Final = 256
"""Registers, at a time."""

_MAGIC = b"CREEKBAK"
_START = struct.Struct(">8sI")
_LENGTH = struct.Struct(">I")
_READ_BYTES = 1024 * 1024


class Head(msgspec.Struct, frozen=True, kw_only=True):
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


class Registers(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """What they hold, in any order. What clients' calls came to is among them."""

    items: tuple[tuple[Key, Any], ...]


class Deleted(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Registers that the data type begins with and that hold nothing any more."""

    keys: tuple[Key, ...]


class Operations(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The last requests of the prefix, in their order."""

    requests: tuple[Request, ...]


Block: TypeAlias = Registers | Deleted | Operations

_encode = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(Head).decode
_decode_block = msgspec.msgpack.Decoder(Block).decode
_NOT_OURS = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)


# --- making one -------------------------------------------------------------------------------


class Piece(NamedTuple):
    data: bytes
    done: int
    """Of the registers, those that are in this piece or in one before."""


def encoded(head: Head, state: stream.Registers, requests: Iterable[Request]) -> Iterator[Piece]:
    """The bytes of a backup, each piece made when it is asked for."""
    hashed = hashlib.sha256()
    done = 0
    for data, registers in _pieces(head, state, requests):
        hashed.update(data)
        done += registers
        yield Piece(data, done)
    yield Piece(hashed.digest(), done)


def _pieces(
    head: Head, state: stream.Registers, requests: Iterable[Request]
) -> Iterator[tuple[bytes, int]]:
    yield _START.pack(_MAGIC, SCHEMA_VERSION) + _block(head), 0
    deleted: list[Key] = []
    for items in _portions(_held(state, deleted)):
        yield _block(Registers(items)), len(items)
    for keys in _portions(deleted):
        yield _block(Deleted(keys)), 0
    for told in _portions(requests):
        yield _block(Operations(told)), 0
    yield _LENGTH.pack(0), 0


def _held(state: stream.Registers, deleted: list[Key]) -> Iterator[tuple[Key, Any]]:
    while (taken := state.take(TAKEN)) is not None:
        held, gone = taken
        deleted += gone
        yield from held


def _block(message: Head | Block) -> bytes:
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


def _portions(items: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
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
def kept_as(path: Path, force: bool = False) -> Iterator[BinaryIO]:
    """A file to write a backup to. It gets its name when it is whole and on disk; if anything goes
    wrong, nothing is left of it. What is there already is replaced only by `force`."""
    refuse_existing(path, force)
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
        read_head(aside)
        refuse_existing(path, force)
        aside.replace(path)
        SYSTEM.sync_directory(path.parent)
    except OSError as error:
        raise StorageFault(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()


def refuse_existing(path: Path, force: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already: name another file, or replace it with --force")


# --- reading one ------------------------------------------------------------------------------


def read_head(path: Path) -> Head:
    """What a backup is of, once all of it was found to be whole. Raises `UsageError` for what is
    no backup, or one of another schema, and `StorageFault` for one that is damaged."""
    try:
        with path.open("rb") as file:
            _check_whole(path, file)
            file.seek(_START.size)
            return _decode_head(_next_block(file))
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    except _NOT_OURS as error:
        raise _damaged(path, f"its head is not what it should be ({error})") from error


def contents(path: Path) -> Iterator[Block]:
    """What follows the head. The backup was found to be whole by `read_head`."""
    try:
        with path.open("rb") as file:
            file.seek(_START.size)
            _next_block(file)
            while body := _next_block(file):
                yield _decode_block(body)
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    except _NOT_OURS as error:
        raise _damaged(path, f"it holds what no backup holds ({error})") from error


def checkpoint_of(path: Path, head: Head) -> Checkpoint:
    """All of the state, in memory."""
    state: list[tuple[Key, Any]] = []
    deleted: list[Key] = []
    for block in contents(path):
        match block:
            case Registers(items=items):
                state += items
            case Deleted(keys=keys):
                deleted += keys
            case Operations():
                pass
    state.sort(key=lambda item: place(item[0]))
    deleted.sort(key=place)
    return Checkpoint(
        instance=head.instance,
        length=head.length,
        ids=head.ids,
        timestamp=head.timestamp,
        state=tuple(state),
        outcomes=(),
        deleted=tuple(deleted),
    )


def registers_of(path: Path) -> Iterator[tuple[Key, Any]]:
    for block in contents(path):
        if isinstance(block, Registers):
            for key, value in block.items:
                yield key, frozen(value)


def requests_of(path: Path) -> Iterator[Request]:
    for block in contents(path):
        if isinstance(block, Operations):
            yield from block.requests


def _check_whole(path: Path, file: BinaryIO) -> None:
    start = file.read(_START.size)
    if start[: len(_MAGIC)] != _MAGIC:
        raise UsageError(f"{path} is not a backup: 'creek backup' makes them")
    if len(start) < _START.size:
        raise _damaged(path, "it is cut short")
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
            raise _damaged(path, "it is cut short")
        (left,) = _LENGTH.unpack(prefix)
        if not left:
            break
        while left:
            data = file.read(min(left, _READ_BYTES))
            if not data:
                raise _damaged(path, "it is cut short")
            hashed.update(data)
            left -= len(data)
    told = file.read(hashed.digest_size)
    if len(told) < hashed.digest_size:
        raise _damaged(path, "it is cut short")
    if told != hashed.digest():
        raise _damaged(path, "its checksum is wrong")
    if file.read(1):
        raise _damaged(path, "it goes on behind its end")


def _next_block(file: BinaryIO) -> bytes:
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    return file.read(length)


def _damaged(path: Path, what: str) -> StorageFault:
    return StorageFault(f"{path} is damaged: {what}. Nothing was changed; use another backup")
