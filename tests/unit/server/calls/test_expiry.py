"""Call expiry: marks in the order measure the age of calls, whatever clocks and leaders do."""

from typing import Any

from creekdb.datatypes.kv import KV
from creekdb.execution.keys import CALLS_PREFIX, collation_key
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.server.calls.expiry import (
    ABSENT_MEMBER_FACTOR,
    INTERVALS_PER_RETENTION,
    ExpiryActions,
    ExpiryMark,
    ExpirySchedule,
    mark_key_range,
    read_marks,
)
from creekdb.wire.deduplication import expire_calls, wrap_call

DAY_S = 86_400.0
INTERVAL_S = DAY_S / INTERVALS_PER_RETENTION
DAYS_US = 10 * 86_400_000_000


class CommittedOrder:
    """Committed requests. Timestamps increase, however wrong the clock is."""

    def __init__(self) -> None:
        self._state = StateObject(DeduplicatingDataType(KV))
        self._events = self._last_us = 0
        self.stable_at_absent_member: int | None = None
        """Instances that are stable at an absent member. None if every member is present."""

    def commit(self, operation: Operation, clock_us: int) -> Any:
        self._events += 1
        self._last_us = max(self._last_us + 1, clock_us)
        request = Request(self._last_us, Dot(0, self._events), operation, strong=True)
        return self._state.execute(request).value

    def marks(self) -> list[ExpiryMark]:
        start, stop = mark_key_range()
        return read_marks(
            (key, value) for key, value in self._state.items() if start <= collation_key(key) < stop
        )

    def retains(self, client: str) -> bool:
        return (CALLS_PREFIX, client, 1) in dict(self._state.items())

    def check(self, schedule: ExpirySchedule, now_s: float, clock_us: int) -> ExpiryActions:
        """Run the schedule of the leader, and commit the operations that are due."""
        stable_everywhere = (
            self._events if self.stable_at_absent_member is None else self.stable_at_absent_member
        )
        due = schedule.check(self.marks(), True, now_s, self._events, stable_everywhere)
        if due.mark is not None:
            self.commit(due.mark, clock_us)
        if due.before_us is not None:
            self.commit(expire_calls(due.before_us), clock_us)
        return due


def test_leader_with_a_clock_days_ahead_expires_nothing_early() -> None:
    order = CommittedOrder()
    order.commit(wrap_call("ann", 1, KV.call("put", "a", 1)), 1_000)
    schedule = ExpirySchedule(DAY_S, 0.0)
    checks = 4
    for check in range(1, INTERVALS_PER_RETENTION * checks):
        now_s = check * INTERVAL_S / checks
        order.check(schedule, now_s, DAYS_US + int(now_s * 1_000_000))
        order.commit(wrap_call("bob", 1 + check // checks, KV.call("put", "b", 1)), 2_000)
        assert order.retains("ann"), f"expired after {now_s / DAY_S:.0%} of the retention time"
    for check in range(INTERVALS_PER_RETENTION * checks, 2 * INTERVALS_PER_RETENTION * checks):
        order.check(schedule, check * INTERVAL_S / checks, DAYS_US)
    assert not order.retains("ann"), "the call expires eventually"


def test_calls_expire_although_the_clock_is_behind() -> None:
    order = CommittedOrder()
    order.commit(wrap_call("ann", 1, KV.call("put", "a", 1)), DAYS_US)
    schedule = ExpirySchedule(DAY_S, 0.0)
    for interval in range(1, 2 * INTERVALS_PER_RETENTION + 3):
        order.check(schedule, interval * INTERVAL_S, 1_000)
    assert not order.retains("ann")


def test_leader_changes_do_not_shorten_the_intervals() -> None:
    order = CommittedOrder()
    leaders = [ExpirySchedule(DAY_S, 0.0) for _ in range(5)]
    for tenth in range(1, 51):
        for leader in leaders:
            order.check(leader, tenth * INTERVAL_S / 10, 0)
    assert [mark.number for mark in order.marks()] == [1, 2, 3, 4, 5]


def test_late_mark_has_no_effect() -> None:
    """Two replicas that are cut off from each other both consider themselves leader."""
    order = CommittedOrder()
    one, other = ExpirySchedule(DAY_S, 0.0), ExpirySchedule(DAY_S, 0.0)
    late = one.check(order.marks(), True, INTERVAL_S, 0, 0).mark
    assert late is not None
    order.check(other, INTERVAL_S, 0)
    first = order.marks()
    order.commit(late, DAYS_US)
    assert order.marks() == first


def test_new_leader_waits_a_whole_interval_before_its_first_mark() -> None:
    order = CommittedOrder()
    order.check(ExpirySchedule(DAY_S, 0.0), INTERVAL_S, 0)
    assert len(order.marks()) == 1
    started_later = ExpirySchedule(DAY_S, INTERVAL_S * 1.9)
    assert order.check(started_later, INTERVAL_S * 2, 0).mark is None
    assert order.check(started_later, INTERVAL_S * 2.9, 0).mark is None
    assert order.check(started_later, INTERVAL_S * 3, 0).mark is not None


def test_only_the_leader_issues_marks_and_repeats_an_uncommitted_mark() -> None:
    follower, leader = ExpirySchedule(DAY_S, 0.0), ExpirySchedule(DAY_S, 0.0)
    assert follower.check([], False, INTERVAL_S * 5, 0, 0) == ExpiryActions(None, None)
    assert leader.check([], True, INTERVAL_S, 0, 0).mark is not None
    assert leader.check([], True, INTERVAL_S * 1.5, 0, 0).mark is None, "the mark is in flight"
    assert leader.check([], True, INTERVAL_S * 2, 0, 0).mark is not None


def test_absent_member_prolongs_the_retention_time() -> None:
    order = CommittedOrder()
    order.commit(wrap_call("ann", 1, KV.call("put", "a", 1)), 1_000)
    order.stable_at_absent_member = 1
    schedule = ExpirySchedule(DAY_S, 0.0)
    # One check issues a mark, and the next one sees it.
    last_retained = 2 * ABSENT_MEMBER_FACTOR * INTERVALS_PER_RETENTION
    for interval in range(1, last_retained):
        order.check(schedule, interval * INTERVAL_S, 0)
        assert order.retains("ann"), f"expired after {interval / INTERVALS_PER_RETENTION:.1f} days"
    for interval in range(last_retained, last_retained + 4):
        order.check(schedule, interval * INTERVAL_S, 0)
    assert not order.retains("ann"), "the call expires eventually"


def test_returning_member_has_a_whole_interval_to_send_its_requests() -> None:
    order = CommittedOrder()
    order.commit(wrap_call("ann", 1, KV.call("put", "a", 1)), 1_000)
    order.stable_at_absent_member = 1
    schedule = ExpirySchedule(DAY_S, 0.0)
    for interval in range(1, 4 * INTERVALS_PER_RETENTION):
        order.check(schedule, interval * INTERVAL_S, 0)
    order.stable_at_absent_member, last_mark = None, len(order.marks())
    intervals = iter(range(4 * INTERVALS_PER_RETENTION, 5 * INTERVALS_PER_RETENTION))
    while order.marks()[-1].number == last_mark:
        order.check(schedule, next(intervals) * INTERVAL_S, 0)
        assert order.retains("ann")
    order.check(schedule, next(intervals) * INTERVAL_S, 0)
    assert not order.retains("ann")


def test_a_whole_retention_time_follows_the_mark_before_which_calls_expire() -> None:
    required = INTERVALS_PER_RETENTION * ABSENT_MEMBER_FACTOR
    schedule = ExpirySchedule(DAY_S, 0.0)
    marks = [ExpiryMark(number, 10 * number) for number in range(1, required + 1)]
    assert schedule.check(marks, True, 0.0, 0, 0).before_us is None

    marks.append(ExpiryMark(required + 1, 10 * (required + 1)))
    assert schedule.check(marks, True, 0.0, 0, 0).before_us == marks[0].timestamp
