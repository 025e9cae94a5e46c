"""What a live replica writes down of itself, one file for each incarnation.

A file is a sequence of frames: four bytes for the length, then a message. It ends where it ends, or
at a length of zero: whoever writes it may have been killed at any moment. It begins with `Started`;
everything else is in the order in which it happened.

    Happened   events of the replica
    Known      how many of these others could learn of by now; first when all is recovered from disk
    Invoked    a client asked for something
    Answered   an answer left
    Sampled    counters, from time to time
    Ended      what the replica had when it was stopped; missing after a crash
    Dismissed  it stopped because it was removed, and nobody needed it any more

Times are microseconds of the machine's steady clock, which all of its processes share. `wall_us`
and `boot` are there for replicas on several machines.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from creekdb.errors import StorageFault, UsageError
from creekdb.history.records import Dot, Key, Kind, Observed, Operation, Outcome, Stored, Terms

RECORDING_VERSION: Final = 3
READABLE: Final = (2, RECORDING_VERSION)
"""Nobody was `Dismissed` in the second one; else it is the same."""
SUFFIX: Final = ".recording"
LENGTH: Final = struct.Struct(">I")


class Started(msgspec.Struct, frozen=True, array_like=True, tag=0):
    version: int
    cluster: str
    replica: int
    incarnation: int
    members: tuple[int, ...]
    datatype: str
    """Its name, and where it is found."""
    imported: str
    scheme: str
    durability: str
    terms: Terms
    at_us: int
    wall_us: int
    boot: str
    cores: int
    anew: bool = False
    """Was there nothing on its disk?"""


class Happened(msgspec.Struct, frozen=True, array_like=True, tag=1):
    events: tuple[Stored, ...]


class Known(msgspec.Struct, frozen=True, array_like=True, tag=2):
    events: int


class Invoked(msgspec.Struct, frozen=True, array_like=True, tag=3):
    at_us: int
    id: Dot
    session: int
    strong: bool
    operation: Operation | None
    """None where it was cast: there it is told."""


class Answered(msgspec.Struct, frozen=True, array_like=True, tag=4):
    at_us: int
    id: Dot
    kind: Kind
    outcome: Outcome
    changed: bool
    observed: Observed | None


class Sampled(msgspec.Struct, frozen=True, array_like=True, tag=5):
    at_us: int
    committed: int
    tentative: int
    backlog: int
    """Tasks and batches that wait."""
    executions: int
    """Of this incarnation; so are those below."""
    busy_us: int
    """Time that the process had a core."""
    bytes: int
    """Sent to other replicas."""
    messages: int


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=6):
    at_us: int
    first: int
    committed: tuple[Dot, ...]
    tentative: tuple[Dot, ...]
    idle: bool
    """Was everything executed?"""
    state: tuple[tuple[Key, Any], ...]


class Dismissed(msgspec.Struct, frozen=True, array_like=True, tag=7):
    at_us: int


Frame: TypeAlias = Started | Happened | Known | Invoked | Answered | Sampled | Ended | Dismissed

_decode = msgspec.msgpack.Decoder(Frame).decode


def frames(path: Path) -> Iterator[Frame]:
    """What is in a file, up to where it breaks off."""
    try:
        data = memoryview(path.read_bytes())
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    at = 0
    while at + LENGTH.size <= len(data):
        (length,) = LENGTH.unpack_from(data, at)
        body = data[at + LENGTH.size : at + LENGTH.size + length]
        if length == 0 or len(body) < length:
            return
        try:
            yield _decode(body)
        except msgspec.DecodeError as error:
            raise StorageFault(f"{path} is damaged at byte {at}: {error}") from error
        at += LENGTH.size + length


def is_empty(path: Path) -> bool:
    """Was its replica killed before it wrote anything?"""
    return next(frames(path), None) is None


def recordings(folder: Path) -> list[Path]:
    """Those in a folder, and in folders inside."""
    found = sorted(folder.rglob(f"*{SUFFIX}"))
    if not found:
        raise UsageError(
            f"{folder} holds no recordings: start the replicas with 'creek serve --record {folder}'"
        )
    return found


def recording_name(replica: int, incarnation: int) -> str:
    return f"{replica}-{incarnation}{SUFFIX}"
