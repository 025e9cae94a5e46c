"""Real processes, killed under load: nothing that was answered is lost, and nothing done twice."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from creek.client import Database, Unknown
from tests.cluster.processes import Processes


class Load:
    """Clients that put numbers under keys of their own, and remember what they were told."""

    def __init__(self) -> None:
        self.told: dict[str, int] = {}
        self.tried: dict[str, int] = {}
        self.increments = 0
        self.unknown = 0
        self.stopped = False

    async def go_on(self, db: Database, name: str, strong: bool) -> None:
        caller = db.strong if strong else db.weak
        number = 0
        while not self.stopped:
            number += 1
            key = f"{name} {number}"
            self.tried[key] = number
            try:
                await caller.put(key, number)
                self.told[key] = number
                await caller.increment("total")
                self.increments += 1
            except Unknown:
                self.unknown += 1


@pytest.mark.parametrize("victims", [(0,), (0, 1, 2)])
def test_nothing_that_was_answered_is_lost_to_a_kill(
    victims: tuple[int, ...], tmp_path: Path
) -> None:
    async def story(processes: Processes) -> None:
        random, load = Random(str(victims)), Load()
        async with processes.client() as first, processes.client(2, 1, 0) as second:
            clients = [
                asyncio.create_task(load.go_on(db, f"{name} {strong}", strong))
                for name, db in (("first", first), ("second", second))
                for strong in (False, True)
            ]
            for _ in range(3):
                await asyncio.sleep(0.2 + random.random() * 0.3)
                processes.kill(*victims)
                await asyncio.sleep(random.random() * 0.2)
                processes.start(*victims)
                before = len(load.told)
                while len(load.told) < before + 20:
                    await asyncio.sleep(0.02)
            load.stopped = True
            await asyncio.gather(*clients)
            kept = dict(await first.strong.scan("first"))
            kept |= dict(await first.strong.scan("second"))
            total = await first.strong.get("total")
        assert load.told.items() <= kept.items()
        assert kept.items() <= load.tried.items()
        assert load.increments <= total <= load.increments + load.unknown
        assert len(load.told) > 60

    with Processes(tmp_path) as processes:
        asyncio.run(story(processes))


def test_a_replica_that_is_interrupted_stops_cleanly(tmp_path: Path) -> None:
    async def story(processes: Processes) -> None:
        async with processes.client(0) as db:
            await db.strong.put("a", 1)
        assert processes.stop(0) == 0
        processes.start(0)
        async with processes.client(0) as db:
            assert await db.strong.get("a") == 1

    with Processes(tmp_path) as processes:
        asyncio.run(story(processes))
