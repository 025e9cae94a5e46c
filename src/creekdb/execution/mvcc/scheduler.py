"""Scheduling of executions: the earliest request first, as many at once as there are cores.

Rules:
- A request runs only after its predecessor in the session has been executed, unless the order of
  the two was reversed meanwhile.
- A request with `FAILED_ATTEMPTS_MAX` failed attempts runs only after everything before it has been
  executed. Only a newly arrived request can then make it fail again.

The scheduler chooses; other modules execute, validate and install.
"""

from itertools import islice
from typing import Final

from creekdb.execution.mvcc.entry import ExecutionPhase, Position, RequestEntry
from creekdb.protocol.sorted_blocks import SortedBlocks

FAILED_ATTEMPTS_MAX: Final = 8
LOOKAHEAD_MAX: Final = 64
"""Number of the earliest requests that are considered if some of them must wait."""


class Scheduler:
    """Requests that wait for execution, and running tasks."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._waiting: SortedBlocks[RequestEntry] = SortedBlocks()
        """Waiting entries by position."""
        self.running: dict[int, RequestEntry] = {}
        """Running entries by task number."""
        self._cancelled: set[int] = set()
        """Running tasks whose results will be discarded."""

    def add(self, entry: RequestEntry) -> None:
        assert entry.phase is ExecutionPhase.WAITING
        self._waiting.add(entry.position, entry)

    def remove(self, entry: RequestEntry) -> bool:
        """Remove an entry before it moves. Return False if it was not waiting."""
        return entry.phase is ExecutionPhase.WAITING and self._waiting.remove(entry.position, entry)

    def start(self, number: int) -> RequestEntry | None:
        """Start the next entry as task `number`. Return None if none can run or no core is free."""
        if not self._waiting or len(self.running) + len(self._cancelled) >= self._cores:
            return None
        entry = self._waiting.first()
        if entry is None or not self._can_run(entry):
            candidates = islice(self._waiting, LOOKAHEAD_MAX)
            entry = next((each for each in candidates if self._can_run(each)), None)
            if entry is None:
                return None
        self._waiting.remove(entry.position, entry)
        entry.phase, entry.has_moved_ahead = ExecutionPhase.RUNNING, False
        self.running[number] = entry
        return entry

    def finish(self, number: int) -> RequestEntry | None:
        """Return the entry of the task, or None if it was started before the last `clear`."""
        self._cancelled.discard(number)
        return self.running.pop(number, None)

    def first_pending_up_to(self, position: Position) -> RequestEntry | None:
        """Return the earliest entry at or before `position` that awaits execution, or None."""
        first = self._waiting.first()
        for running in self.running.values():
            if first is None or running.position < first.position:
                first = running
        return first if first is not None and first.position <= position else None

    def is_idle(self) -> bool:
        return not self._waiting and not self.running

    def clear(self) -> None:
        self._waiting.clear()
        self._cancelled.update(self.running)
        self.running.clear()

    def _can_run(self, entry: RequestEntry) -> bool:
        prior = entry.session_predecessor
        if prior is not None and not prior.is_executed and prior.position < entry.position:
            return False
        if entry.failed_attempts < FAILED_ATTEMPTS_MAX:
            return True
        return self._waiting.first() is entry and all(
            entry.position < running.position for running in self.running.values()
        )
