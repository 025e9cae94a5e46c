"""Bounds of the queues of calls, in simulated time."""

from collections import deque
from itertools import count
from statistics import median

import pytest

from creekdb.protocol.ids.version_vector import Dot
from creekdb.server.calls.admission_control import (
    LONG_STALL_TARGETS,
    TARGET_SHARE,
    TICK_INTERVAL_MAX_S,
    CallQueue,
)

BUSY_AFTER_S = 2.0
TARGET_S = BUSY_AFTER_S * TARGET_SHARE
TICK_S = 0.02


class QueueingServer:
    """Server with an open loop of calls: serves a fixed number per tick, the oldest first."""

    def __init__(self, served_per_tick: int) -> None:
        self.queue = CallQueue(TARGET_S)
        self.waits_s: list[float] = []
        self.rejected = 0
        self._served_per_tick = served_per_tick
        self._waiting: deque[tuple[Dot, float]] = deque()
        self._events = count(1)
        self._now_s = 0.0

    def run(self, duration_s: float, arrivals_per_tick: int) -> None:
        for _ in range(round(duration_s / TICK_S)):
            self._now_s += TICK_S
            for _ in range(arrivals_per_tick):
                self.call()
            for _ in range(min(self._served_per_tick, len(self._waiting))):
                id, arrived_s = self._waiting.popleft()
                self.queue.serve(id)
                self.waits_s.append(self._now_s - arrived_s)
            self.queue.tick(TICK_S)

    def call(self) -> bool:
        """Return True if a call is admitted."""
        if not self.queue.has_space():
            self.rejected += 1
            return False
        id = Dot(0, next(self._events))
        self.queue.add(id)
        self._waiting.append((id, self._now_s))
        return True

    def wait_of_next_call_s(self) -> float:
        return len(self._waiting) / self._served_per_tick * TICK_S


@pytest.mark.parametrize("overload", [2, 3, 10])
def test_an_overloaded_queue_stays_short_and_recovers_within_a_second(overload: int) -> None:
    server = QueueingServer(served_per_tick=20)
    server.run(60.0, arrivals_per_tick=20 * overload)
    assert median(server.waits_s) <= BUSY_AFTER_S / 2
    assert len(server.waits_s) >= 0.95 * 60.0 / TICK_S * 20, "the server is never idle"
    assert server.wait_of_next_call_s() < 1.0
    server.run(1.0, arrivals_per_tick=0)
    assert server.call()
    assert server.wait_of_next_call_s() <= TICK_S


def test_no_call_waits_longer_than_the_limit_at_three_times_the_load() -> None:
    server = QueueingServer(served_per_tick=20)
    server.run(60.0, arrivals_per_tick=60)
    assert max(server.waits_s) <= BUSY_AFTER_S


def test_a_load_below_the_capacity_is_never_rejected() -> None:
    server = QueueingServer(served_per_tick=20)
    server.run(10.0, arrivals_per_tick=19)
    for _ in range(100):  # a burst
        assert server.call()
    server.run(10.0, arrivals_per_tick=19)
    assert not server.rejected


def filled_queue(count: int) -> CallQueue:
    queue = CallQueue(TARGET_S)
    for event in range(1, count + 1):
        queue.add(Dot(0, event))
    return queue


def test_time_stands_still_while_no_call_is_served() -> None:
    queue = filled_queue(100)
    for _ in range(1000):
        queue.tick(TICK_S)
    assert queue.has_space()
    for _ in range(1000):
        queue.tick(TICK_S, can_progress=True)
    assert queue.has_space(), "calls of the outage do not count"


def test_a_queue_that_should_be_served_becomes_congested() -> None:
    queue = filled_queue(100)
    for _ in range(round(TARGET_S / TICK_S) - 1):
        queue.tick(TICK_S, can_progress=True)
        assert queue.has_space()
    for _ in range(2):
        queue.tick(TICK_S, can_progress=True)
    assert not queue.has_space()


def test_a_suspended_process_is_not_overloaded() -> None:
    queue = filled_queue(10)
    queue.serve(Dot(0, 1))
    queue.tick(3600.0)
    assert TICK_INTERVAL_MAX_S <= TARGET_S
    assert queue.has_space()


def test_a_queue_of_few_calls_is_never_congested() -> None:
    queue = CallQueue(TARGET_S, length_min=3)
    for number in range(1, 4):
        queue.add(Dot(0, number))
    for _ in range(10):
        queue.tick(TARGET_S / 5, can_progress=True)
    assert queue.has_space()

    queue.add(Dot(0, 4))
    assert not queue.has_space()


def test_a_queue_that_is_not_served_at_all_for_long_is_not_overloaded() -> None:
    queue = filled_queue(50)
    for _ in range(8):
        queue.tick(TARGET_S / 5, can_progress=True)
    assert not queue.has_space()

    for _ in range(5 * LONG_STALL_TARGETS):
        queue.tick(TARGET_S / 5, can_progress=True)
    for number in range(100, 200):
        assert queue.has_space()
        queue.add(Dot(0, number))
