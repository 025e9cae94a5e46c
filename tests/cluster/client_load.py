"""Closed-loop clients that record every response for a check at the end of a scenario."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from creekdb.client import Database, NotDone, Unknown
from creekdb.client.calls import Call

THINK_TIME_MAX_S = 0.02
"""Upper bound for the pause of a client between two calls, in seconds."""
LOOKAHEAD = 30
"""Operations that may start beyond the number that the scenario waits for."""


class ClientLoad:
    """A number of weak and strong operations, shared among closed-loop clients.

    The scenario paces them with `until_completed`, so that there is always some load, and never
    much. A client puts numbers under keys that no other call uses, and counts in a register of its
    own. `verify` can thus detect lost and duplicated operations.
    """

    def __init__(
        self,
        name: str,
        clients: Sequence[Database],
        operations: int,
        weak_only: bool = False,
    ) -> None:
        self._name = name
        self._clients = clients
        self._total = operations
        self._started = 0
        self._permitted = LOOKAHEAD
        self._weak_only = weak_only
        self._completed = 0
        self._progress = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self.acknowledged: dict[str, int] = {}
        """Puts with a response, by key."""
        self.unknown: dict[str, int] = {}
        """Puts with an unknown outcome, by key."""
        self.rejected: dict[str, str] = {}
        """Reasons of rejected calls, by key. A rejected call is certainly not executed."""
        self.counts: dict[str, list[int]] = {}
        """Responses to increments, by client."""
        self.unknown_counts: dict[str, int] = {}
        """Number of increments with an unknown outcome, by client."""
        self.failed_reads: list[Exception] = []
        """Errors of read-only calls."""

    def start(self) -> None:
        for number, db in enumerate(self._clients):
            name = f"{self._name} {number}"
            self._tasks.append(asyncio.create_task(self._run_client(name, db)))

    async def permit(self, operations: int) -> None:
        """Permit the start of this many operations without waiting for them."""
        async with self._progress:
            self._permitted = max(self._permitted, operations)
            self._progress.notify_all()

    async def until_completed(self, operations: int) -> None:
        """Wait until this many operations have completed or failed, or a client task fails."""
        assert operations <= self._total, "the load has fewer operations"
        await self.permit(operations + LOOKAHEAD)
        async with self._progress:
            await self._progress.wait_for(lambda: self._completed >= operations or self._has_failed)
        if self._has_failed:
            await self.finish()

    async def finish(self) -> None:
        await self.permit(self._total)
        await asyncio.gather(*self._tasks)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    @property
    def _all_started(self) -> bool:
        return self._started == self._total

    @property
    def _has_failed(self) -> bool:
        return any(each.done() and each.exception() is not None for each in self._tasks)

    async def _run_client(self, name: str, db: Database) -> None:
        random = Random(name)
        self.counts[name] = []
        self.unknown_counts[name] = 0
        try:
            while number := await self._next():
                await self._operate(name, number, db, random)
                self._completed += 1
                async with self._progress:
                    self._progress.notify_all()
                await asyncio.sleep(random.random() * THINK_TIME_MAX_S)
        finally:
            async with self._progress:
                self._progress.notify_all()

    async def _next(self) -> int:
        """Return the number of the next operation, or 0 after the last."""
        async with self._progress:
            await self._progress.wait_for(
                lambda: self._started < self._permitted or self._all_started
            )
            if self._all_started:
                return 0
            self._started += 1
            return self._started

    async def _operate(self, name: str, number: int, db: Database, random: Random) -> None:
        strong = not self._weak_only and random.random() < 0.4
        proxy = db.strong if strong else db.weak
        match random.choices(("put", "count", "get", "scan"), (4, 4, 1, 1))[0]:
            case "put":
                await self._put(f"{name} put {number}", number, proxy)
            case "count":
                await self._count(f"{name} count", name, proxy)
            case "get":
                await self._read(proxy.get(f"{name} count"))
            case _:
                await self._read(proxy.scan(name))

    async def _read(self, call: Call[Any]) -> None:
        try:
            await call
        except (Unknown, NotDone) as error:
            self.failed_reads.append(error)

    async def _put(self, key: str, number: int, proxy: Any) -> None:
        try:
            await proxy.put(key, number)
            self.acknowledged[key] = number
        except Unknown:
            self.unknown[key] = number
        except NotDone as error:
            self.rejected[key] = error.reason

    async def _count(self, key: str, name: str, proxy: Any) -> None:
        try:
            self.counts[name].append(await proxy.increment(key))
        except Unknown:
            self.unknown_counts[name] += 1
        except NotDone as error:
            self.rejected[f"{key} {len(self.counts[name])}"] = error.reason

    # --- verification ---------------------------------------------------------------------------

    def verify(self, state: dict[str, Any], may_fail: bool = False) -> None:
        """Assert that all calls completed, none was lost, and none was executed twice.

        With `may_fail`, calls may fail, but their reported outcome must be true.
        """
        ours = {key: value for key, value in state.items() if key.startswith(f"{self._name} ")}
        if not may_fail:
            failed = {**self.unknown, **self.rejected}
            assert not failed, f"calls without a response: {failed}"
            assert not any(self.unknown_counts.values()), (
                f"increments without a response: {self.unknown_counts}"
            )
            assert not self.failed_reads
        lost = {key: value for key, value in self.acknowledged.items() if ours.get(key) != value}
        assert not lost, f"acknowledged and lost: {lost}"
        executed = {key for key in self.rejected if key in ours}
        assert not executed, f"rejected and executed: {executed}"
        for name, responses in self.counts.items():
            count = ours.pop(f"{name} count", 0)
            unknown = self.unknown_counts[name]
            assert len(responses) <= count <= len(responses) + unknown, (
                f"{name}: the count is {count} after {responses}"
            )
            if not unknown:
                # No other client increments this register, and a session reads its own writes.
                assert responses == list(range(1, count + 1)), f"{name}: {responses}"
        assert ours.keys() <= self.acknowledged.keys() | self.unknown.keys()
