"""What a replica does, written down for checkers and for who measures it.

A recording lies in a file that is mapped into memory. So writing to it costs no system call, and
what is in it outlives the process, however that ends. It does not outlive a loss of power.

Everything is there before anybody else can know of it: events before the records that come with
them are written to the journal, answers before they leave. What others can know of the events is
there as well, as a number (`Known`).
"""

import mmap
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

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
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica

MAP_BYTES: Final = 8 * 1024 * 1024
"""Bytes that are mapped at a time."""
_BOOT_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")


def monotonic_us() -> int:
    return time.monotonic_ns() // 1000


class RecordingWriter:
    """A recording that has just begun. `log` is told if it cannot go on; the replica can."""

    def __init__(
        self,
        folder: Path,
        *,
        cluster: str,
        replica: int,
        members: tuple[int, ...],
        datatype: str,
        imported: str,
        scheme: str,
        durability: str,
        terms: SchemeGuarantees,
        anew: bool,
        log: Callable[[str], None],
    ) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._log = log
        self._event_count = 0
        self._known_events = 0
        """Of the events, those that are said to be known."""
        self._known_at: deque[tuple[int, int]] = deque()
        """Positions of the journal, and how many events are known once it is durable there."""
        self._file: _MappedFile | None = None
        incarnation, self._file = _open_next_incarnation(folder, replica)
        self._started_us: int | None = monotonic_us()
        self._cpu_start_ns = time.process_time_ns()
        self._write(
            RecordingStarted(
                version=RECORDING_VERSION,
                cluster=cluster,
                replica=replica,
                incarnation=incarnation,
                members=members,
                datatype=datatype,
                imported=imported,
                scheme=scheme,
                durability=durability,
                guarantees=terms,
                at_us=self._started_us,
                wall_us=time.time_ns() // 1000,
                boot_id=_BOOT_ID_PATH.read_text().strip() if _BOOT_ID_PATH.exists() else "",
                cores=os.cpu_count() or 1,
                has_empty_disk=anew,
            )
        )

    def start(self, position: int) -> None:
        """What was recovered from disk counts as of the start, and others may know it as far as the
        journal is durable; from now on time passes."""
        self._started_us = None
        self.record_durable(position)
        self._write(VisibleEvents(self._known_events))

    # --- what happens -------------------------------------------------------------------------

    def record_events(self, events: Iterable[Event]) -> None:
        at_us = self._started_us or monotonic_us()
        frozen = tuple([encode_event(at_us, event) for event in events])
        self._event_count += len(frozen)
        self._write(EventsRecorded(frozen))

    def mark_position(self, position: int) -> None:
        """What happened up to now is known once the journal is durable up to there."""
        if self._known_at and self._known_at[-1][0] == position:
            self._known_at.pop()
        self._known_at.append((position, self._event_count))

    def record_durable(self, position: int) -> None:
        known, until = self._known_events, self._known_at
        while until and until[0][0] <= position:
            known = until.popleft()[1]
        if known > self._known_events:
            self._known_events = known
            self._write(VisibleEvents(known))

    def record_invocation(
        self, at_us: int, id: Dot, operation: Operation, strong: bool, session: int
    ) -> None:
        self._write(CallInvoked(at_us, id, session, strong, operation if id.event < 0 else None))

    def record_responses(self, responses: Iterable[Response]) -> None:
        at_us = monotonic_us()
        for each in responses:
            self._write(
                ResponseSent(at_us, each.id, each.kind, each.outcome, each.changed, each.observed)
            )

    def record_sample(
        self, replica: Replica, *, backlog: int, executions: int, bytes: int, messages: int
    ) -> None:
        self._write(
            CountersSampled(
                monotonic_us(),
                replica.committed_length(),
                len(replica.tentative_ids()),
                backlog,
                executions,
                (time.process_time_ns() - self._cpu_start_ns) // 1000,
                bytes,
                messages,
            )
        )

    def record_end(self, replica: Replica) -> None:
        """The replica was stopped, and does nothing more."""
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
        """It was removed, and nobody needs it any more."""
        self._write(ReplicaRemoved(monotonic_us()))
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- the file -----------------------------------------------------------------------------

    def _write(self, frame: RecordingFrame) -> None:
        if self._file is None:
            return
        try:
            self._file.append(self._encode(frame))
        except OSError as error:
            self._file.close()
            self._file = None
            self._log(f"nothing more is recorded: {error.strerror}")


class _MappedFile:
    """A file that grows at its end, and whose end is in memory."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._length = 0
        """Of the file, as far as it is written."""
        self._map_offset = 0
        """Where the mapped part begins."""
        self._map: mmap.mmap | None = None

    def append(self, body: bytes) -> None:
        """The length comes last: until it is there, so is the end."""
        size = FRAME_LENGTH.size + len(body)
        at = self._length - self._map_offset
        # Four bytes more, so that a length of zero stands behind it.
        if self._map is None or at + size + FRAME_LENGTH.size > len(self._map):
            at = self._map_next(size)
        assert self._map is not None
        self._map[at + FRAME_LENGTH.size : at + size] = body
        FRAME_LENGTH.pack_into(self._map, at, len(body))
        self._length += size

    def _map_next(self, size: int) -> int:
        base = self._length // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        length = MAP_BYTES + -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        # Space is taken up first: a mapped page that finds none kills the process.
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


def _open_next_incarnation(folder: Path, replica: int) -> tuple[int, _MappedFile]:
    """The file of the next incarnation."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        incarnation = 0
        while True:
            path = folder / recording_name(replica, incarnation)
            try:
                return incarnation, _MappedFile(
                    os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                )
            except FileExistsError:
                incarnation += 1
    except OSError as error:
        raise StorageFault(f"cannot record into {folder}: {error.strerror}") from error
