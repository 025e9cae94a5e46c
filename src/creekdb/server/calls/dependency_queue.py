"""Queue of calls that wait for a request that has not arrived at this replica.

The queue is bounded in length and in waiting time, because a request may never arrive.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from creekdb.protocol.ids.version_vector import Dot

_Call = TypeVar("_Call", bound=Hashable)


class DependencyQueue(Generic[_Call]):
    """Queue of calls whose dependencies have not arrived.

    `retry` is called with a call whose missing request has arrived, `reject_expired` with a call
    whose waiting time has passed.
    """

    def __init__(
        self,
        retry: Callable[[_Call], None],
        reject_expired: Callable[[_Call, Dot], None],
        length_max: int,
        wait_s_max: float,
    ) -> None:
        self._retry = retry
        self._reject_expired = reject_expired
        self._length_max = length_max
        self._wait_s_max = wait_s_max
        self._by_missing: dict[Dot, dict[_Call, None]] = {}
        self._waiting: dict[_Call, tuple[Dot, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= self._length_max

    def missing_requests(self) -> tuple[Dot, ...]:
        return tuple(self._by_missing)

    def enqueue(self, call: _Call, missing: Dot, wait_ms: int) -> None:
        wait_s = min(wait_ms / 1000 or self._wait_s_max, self._wait_s_max)
        timer = asyncio.get_running_loop().call_later(wait_s, self._expire, call)
        self._waiting[call] = missing, timer
        self._by_missing.setdefault(missing, {})[call] = None

    def remove(self, call: _Call) -> Dot | None:
        """Remove a call. Return the request that it waited for, or None if it was not queued."""
        entry = self._waiting.pop(call, None)
        if entry is None:
            return None
        missing, timer = entry
        timer.cancel()
        calls = self._by_missing[missing]
        del calls[call]
        if not calls:
            del self._by_missing[missing]
        return missing

    def release(self, id: Dot) -> None:
        """Retry the calls that wait for the request `id`."""
        for call in tuple(self._by_missing.get(id, ())):
            self.remove(call)
            self._retry(call)

    def _expire(self, call: _Call) -> None:
        missing = self.remove(call)
        if missing is not None:
            self._reject_expired(call, missing)
