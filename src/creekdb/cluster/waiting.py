"""Calls that come after requests which have not arrived here yet.

Each waits for one of those that are missing, and is looked at again when that arrives. How many
wait is bounded, and for how long: a request may never come.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from creekdb.protocol.ids.version_vector import Dot

WAITING_MAX: Final = 4096
WAIT_S_MAX: Final = 30.0

_Call = TypeVar("_Call", bound=Hashable)


class WaitingRoom(Generic[_Call]):
    """`again` is called with a call whose request has arrived, `too_late` when it has not."""

    def __init__(
        self, again: Callable[[_Call], None], too_late: Callable[[_Call, Dot], None]
    ) -> None:
        self._again = again
        self._too_late = too_late
        self._by_missing: dict[Dot, dict[_Call, None]] = {}
        self._waiting: dict[_Call, tuple[Dot, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    def missing(self) -> tuple[Dot, ...]:
        return tuple(self._by_missing)

    def enter(self, call: _Call, missing: Dot, wait_ms: int) -> None:
        wait_s = min(wait_ms / 1000 or WAIT_S_MAX, WAIT_S_MAX)
        timer = asyncio.get_running_loop().call_later(wait_s, self._expire, call)
        self._waiting[call] = missing, timer
        self._by_missing.setdefault(missing, {})[call] = None

    def leave(self, call: _Call) -> Dot | None:
        """Nobody waits for its answer any more. Answers what it waited for, if it did."""
        found = self._waiting.pop(call, None)
        if found is None:
            return None
        missing, timer = found
        timer.cancel()
        calls = self._by_missing[missing]
        del calls[call]
        if not calls:
            del self._by_missing[missing]
        return missing

    def arrived(self, id: Dot) -> None:
        for call in tuple(self._by_missing.get(id, ())):
            self.leave(call)
            self._again(call)

    def _expire(self, call: _Call) -> None:
        missing = self.leave(call)
        if missing is not None:
            self._too_late(call, missing)
