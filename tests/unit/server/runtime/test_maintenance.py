"""Periodic tasks of a replica."""

import asyncio
from collections.abc import Callable

import pytest

from creekdb.server.runtime.maintenance import IDLE_TICKS, SLEW_MAX, Ticker

INTERVAL_S = 0.02
IDLE_INTERVAL_S = IDLE_TICKS * INTERVAL_S


async def run_until(
    condition: Callable[[], bool], ticker: Ticker, tick: Callable[[float, int], None]
) -> None:
    """Run the ticker of an idle replica until the condition holds."""
    task = asyncio.create_task(ticker.run(tick, lambda: True))
    while not condition():
        await asyncio.sleep(0)
    task.cancel()


def test_an_idle_replica_processes_two_ticks_together() -> None:
    ticker = Ticker(INTERVAL_S, clock_lead_s=lambda: 0.0)
    assert ticker.next_wait(0.0, is_idle=False) == (1, INTERVAL_S)
    assert ticker.next_wait(0.0, is_idle=True) == (2, IDLE_INTERVAL_S)
    assert ticker.next_wait(INTERVAL_S, is_idle=True) == (1, INTERVAL_S)


async def test_a_tick_receives_the_number_of_ticks_that_are_due() -> None:
    waits: list[int] = []
    due: list[int] = []

    class RecordingTicker(Ticker):
        def next_wait(self, due_s: float, is_idle: bool) -> tuple[int, float]:
            ticks, wait_s = super().next_wait(due_s, is_idle)
            waits.append(ticks)
            return ticks, wait_s

    ticker = RecordingTicker(0.001)
    await run_until(lambda: len(due) == 6, ticker, lambda elapsed_s, ticks: due.append(ticks))

    assert due == [1, *waits[:5]]


@pytest.mark.parametrize("first_due_s", [0.0, 0.0101, 0.0149, 0.0199, 0.0201, 0.0275, 0.0399])
def test_ticks_of_idle_replicas_approach_the_same_times(first_due_s: float) -> None:
    ticker = Ticker(INTERVAL_S, clock_lead_s=lambda: 1_234_567 * IDLE_INTERVAL_S - 50)
    due_s = 50 + first_due_s
    for _ in range(8):
        ticks, wait_s = ticker.next_wait(due_s, is_idle=True)
        assert wait_s == pytest.approx(ticks * INTERVAL_S, abs=SLEW_MAX * INTERVAL_S * 1.001)
        due_s += wait_s

    assert ticks == IDLE_TICKS
    assert wait_s == pytest.approx(IDLE_INTERVAL_S)
    assert abs((due_s - 50) / IDLE_INTERVAL_S % 1 - 0.5) == pytest.approx(0.5, abs=1e-3)


def test_a_jump_of_the_wall_clock_changes_no_tick_by_more_than_a_tenth() -> None:
    lead_s = [0.0]
    ticker = Ticker(INTERVAL_S, clock_lead_s=lambda: lead_s[0])
    due_s = 0.0
    for jump_s in (0.0, 3600.007, -86_400.013, 0.5, 0.0301):
        lead_s[0] += jump_s
        ticks, wait_s = ticker.next_wait(due_s, is_idle=True)
        assert wait_s == pytest.approx(ticks * INTERVAL_S, abs=SLEW_MAX * INTERVAL_S * 1.001)
        due_s += wait_s


def test_the_wall_clock_does_not_influence_the_ticks_of_a_busy_replica() -> None:
    assert Ticker(INTERVAL_S, lambda: 0.0137).next_wait(0.003, is_idle=False) == (1, INTERVAL_S)


async def test_a_sleeping_task_wakes_at_the_first_tick_after_its_time() -> None:
    ticker = Ticker(0.001)
    ticks_s: list[float] = []
    woken_at_ticks: list[int] = []

    async def sleep_twice() -> None:
        for _ in range(2):
            await ticker.sleep(0.0035)
            woken_at_ticks.append(len(ticks_s))

    def tick(elapsed_s: float, ticks: int) -> None:
        ticks_s.append(elapsed_s)

    sleeper = asyncio.create_task(sleep_twice())
    cancelled = asyncio.create_task(ticker.sleep(0.001))
    await asyncio.sleep(0)
    cancelled.cancel()
    await run_until(sleeper.done, ticker, tick)

    first, second = woken_at_ticks
    assert sum(ticks_s[:first]) >= 0.0034
    assert sum(ticks_s[first:second]) >= 0.0034
