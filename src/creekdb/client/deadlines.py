"""When calls are too late. Almost none ever is: so one timer serves all, and none is set for each.

The timer is set for the earliest time that was told. What was due then may long be answered: all
that still wait are looked through, which tells the next time. That is done once in a while, and a
call may be told by as much too late.
"""

import asyncio
from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from creekdb.client.calls import Call

BEAT_S: Final = 0.01
"""Between two looks, at least."""
EARLY_S: Final = 0.001
"""By as much a timer may be early."""


class Deadlines:
    def __init__(
        self, waiting: Callable[[], Iterable[Call]], too_late: Callable[[Call], None]
    ) -> None:
        """`waiting` gives the calls that have no answer, and perhaps some that are over."""
        self._waiting = waiting
        self._too_late = too_late
        self._next = inf
        self._timer: asyncio.TimerHandle | None = None

    def note(self, until: float) -> None:
        """A call is to be answered by then, in the time of the loop."""
        if until < self._next:
            self._set(until)

    def stop(self) -> None:
        self._set(inf)

    def _set(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = until
        loop = asyncio.get_running_loop()
        self._timer = None if until == inf else loop.call_at(until, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        late, earliest = [], inf
        for call in self._waiting():
            if call.until <= now + EARLY_S:
                late.append(call)
            elif call.until < earliest:
                earliest = call.until
        self._set(max(earliest, now + BEAT_S))
        for call in late:
            if not call.is_over:
                self._too_late(call)
