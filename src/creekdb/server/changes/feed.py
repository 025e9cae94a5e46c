"""Change feed of a replica: from the effects of the replica to its change log and its readers.

Rules:

- A change is visible once the records before it in the journal are durable, like a response. So no
  change is visible that a crash could replace by another one. The log never runs ahead of the
  journal, and a replay of the journal continues the log where it ended.
- A change is written once. After a restart the replica reports again what its journal holds after
  the last checkpoint. Changes that the log has are skipped.
- A checkpoint of the journal waits until the changes before it are durable (`CheckpointGate`),
  since the journal no longer holds them afterwards.
- A replica that installs the snapshot of another one has no changes of the skipped requests. The
  log has a gap there, and no reader passes it. `gap_filling` copies the changes from peers.
- Changes are encoded in slices, so that many requests that become stable together do not delay
  others. Their number is bounded by that of the requests that await the journal.
- A closed segment that is damaged ends before the damage, once a reader or a peer meets it. The
  rest is a gap.
- If the log cannot be written, changes wait in memory up to a limit. Beyond it they are dropped,
  which makes a gap. Neither calls nor other readers wait for the log.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

from creekdb.protocol.effects import ChangesSkipped, ReportedChange, StableChange
from creekdb.protocol.ids.version_vector import Dot
from creekdb.server.changes.encoding import ChangeList, measure_change
from creekdb.server.changes.log import ChangeLog, Segment, wall_clock_us
from creekdb.server.changes.segments import Frame

SLICE_CHANGES_MAX: Final = 128
"""Number of changes that are encoded in one turn of the loop, at least."""
FRAME_BYTES_TARGET: Final = 64 * 1024
"""Size at which a frame of several changes is ended, in bytes."""
UNWRITTEN_CHANGES_MAX: Final = 100_000
"""Number of changes that wait for a log that cannot be written."""
UNWRITTEN_BYTES_MAX: Final = 64 * 1024 * 1024
"""Encoded size of the changes that wait for a log that cannot be written, in bytes."""
RETRY_S: Final = 1.0
"""Pause after a failed write, in seconds."""


class FeedPorts(NamedTuple):
    """Outputs of a feed other than its log."""

    call_soon: Callable[[Callable[[], None]], object]
    call_later: Callable[[float, Callable[[], None]], object]
    log: Callable[[str], None]
    """Receives a line about a failure."""


def loop_ports(loop: asyncio.AbstractEventLoop, log: Callable[[str], None]) -> FeedPorts:
    return FeedPorts(loop.call_soon, loop.call_later, log)


class ChangeFeed:
    def __init__(
        self,
        log: ChangeLog,
        ports: FeedPorts,
        unwritten_max: int = UNWRITTEN_CHANGES_MAX,
        clock: Callable[[], int] = wall_clock_us,
        unwritten_bytes_max: int = UNWRITTEN_BYTES_MAX,
    ) -> None:
        """`clock` returns the time in microseconds."""
        self.log = log
        self._ports = ports
        self._unwritten_max = unwritten_max
        self._unwritten_bytes_max = unwritten_bytes_max
        self._measured_count = self._measured_bytes = 0
        """Number and size of the changes that were measured while the log cannot be written."""
        self._clock = clock
        self._held: deque[tuple[int, int, Sequence[ReportedChange]]] = deque()
        """Changes with the journal position that must be durable before them, and with the time at
        which the replica reported them."""
        self._released: deque[tuple[int, ReportedChange]] = deque()
        """Changes that may be written, in commit order, with their times."""
        self._is_slice_scheduled = False
        self._is_failing = False
        self._received_index = log.next_index - 1
        self._waiters: list[tuple[int, Callable[[], None]]] = []
        """Callbacks with the index after which they are called."""
        self.changes_written = 0
        self.gaps = 0
        """Number of times at which the feed skipped indices, or lost them by damage."""
        self.filled_count = 0
        """Number of commit indices whose changes were copied from peers (`gap_filling`)."""

    # --- from the replica ---------------------------------------------------------------------

    def record(self, changes: Sequence[ReportedChange], position: int) -> None:
        """Receive changes of the replica. The journal must be durable up to `position` first."""
        last = changes[-1]
        length = last.length if isinstance(last, ChangesSkipped) else last.commit_index
        self._received_index = max(self._received_index, length)
        self._held.append((position, self._clock(), changes))

    def release(self, durable_position: int) -> None:
        """Write the changes whose records are durable."""
        held = self._held
        while held and held[0][0] <= durable_position:
            _, reported_us, changes = held.popleft()
            self._released.extend([(reported_us, change) for change in changes])
        if self._released:
            self._schedule_slice()

    @property
    def received_index(self) -> int:
        """Commit index of the last change that the replica reported."""
        return self._received_index

    @property
    def written_index(self) -> int:
        """Commit index up to which the log is complete."""
        return self.log.next_index - 1

    @property
    def unwritten_count(self) -> int:
        return len(self._released) + sum(len(changes) for _, _, changes in self._held)

    def unwritten_ids(self) -> Iterator[Dot]:
        """Yield the identifiers of the requests that are stable, but not in the log yet."""
        for _, change in self._released:
            if isinstance(change, StableChange):
                yield change.request.id
        for _, _, changes in self._held:
            for change in changes:
                if isinstance(change, StableChange):
                    yield change.request.id

    def close(self, durable_position: int) -> None:
        """Write everything that may be written, and close the log."""
        self.release(durable_position)
        while self._released and not self._is_failing:
            self._write_slice()
        self.log.close()

    # --- to the log ---------------------------------------------------------------------------

    def _schedule_slice(self) -> None:
        if not self._is_slice_scheduled:
            self._is_slice_scheduled = True
            self._ports.call_soon(self._run_slice)

    def _run_slice(self) -> None:
        self._is_slice_scheduled = False
        self._write_slice()
        if self._released and not self._is_slice_scheduled:
            self._schedule_slice()

    def _write_slice(self) -> None:
        """Encode and write some changes. Of many, a fraction, so that none pile up."""
        released = self._released
        remaining = max(SLICE_CHANGES_MAX, len(released) // 8)
        while released and remaining > 0:
            _, head = released[0]
            if isinstance(head, ChangesSkipped):
                released.popleft()
                self._skip_to(head.length + 1)
            elif head.commit_index < self.log.next_index:
                released.popleft()  # written before the last restart
                remaining -= 1
            else:
                count = self._append_frame(remaining)
                if not count:
                    return
                remaining -= count

    def _append_frame(self, count_max: int) -> int:
        """Write the next changes as one frame. Return their number, or 0 if the write failed."""
        encoded, first = ChangeList(), self.log.next_index
        end = first
        for reported_us, change in islice(self._released, count_max):
            if isinstance(change, ChangesSkipped) or encoded.size_bytes >= FRAME_BYTES_TARGET:
                break
            assert change.commit_index == end, f"change {change.commit_index} follows {end - 1}"
            end += 1
            encoded.append(change, reported_us)
        try:
            self.log.append(Frame(first, end, encoded.encode()))
        except OSError as error:
            self._on_write_failure(error)
            return 0
        self._is_failing = False
        self._measured_count = self._measured_bytes = 0
        self.changes_written += encoded.count
        for _ in range(end - first):
            self._released.popleft()
        self._notify()
        return end - first

    def _skip_to(self, index: int) -> None:
        if index > self.log.next_index:
            self.gaps += self.log.next_index > 1
            self.log.skip_to(index)
            self._notify()

    def _on_write_failure(self, error: OSError) -> None:
        if not self._is_failing:
            self._ports.log(f"cannot write the change feed: {error.strerror}; calls continue")
        self._is_failing = True
        self._is_slice_scheduled = True
        self._ports.call_later(RETRY_S, self._run_slice)
        self._measure_unwritten()
        if (
            len(self._released) > self._unwritten_max
            or self._measured_bytes > self._unwritten_bytes_max
        ):
            self._drop_unwritten()

    def _measure_unwritten(self) -> None:
        """Measure the changes that were released since the last failure, up to the limit."""
        for _, change in islice(self._released, self._measured_count, None):
            self._measured_count += 1
            if isinstance(change, StableChange):
                self._measured_bytes += measure_change(change)
            if self._measured_bytes > self._unwritten_bytes_max:
                return

    def drop_damage(self, segment: Segment, index: int) -> bool:
        """Make a gap of the changes of a segment that cannot be read, from a damaged one on.

        `gap_filling` copies them from peers. Return False if the segment is kept, since the change
        at `index` is not damaged or the file cannot be changed.
        """
        end, damaged = segment.end, 0
        with suppress(OSError):
            damaged = self.log.drop_damage(segment, index)
        if damaged:
            self.gaps += 1
            self._ports.log(f"the changes from {damaged} to {end - 1} are damaged on the disk")
        return damaged > 0

    def _drop_unwritten(self) -> None:
        """Give up the changes that wait for the log. Readers find them at other replicas."""
        _, last = self._released[-1]
        length = last.length if isinstance(last, ChangesSkipped) else last.commit_index
        self._ports.log(f"dropped {len(self._released)} changes that could not be written")
        self._released.clear()
        self._measured_count = self._measured_bytes = 0
        self._skip_to(length + 1)

    # --- waiting ------------------------------------------------------------------------------

    def notify_after(self, index: int, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the log is complete up to `index`, or at once if it is."""
        if self.written_index >= index:
            callback()
        else:
            self._waiters.append((index, callback))

    def cancel(self, callback: Callable[[], None]) -> None:
        """Drop a callback of `notify_after`."""
        self._waiters = [each for each in self._waiters if each[1] is not callback]

    def _notify(self) -> None:
        if not self._waiters:
            return
        written = self.written_index
        due = [callback for index, callback in self._waiters if index <= written]
        if due:
            self._waiters = [each for each in self._waiters if each[0] > written]
            for callback in due:
                callback()
