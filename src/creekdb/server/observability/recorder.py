"""Recording of a replica's events, for checkers and measurements.

The recording is a file that is mapped into memory. So a write needs no system call, and the
recording survives the process, however it ends. It does not survive a power failure.

Everything is recorded before it becomes visible elsewhere: events before their records reach the
journal, responses before they are sent. The number of events that may be visible elsewhere is
recorded as well (`VisibleEvents`).
"""

import mmap
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from creekdb.errors import StorageFault
from creekdb.history.recording import (
    FRAME_LENGTH,
    RECORDING_VERSION,
    CallInvoked,
    CountersSampled,
    EventsRecorded,
    RecordingFrame,
    RecordingStarted,
    ReplicaRemoved,
    ReplicaStopped,
    ResponseSent,
    VisibleEvents,
    recording_name,
)
from creekdb.history.records import encode_event
from creekdb.protocol.effects import Event, Response
from creekdb.protocol.extensions import has_extensions, join_extensions, parse_extensions
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.schemes.core.view import ReplicaView
from creekdb.server.runtime.config import ServerConfig

if TYPE_CHECKING:
    from creekdb.server.runtime.driver import Driver
    from creekdb.server.transport.peers import PeerNetwork

MAP_BYTES: Final = 8 * 1024 * 1024
"""Size of the mapped window, in bytes."""
_BOOT_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")


def monotonic_us() -> int:
    return time.monotonic_ns() // 1000


class RecordingWriter:
    """Writer of a new recording. `log` is called if it fails; the replica continues."""

    def __init__(
        self,
        config: ServerConfig,
        datatype: str,
        members: tuple[int, ...],
        guarantees: SchemeGuarantees,
        has_empty_disk: bool,
        log: Callable[[str], None],
    ) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._log = log
        self._event_count = 0
        self._visible_events = 0
        """Number of events that are recorded as visible."""
        self._visible_at: deque[tuple[int, int]] = deque()
        """Journal positions, each with the number of events that are visible once it is durable."""
        self._file: _MappedFile | None = None
        incarnation, self._file = _open_next_incarnation(Path(config.record), config.replica)
        self._started_us: int | None = monotonic_us()
        self._cpu_start_ns = time.process_time_ns()
        extensions = parse_extensions(config.extensions) if has_extensions(config.scheme) else ()
        self._write(
            RecordingStarted(
                version=RECORDING_VERSION,
                cluster=config.cluster,
                replica=config.replica,
                incarnation=incarnation,
                members=members,
                datatype=datatype,
                imported=config.datatype,
                scheme=config.scheme,
                durability=config.durability,
                guarantees=guarantees,
                at_us=self._started_us,
                wall_us=time.time_ns() // 1000,
                boot_id=_BOOT_ID_PATH.read_text().strip() if _BOOT_ID_PATH.exists() else "",
                cores=os.cpu_count() or 1,
                has_empty_disk=has_empty_disk,
                extensions=join_extensions(extensions),
            )
        )

    def start(self, position: int) -> None:
        """Start the clock. Events recovered from disk count as events of the start.

        They may be visible elsewhere as far as the journal is durable.
        """
        self._started_us = None
        self.record_durable(position)
        self._write(VisibleEvents(self._visible_events))

    # --- events -------------------------------------------------------------------------------

    def record_events(self, events: Iterable[Event]) -> None:
        at_us = self._started_us or monotonic_us()
        encoded = tuple([encode_event(at_us, event) for event in events])
        self._event_count += len(encoded)
        self._write(EventsRecorded(encoded))

    def mark_position(self, position: int) -> None:
        """Make all events up to now visible once the journal is durable up to `position`."""
        if self._visible_at and self._visible_at[-1][0] == position:
            self._visible_at.pop()
        self._visible_at.append((position, self._event_count))

    def record_durable(self, position: int) -> None:
        visible, pending = self._visible_events, self._visible_at
        while pending and pending[0][0] <= position:
            visible = pending.popleft()[1]
        if visible > self._visible_events:
            self._visible_events = visible
            self._write(VisibleEvents(visible))

    def record_invocation(
        self, at_us: int, id: Dot, operation: Operation, strong: bool, session: int
    ) -> None:
        self._write(CallInvoked(at_us, id, session, strong, operation if id.event < 0 else None))

    def record_responses(self, responses: Iterable[Response]) -> None:
        at_us = monotonic_us()
        for response in responses:
            self._write(
                ResponseSent(
                    at_us,
                    response.id,
                    response.kind,
                    response.outcome,
                    response.changed,
                    response.observed,
                )
            )

    def record_sample(self, driver: "Driver", peers: "PeerNetwork") -> None:
        replica = driver.replica.view
        self._write(
            CountersSampled(
                monotonic_us(),
                replica.committed_length(),
                len(replica.tentative_ids()),
                driver.backlog,
                driver.executor.executions,
                (time.process_time_ns() - self._cpu_start_ns) // 1000,
                peers.sent_bytes,
                peers.sent_messages,
            )
        )

    def record_end(self, replica: ReplicaView) -> None:
        """Record the final state of a stopped replica, and close the file."""
        committed = replica.committed_ids()
        self._write(
            ReplicaStopped(
                monotonic_us(),
                replica.committed_length() - len(committed),
                committed,
                replica.tentative_ids(),
                replica.is_idle(),
                tuple(replica.state().items()),
            )
        )
        self._close()

    def record_removal(self) -> None:
        """Record the removal of the replica from the cluster, and close the file."""
        self._write(ReplicaRemoved(monotonic_us()))
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- file ---------------------------------------------------------------------------------

    def _write(self, frame: RecordingFrame) -> None:
        if self._file is None:
            return
        try:
            self._file.append(self._encode(frame))
        except OSError as error:
            self._close()
            self._log(f"recording stopped: {error.strerror}")


class _MappedFile:
    """Append-only file whose end is mapped into memory."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._length = 0
        """Number of bytes written."""
        self._map_offset = 0
        """Offset of the mapped window in the file."""
        self._map: mmap.mmap | None = None

    def append(self, body: bytes) -> None:
        """Append a frame. Its length is written last, so a partial frame is not visible."""
        size = FRAME_LENGTH.size + len(body)
        offset = self._length - self._map_offset
        # Leave four more bytes, so that a length of zero follows the frame.
        if self._map is None or offset + size + FRAME_LENGTH.size > len(self._map):
            offset = self._map_next(size)
        assert self._map is not None
        self._map[offset + FRAME_LENGTH.size : offset + size] = body
        FRAME_LENGTH.pack_into(self._map, offset, len(body))
        self._length += size

    def _map_next(self, size: int) -> int:
        base = self._length // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        length = MAP_BYTES + -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        # Allocate first: a write to a mapped page without disk space kills the process.
        os.posix_fallocate(self._file, base, length)
        if self._map is not None:
            self._map.close()
        self._map = mmap.mmap(self._file, length, offset=base)
        self._map_offset = base
        return self._length - base

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
        os.ftruncate(self._file, self._length)
        os.close(self._file)


def _open_next_incarnation(directory: Path, replica: int) -> tuple[int, _MappedFile]:
    """Create the file of the next incarnation."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        incarnation = 0
        while True:
            path = directory / recording_name(replica, incarnation)
            try:
                return incarnation, _MappedFile(
                    os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                )
            except FileExistsError:
                incarnation += 1
    except OSError as error:
        raise StorageFault(f"cannot record into {directory}: {error.strerror}") from error
