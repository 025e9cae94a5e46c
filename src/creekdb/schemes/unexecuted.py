"""How long clients' requests wait to be executed: to tell when more comes than can be done.

Time is counted in ticks in which something was executed. While a replica is stopped, or carries out
one long operation, it stands still: who waits for that is served soon after.
"""

from collections import deque

from creekdb.execution.entries import Entry


class Unexecuted:
    """Requests in the order in which they were issued; some are executed by now."""

    __slots__ = ("_entries", "_ticks", "_worked")

    def __init__(self) -> None:
        self._entries: deque[tuple[int, Entry]] = deque()
        """With how many ticks there had been."""
        self._ticks = 0
        self._worked = False
        """Since the last tick?"""

    def add(self, entry: Entry) -> None:
        self._forget_executed()
        self._entries.append((self._ticks, entry))

    def clear(self) -> None:
        self._entries.clear()

    def completed(self) -> None:
        """Something was executed."""
        self._worked = True

    def tick(self) -> None:
        self._ticks += self._worked
        self._worked = False
        self._forget_executed()

    def kept_waiting(self) -> int:
        """The ticks that the oldest one has waited for."""
        self._forget_executed()
        return self._ticks - self._entries[0][0] if self._entries else 0

    def _forget_executed(self) -> None:
        entries = self._entries
        while entries and entries[0][1].outcome is not None:
            entries.popleft()
