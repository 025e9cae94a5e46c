"""What a live replica writes down of itself, one file for each incarnation.

A file is a sequence of frames: four bytes for the length, then a message. It ends where it ends, or
at a length of zero: whoever writes it may have been killed at any moment. It begins with
`RecordingStarted`; everything else is in the order in which it happened.

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
from creekdb.history.records import (
    Dot,
    Key,
    ObservedOrder,
    Operation,
    Outcome,
    ResponseKind,
    SchemeGuarantees,
    StoredEvent,
)

RECORDING_VERSION: Final = 3
READABLE_VERSIONS: Final = (2, RECORDING_VERSION)
"""Nobody was `ReplicaRemoved` in the second one; else it is the same."""
RECORDING_SUFFIX: Final = ".recording"
FRAME_LENGTH: Final = struct.Struct(">I")


class RecordingStarted(msgspec.Struct, frozen=True, array_like=True, tag=0):
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
    guarantees: SchemeGuarantees
    at_us: int
    wall_us: int
    boot_id: str
    cores: int
    has_empty_disk: bool = False
    """Was there nothing on its disk?"""


class EventsRecorded(msgspec.Struct, frozen=True, array_like=True, tag=1):
    events: tuple[StoredEvent, ...]


class VisibleEvents(msgspec.Struct, frozen=True, array_like=True, tag=2):
    count: int


class CallInvoked(msgspec.Struct, frozen=True, array_like=True, tag=3):
    at_us: int
    id: Dot
    session: int
    strong: bool
    operation: Operation | None
    """None where it was cast: there it is told."""


class ResponseSent(msgspec.Struct, frozen=True, array_like=True, tag=4):
    at_us: int
    id: Dot
    kind: ResponseKind
    outcome: Outcome
    changed: bool
    observed: ObservedOrder | None


class CountersSampled(msgspec.Struct, frozen=True, array_like=True, tag=5):
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


class ReplicaStopped(msgspec.Struct, frozen=True, array_like=True, tag=6):
    at_us: int
    first: int
    committed: tuple[Dot, ...]
    tentative: tuple[Dot, ...]
    is_idle: bool
    """Was everything executed?"""
    state: tuple[tuple[Key, Any], ...]


class ReplicaRemoved(msgspec.Struct, frozen=True, array_like=True, tag=7):
    at_us: int


RecordingFrame: TypeAlias = (
    RecordingStarted
    | EventsRecorded
    | VisibleEvents
    | CallInvoked
    | ResponseSent
    | CountersSampled
    | ReplicaStopped
    | ReplicaRemoved
)

_decode = msgspec.msgpack.Decoder(RecordingFrame).decode


def read_frames(path: Path) -> Iterator[RecordingFrame]:
    """What is in a file, up to where it breaks off."""
    try:
        data = memoryview(path.read_bytes())
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    at = 0
    while at + FRAME_LENGTH.size <= len(data):
        (length,) = FRAME_LENGTH.unpack_from(data, at)
        body = data[at + FRAME_LENGTH.size : at + FRAME_LENGTH.size + length]
        if length == 0 or len(body) < length:
            return
        try:
            yield _decode(body)
        except msgspec.DecodeError as error:
            raise StorageFault(f"{path} is damaged at byte {at}: {error}") from error
        at += FRAME_LENGTH.size + length


def is_empty_recording(path: Path) -> bool:
    """Was its replica killed before it wrote anything?"""
    return next(read_frames(path), None) is None


def find_recordings(folder: Path) -> list[Path]:
    """Those in a folder, and in folders inside."""
    found = sorted(folder.rglob(f"*{RECORDING_SUFFIX}"))
    if not found:
        raise UsageError(
            f"{folder} holds no recordings: start the replicas with 'creek serve --record {folder}'"
        )
    return found


def recording_name(replica: int, incarnation: int) -> str:
    return f"{replica}-{incarnation}{RECORDING_SUFFIX}"
