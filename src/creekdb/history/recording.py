"""Recording of a live replica, one file for each incarnation.

A file is a sequence of frames: a length of four bytes, then a message. The file ends at its last
complete frame, or at a length of zero, because a kill can interrupt the writer at any time. The
first frame is `RecordingStarted`. All other frames are in the order of the events.

    EventsRecorded    events of the replica
    VisibleEvents     number of events that others could observe so far; first sent after recovery
    CallInvoked       a client called an operation
    ResponseSent      a response was sent
    CountersSampled   counters, sampled periodically
    ReplicaStopped    final state of a stopped replica; missing after a crash
    ReplicaRemoved    the replica stopped because it was removed and no longer needed

Times are microseconds of the machine's steady clock, which all of its processes share. `wall_us`
and `boot_id` relate the clocks of replicas on several machines.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from creekdb.errors import DECODE_ERRORS, StorageFault, UsageError
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
RECORDING_SUFFIX: Final = ".recording"
FRAME_LENGTH: Final = struct.Struct(">I")


class RecordingStarted(msgspec.Struct, frozen=True, array_like=True, tag=0):
    version: int
    cluster: str
    replica: int
    incarnation: int
    members: tuple[int, ...]
    datatype: str
    """Name of the data type."""
    imported: str
    """Import path of the data type."""
    scheme: str
    durability: str
    guarantees: SchemeGuarantees
    at_us: int
    wall_us: int
    boot_id: str
    cores: int
    has_empty_disk: bool = False
    """True if the replica found no data on its disk."""
    extensions: str = ""
    """Extensions beyond the paper that are on, separated by commas."""


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
    """None if the request was cast: its `RbCast` event contains the operation."""


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
    """Number of waiting tasks and batches."""
    executions: int
    """Executions by this incarnation. The counters below also refer to this incarnation."""
    busy_us: int
    """CPU time of the process, in microseconds."""
    bytes: int
    """Bytes sent to other replicas."""
    messages: int


class ReplicaStopped(msgspec.Struct, frozen=True, array_like=True, tag=6):
    at_us: int
    first: int
    committed: tuple[Dot, ...]
    tentative: tuple[Dot, ...]
    is_idle: bool
    """True if every request was executed."""
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
    """Yield the frames of a file up to its end, or to the first incomplete frame."""
    try:
        data = memoryview(path.read_bytes())
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    offset = 0
    while offset + FRAME_LENGTH.size <= len(data):
        (length,) = FRAME_LENGTH.unpack_from(data, offset)
        body = data[offset + FRAME_LENGTH.size : offset + FRAME_LENGTH.size + length]
        if length == 0 or len(body) < length:
            return
        try:
            yield _decode(body)
        except DECODE_ERRORS as error:
            raise StorageFault(f"{path} is damaged at byte {offset}: {error}") from error
        offset += FRAME_LENGTH.size + length


def find_recordings(directory: Path) -> list[Path]:
    """Return the recordings in a directory and its subdirectories."""
    paths = sorted(directory.rglob(f"*{RECORDING_SUFFIX}"))
    if not paths:
        raise UsageError(
            f"cannot merge recordings: {directory} contains none; start the replicas with "
            f"'creek serve --record {directory}'"
        )
    return paths


def recording_name(replica: int, incarnation: int) -> str:
    return f"{replica}-{incarnation}{RECORDING_SUFFIX}"
