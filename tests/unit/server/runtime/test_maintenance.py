"""Periodic tasks of a replica."""

import asyncio

from creekdb.server.runtime.maintenance import run_ticks


async def test_an_idle_replica_processes_two_ticks_together() -> None:
    idle = [False, True, True, False, False]
    due: list[int] = []
    done = asyncio.Event()

    def tick(elapsed_s: float, ticks: int) -> None:
        due.append(ticks)
        if len(due) == len(idle):
            done.set()

    task = asyncio.create_task(run_ticks(0.001, tick, lambda: idle[len(due) - 1]))
    await done.wait()
    task.cancel()

    assert due == [1, 1, 2, 2, 1]
