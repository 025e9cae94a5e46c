"""Clients that call one operation after the other, and remember what they were told."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from creekdb.client import Database, NotDone, Unknown
from creekdb.client.calls import Call

PAUSE_S = 0.02
"""A client thinks between two calls for up to so long."""
AHEAD = 30
"""So many operations are begun beyond the number that is waited for."""


class Load:
    """So many operations, weak and strong, shared among clients; each client has one under way.
    They are done as the story goes on (`reaches`): there is always some load, and never much.

    A client puts numbers under keys that nobody uses twice, and counts in a register of its own:
    so everybody can tell what is lost, and what was done twice.
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
        self._begun = 0
        self._granted = AHEAD
        self._weak_only = weak_only
        self._over = 0
        self._news = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self.told: dict[str, int] = {}
        """What was put, and answered."""
        self.unknown: dict[str, int] = {}
        """What may have been put."""
        self.refused: dict[str, str] = {}
        """What was certainly not put, and why."""
        self.counts: dict[str, list[int]] = {}
        """By client, what counting was answered."""
        self.uncounted: dict[str, int] = {}
        """By client, how often it is not known whether it counted."""
        self.unread: list[Exception] = []
        """Why something could not be read."""

    def start(self) -> None:
        for number, db in enumerate(self._clients):
            name = f"{self._name} {number}"
            self._tasks.append(asyncio.create_task(self._go_on(name, db)))

    async def allow(self, operations: int) -> None:
        """Let so many be begun, and do not wait for them."""
        async with self._news:
            self._granted = max(self._granted, operations)
            self._news.notify_all()

    async def reaches(self, operations: int) -> None:
        """Until so many are over, one way or the other; or a client fails."""
        assert operations <= self._total, "this load ends before that"
        await self.allow(operations + AHEAD)
        async with self._news:
            await self._news.wait_for(lambda: self._over >= operations or self._has_failed)
        if self._has_failed:
            await self.ends()

    async def ends(self) -> None:
        await self.allow(self._total)
        await asyncio.gather(*self._tasks)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    @property
    def _is_begun(self) -> bool:
        return self._begun == self._total

    @property
    def _has_failed(self) -> bool:
        return any(each.done() and each.exception() is not None for each in self._tasks)

    async def _go_on(self, name: str, db: Database) -> None:
        random = Random(name)
        self.counts[name] = []
        self.uncounted[name] = 0
        try:
            while number := await self._next():
                await self._operate(name, number, db, random)
                self._over += 1
                async with self._news:
                    self._news.notify_all()
                await asyncio.sleep(random.random() * PAUSE_S)
        finally:
            async with self._news:
                self._news.notify_all()

    async def _next(self) -> int:
        """The number of the next operation, or 0."""
        async with self._news:
            await self._news.wait_for(lambda: self._begun < self._granted or self._is_begun)
            if self._is_begun:
                return 0
            self._begun += 1
            return self._begun

    async def _operate(self, name: str, number: int, db: Database, random: Random) -> None:
        strong = not self._weak_only and random.random() < 0.4
        caller = db.strong if strong else db.weak
        match random.choices(("put", "count", "get", "scan"), (4, 4, 1, 1))[0]:
            case "put":
                await self._put(f"{name} put {number}", number, caller)
            case "count":
                await self._count(f"{name} count", name, caller)
            case "get":
                await self._read(caller.get(f"{name} count"))
            case _:
                await self._read(caller.scan(name))

    async def _read(self, call: Call) -> None:
        try:
            await call
        except (Unknown, NotDone) as error:
            self.unread.append(error)

    async def _put(self, key: str, number: int, caller: Any) -> None:
        try:
            await caller.put(key, number)
            self.told[key] = number
        except Unknown:
            self.unknown[key] = number
        except NotDone as error:
            self.refused[key] = error.reason

    async def _count(self, key: str, name: str, caller: Any) -> None:
        try:
            self.counts[name].append(await caller.increment(key))
        except Unknown:
            self.uncounted[name] += 1
        except NotDone as error:
            self.refused[f"{key} {len(self.counts[name])}"] = error.reason

    # --- in the end -----------------------------------------------------------------------------

    def judge(self, kept: dict[str, Any], may_fail: bool = False) -> None:
        """Everything was answered; nothing of that is lost, and nothing was done twice."""
        ours = {key: value for key, value in kept.items() if key.startswith(f"{self._name} ")}
        if not may_fail:
            failed = {**self.unknown, **self.refused}
            assert not failed, f"not answered: {failed}"
            assert not any(self.uncounted.values()), f"not answered: {self.uncounted}"
            assert not self.unread
        lost = {key: value for key, value in self.told.items() if ours.get(key) != value}
        assert not lost, f"answered, and lost: {lost}"
        done = {key for key in self.refused if key in ours}
        assert not done, f"refused, and done: {done}"
        for name, answers in self.counts.items():
            count = ours.pop(f"{name} count", 0)
            more = self.uncounted[name]
            assert len(answers) <= count <= len(answers) + more, f"{name}: {answers}, then {count}"
            if not more:
                # Nobody else counts there, and a session sees what it did.
                assert answers == list(range(1, count + 1)), f"{name}: {answers}"
        assert ours.keys() <= self.told.keys() | self.unknown.keys()
