"""What is executed next: the earliest request first, as many at once as there are cores.

Rules kept here:
- a request runs only when the one before it in its session has been executed, unless the order
  has it the other way round by now;
- one that was executed in vain `LOSSES_MAX` times runs when everything before it is done, so that
  nothing but a newcomer can make it lose again.

It chooses; running, validating and installing is for others.

How long clients' requests wait to be executed: to tell when more comes than can be done.

Time is counted in ticks in which something was executed. While a replica is stopped, or carries out
one long operation, it stands still: who waits for that is served soon after.
"""

from collections import deque
from itertools import islice
from typing import Final

from creekdb.execution.mvcc.entry import ExecutionPhase, Position, RequestEntry
from creekdb.protocol.sorted_blocks import SortedBlocks

FAILED_ATTEMPTS_MAX: Final = 8
LOOKAHEAD_MAX: Final = 64
"""How many of the earliest requests are considered, when some of them must wait."""


class Scheduler:
    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._waiting: SortedBlocks[RequestEntry] = SortedBlocks()
        """By their positions."""
        self.running: dict[int, RequestEntry] = {}
        """By the number of the task."""
        self._cancelled: set[int] = set()
        """Tasks that are under way for nothing."""

    def add(self, entry: RequestEntry) -> None:
        assert entry.phase is ExecutionPhase.WAITING
        self._waiting.add(entry.position, entry)

    def remove(self, entry: RequestEntry) -> bool:
        """Before it moves; False when it was not waiting."""
        return entry.phase is ExecutionPhase.WAITING and self._waiting.remove(entry.position, entry)

    def start(self, number: int) -> RequestEntry | None:
        """The next entry to run, as task `number`; None when there is none or no core is free."""
        if not self._waiting or len(self.running) + len(self._cancelled) >= self._cores:
            return None
        entry = self._waiting.first()
        if entry is None or not self._can_run(entry):
            ahead = islice(self._waiting, LOOKAHEAD_MAX)
            entry = next((each for each in ahead if self._can_run(each)), None)
            if entry is None:
                return None
        self._waiting.remove(entry.position, entry)
        entry.phase, entry.has_moved_ahead = ExecutionPhase.RUNNING, False
        self.running[number] = entry
        return entry

    def finish(self, number: int) -> RequestEntry | None:
        """The entry of the task; None when it was started before the last `clear`."""
        self._cancelled.discard(number)
        return self.running.pop(number, None)

    def first_pending_up_to(self, position: Position) -> RequestEntry | None:
        """The earliest that is to be executed there, or before."""
        first = self._waiting.first()
        for running in self.running.values():
            if first is None or running.position < first.position:
                first = running
        return first if first is not None and first.position <= position else None

    def has_executed_up_to(self, position: Position) -> bool:
        """Is there nothing to be executed there, or before?"""
        return self.first_pending_up_to(position) is None

    def is_idle(self) -> bool:
        return not self._waiting and not self.running

    def clear(self) -> None:
        self._waiting.clear()
        self._cancelled.update(self.running)
        self.running.clear()

    def _can_run(self, entry: RequestEntry) -> bool:
        after = entry.session_predecessor
        if after is not None and not after.is_executed and after.position < entry.position:
            return False
        return entry.failed_attempts < FAILED_ATTEMPTS_MAX or self._is_first(entry)

    def _is_first(self, entry: RequestEntry) -> bool:
        return self._waiting.first() is entry and all(
            entry.position < running.position for running in self.running.values()
        )


class QueueDelay:
    """Requests in the order in which they were issued; some are executed by now."""

    __slots__ = ("_entries", "_has_executed", "_ticks")

    def __init__(self) -> None:
        self._entries: deque[tuple[int, RequestEntry]] = deque()
        """With how many ticks there had been."""
        self._ticks = 0
        self._has_executed = False
        """Since the last tick?"""

    def add(self, entry: RequestEntry) -> None:
        self._drop_executed()
        self._entries.append((self._ticks, entry))

    def clear(self) -> None:
        self._entries.clear()

    def completed(self) -> None:
        """Something was executed."""
        self._has_executed = True

    def tick(self) -> None:
        self._ticks += self._has_executed
        self._has_executed = False
        self._drop_executed()

    def delay_ticks(self) -> int:
        """The ticks that the oldest one has waited for."""
        self._drop_executed()
        return self._ticks - self._entries[0][0] if self._entries else 0

    def _drop_executed(self) -> None:
        entries = self._entries
        while entries and entries[0][1].outcome is not None:
            entries.popleft()
