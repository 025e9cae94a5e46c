"""One timer for all calls of a connection."""

import asyncio
from collections.abc import Callable

import pytest

from creekdb.client.call_router import DEADLINE_CHECK_S, CallDeadlines
from creekdb.client.calls import Call
from creekdb.client.errors import NotDone
from creekdb.wire import messages


class Timer:
    def __init__(self, when: float, work: Callable[[], None]) -> None:
        self.when = when
        self.work = work
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """What of a loop is asked for, in a time that the test makes pass."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, work: Callable[[], None]) -> Timer:
        self.timers.append(Timer(when, work))
        return self.timers[-1]

    @property
    def pending(self) -> list[Timer]:
        return [each for each in self.timers if not each.is_cancelled and each.when > self.now]

    def pass_to(self, when: float) -> None:
        while due := [each for each in self.pending if each.when <= when]:
            first = min(due, key=lambda each: each.when)
            self.now = first.when
            first.work()
        self.now = when


class Kept:
    """Calls, and when each was too late."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.waiting: dict[int, Call] = {}
        self.late: dict[int, float] = {}
        self.deadlines = CallDeadlines(self.waiting.values, self._too_late)

    def ask(self, number: int, within: float) -> None:
        call = Call(messages.CallRequest(number, "put"), within)
        call.deadline = self.clock.now + within
        self.waiting[number] = call
        self.deadlines.schedule(call.deadline)

    def _too_late(self, call: Call) -> None:
        number = call.message.number
        assert number not in self.late
        self.late[number] = self.clock.now
        call.fail(NotDone("deadline", "too late"))
        del self.waiting[number]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    return Kept(clock)


def test_calls_that_are_answered_need_one_timer_in_all(kept: Kept) -> None:
    for number in range(1000):
        kept.ask(number, 60.0)
        kept.clock.pass_to(kept.clock.now + 0.1)
        del kept.waiting[number]
    assert len(kept.clock.timers) <= 3
    kept.clock.pass_to(kept.clock.now + 200)
    assert not kept.late
    assert not kept.clock.pending


def test_each_call_is_too_late_at_its_own_time(kept: Kept) -> None:
    begin = kept.clock.now
    withins = [60.0, 1.0, 5.0, 0.2, 5.0]
    for number, within in enumerate(withins):
        kept.ask(number, within)
    kept.clock.pass_to(begin + 100)
    assert sorted(kept.late) == list(range(len(withins)))
    for number, within in enumerate(withins):
        assert 0 <= kept.late[number] - begin - within <= DEADLINE_CHECK_S
    assert not kept.clock.pending


def test_many_calls_that_are_late_one_after_the_other_are_looked_at_in_beats(kept: Kept) -> None:
    for number in range(1000):
        kept.ask(number, 1.0)
        kept.clock.now += DEADLINE_CHECK_S / 100
    kept.clock.pass_to(kept.clock.now + 2)
    assert len(kept.late) == 1000
    assert len(kept.clock.timers) <= 13


def test_nothing_is_looked_at_after_the_end(kept: Kept) -> None:
    kept.ask(1, 1.0)
    kept.deadlines.stop()
    kept.clock.pass_to(kept.clock.now + 10)
    assert not kept.late
    kept.ask(2, 1.0)  # connected again
    kept.clock.pass_to(kept.clock.now + 10)
    assert sorted(kept.late) == [1, 2]
