"""Call deadlines: one timer serves all calls of a connection."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from creekdb.client.call_router import DEADLINE_CHECK_S, CallDeadlines
from creekdb.client.calls import Call
from creekdb.client.errors import NotDone
from creekdb.wire import messages
from creekdb.wire.reject_reason import RejectReason


class FakeTimer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """Event loop whose time the test advances."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(when, callback))
        return self.timers[-1]

    @property
    def pending(self) -> list[FakeTimer]:
        return [timer for timer in self.timers if not timer.is_cancelled and timer.when > self.now]

    def advance_to(self, when: float) -> None:
        while due := [timer for timer in self.pending if timer.when <= when]:
            first = min(due, key=lambda timer: timer.when)
            self.now = first.when
            first.callback()
        self.now = when


class DeadlineFixture:
    """Pending calls, and the time at which each timed out."""

    def __init__(self, loop: FakeLoop) -> None:
        self.loop = loop
        self.pending: dict[int, Call[Any]] = {}
        self.timed_out: dict[int, float] = {}
        running_loop = cast(Callable[[], asyncio.AbstractEventLoop], lambda: loop)
        self.deadlines = CallDeadlines(self.pending.values, self._on_timeout, running_loop)

    def call(self, number: int, timeout_s: float) -> None:
        call: Call[Any] = Call(messages.CallRequest(number, "put"), timeout_s)
        call.deadline = self.loop.now + timeout_s
        self.pending[number] = call
        self.deadlines.schedule(call.deadline)

    def _on_timeout(self, call: Call[Any]) -> None:
        number = call.message.number
        assert number not in self.timed_out
        self.timed_out[number] = self.loop.now
        call.fail(NotDone(RejectReason.DEADLINE, "timed out"))
        del self.pending[number]


@pytest.fixture
def calls() -> DeadlineFixture:
    return DeadlineFixture(FakeLoop())


def test_completed_calls_share_one_timer(calls: DeadlineFixture) -> None:
    for number in range(1000):
        calls.call(number, 60.0)
        calls.loop.advance_to(calls.loop.now + 0.1)
        del calls.pending[number]
    assert len(calls.loop.timers) <= 3
    calls.loop.advance_to(calls.loop.now + 200)
    assert not calls.timed_out
    assert not calls.loop.pending


def test_each_call_times_out_at_its_own_deadline(calls: DeadlineFixture) -> None:
    start = calls.loop.now
    timeouts_s = [60.0, 1.0, 5.0, 0.2, 5.0]
    for number, timeout_s in enumerate(timeouts_s):
        calls.call(number, timeout_s)
    calls.loop.advance_to(start + 100)
    assert sorted(calls.timed_out) == list(range(len(timeouts_s)))
    for number, timeout_s in enumerate(timeouts_s):
        assert 0 <= calls.timed_out[number] - start - timeout_s <= DEADLINE_CHECK_S
    assert not calls.loop.pending


def test_successive_timeouts_share_checks(calls: DeadlineFixture) -> None:
    for number in range(1000):
        calls.call(number, 1.0)
        calls.loop.now += DEADLINE_CHECK_S / 100
    calls.loop.advance_to(calls.loop.now + 2)
    assert len(calls.timed_out) == 1000
    assert len(calls.loop.timers) <= 13


def test_no_check_runs_after_stop(calls: DeadlineFixture) -> None:
    calls.call(1, 1.0)
    calls.deadlines.stop()
    calls.loop.advance_to(calls.loop.now + 10)
    assert not calls.timed_out
    calls.call(2, 1.0)  # after a reconnection
    calls.loop.advance_to(calls.loop.now + 10)
    assert sorted(calls.timed_out) == [1, 2]
