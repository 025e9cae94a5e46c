"""Scheduling of executions: the earliest request first, as many at once as there are cores.

Rules:
- A request runs only after its predecessor in the session has been executed, unless the order of
  the two was reversed meanwhile.
- With estimates, a request runs only after every earlier request that is expected to write what it
  is expected to read (`estimates`).
- A request with `FAILED_ATTEMPTS_MAX` failed attempts runs only after everything before it has been
  executed. Only a newly arrived request can then make it fail again.

The scheduler chooses; other modules execute, validate and install.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from creekdb.execution.mvcc.entry import ExecutionPhase, Position, RequestEntry
from creekdb.execution.mvcc.estimates import AccessEstimates
from creekdb.protocol.sorted_blocks import SortedBlocks

FAILED_ATTEMPTS_MAX: Final = 8
LOOKAHEAD_MAX: Final = 64
"""Number of the earliest requests that are considered if some of them must wait."""


class Scheduler:
    """Requests that wait for execution, and running tasks."""

    def __init__(
        self,
        cores: int,
        estimates: AccessEstimates | None = None,
        on_delayed: Callable[[], None] | None = None,
    ) -> None:
        """`on_delayed` is called whenever an entry is delayed because of the estimates."""
        self._cores = cores
        self._estimates = estimates
        self._on_delayed = on_delayed
        self._waiting: SortedBlocks[RequestEntry] = SortedBlocks()
        """Waiting entries by position, without the delayed ones."""
        self._delayed: dict[RequestEntry, RequestEntry] = {}
        """Waiting entries, each with the earlier pending entry whose execution it awaits."""
        self._awaited: dict[RequestEntry, list[RequestEntry]] = {}
        """Entries that delay others, with the entries in `_delayed` that await them."""
        self.running: dict[int, RequestEntry] = {}
        """Running entries by task number."""
        self._cancelled: set[int] = set()
        """Running tasks whose results will be discarded."""

    def add(self, entry: RequestEntry) -> None:
        assert entry.phase is ExecutionPhase.WAITING
        self._waiting.add(entry.position, entry)
        if self._estimates is not None:
            self._estimates.expect(entry)

    def remove(self, entry: RequestEntry) -> bool:
        """Remove an entry before it moves. Return False if it was not waiting."""
        awaited = self._delayed.pop(entry, None)
        if awaited is not None:
            self._awaited[awaited].remove(entry)
            return True
        return entry.phase is ExecutionPhase.WAITING and self._waiting.remove(entry.position, entry)

    def start(self, number: int) -> RequestEntry | None:
        """Start the next entry as task `number`. Return None if none can run or no core is free."""
        if not self._waiting or len(self.running) + len(self._cancelled) >= self._cores:
            return None
        entry = self._first_runnable()
        while entry is not None and self._delay(entry):
            entry = self._first_runnable()
        if entry is None:
            return None
        self._waiting.remove(entry.position, entry)
        entry.phase, entry.has_moved_ahead = ExecutionPhase.RUNNING, False
        self.running[number] = entry
        return entry

    def settle(self, entry: RequestEntry) -> None:
        """Let the entries run that awaited this one, because it is executed."""
        if self._estimates is not None:
            self._estimates.settle(entry)
            for delayed in self._awaited.pop(entry, ()):
                del self._delayed[delayed]
                self._waiting.add(delayed.position, delayed)

    def finish(self, number: int) -> RequestEntry | None:
        """Return the entry of the task, or None if it was started before the last `clear`."""
        self._cancelled.discard(number)
        return self.running.pop(number, None)

    def first_pending_up_to(self, position: Position) -> RequestEntry | None:
        """Return the earliest entry at or before `position` that awaits execution, or None.

        It is never a delayed one, since the entry that it awaits is earlier.
        """
        first = self._waiting.first()
        for running in self.running.values():
            if first is None or running.position < first.position:
                first = running
        return first if first is not None and first.position <= position else None

    def is_idle(self) -> bool:
        return not self._waiting and not self._delayed and not self.running

    def clear(self) -> None:
        self._waiting.clear()
        self._delayed.clear()
        self._awaited.clear()
        if self._estimates is not None:
            self._estimates.clear()
        self._cancelled.update(self.running)
        self.running.clear()

    def _first_runnable(self) -> RequestEntry | None:
        entry = self._waiting.first()
        if entry is None or self._can_run(entry):
            return entry
        candidates = islice(self._waiting, LOOKAHEAD_MAX)
        return next((each for each in candidates if self._can_run(each)), None)

    def _delay(self, entry: RequestEntry) -> bool:
        """Delay an entry that an earlier one is expected to invalidate. Return False if none is."""
        if self._estimates is None or self._is_earliest(entry):
            return False
        awaited = self._estimates.find_expected_writer(entry)
        if awaited is None:
            return False
        if self._on_delayed is not None:
            self._on_delayed()
        self._waiting.remove(entry.position, entry)
        self._delayed[entry] = awaited
        self._awaited.setdefault(awaited, []).append(entry)
        return True

    def _can_run(self, entry: RequestEntry) -> bool:
        prior = entry.session_predecessor
        if prior is not None and not prior.is_executed and prior.position < entry.position:
            return False
        return entry.failed_attempts < FAILED_ATTEMPTS_MAX or self._is_earliest(entry)

    def _is_earliest(self, entry: RequestEntry) -> bool:
        """True if all other entries that await execution follow the entry."""
        return self._waiting.first() is entry and all(
            entry.position < running.position for running in self.running.values()
        )
