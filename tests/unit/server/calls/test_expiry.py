"""How old a call is: told by marks in the order, whatever clocks say and whoever leads."""

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
PART_S = DAY_S / INTERVALS_PER_RETENTION
DAYS_US = 10 * 86_400_000_000


class Order:
    """What was committed, by replicas that stamp later than all they have, however wrong the clock
    is that they look at."""

    def __init__(self) -> None:
        self._state = StateObject(DeduplicatingDataType(KV))
        self._events = self._last_us = 0
        self.settled_by_another: int | None = None
        """By a member that is away; None: there is none."""

    def commit(self, operation: Operation, clock_us: int) -> Any:
        self._events += 1
        self._last_us = max(self._last_us + 1, clock_us)
        request = Request(self._last_us, Dot(0, self._events), operation, strong=True)
        return self._state.execute(request).value

    def marks(self) -> list[ExpiryMark]:
        start, stop = mark_key_range()
        return read_marks(
            (key, kept) for key, kept in self._state.items() if start <= collation_key(key) < stop
        )

    def knows(self, client: str) -> bool:
        return (CALLS_PREFIX, client, 1) in dict(self._state.items())

    def look(self, marking: ExpirySchedule, now_s: float, clock_us: int) -> ExpiryActions:
        """By one who leads, and does what is due."""
        by_all = self._events if self.settled_by_another is None else self.settled_by_another
        due = marking.check(self.marks(), True, now_s, self._events, by_all)
        if due.mark is not None:
            self.commit(due.mark, clock_us)
        if due.before_us is not None:
            self.commit(expire_calls(due.before_us), clock_us)
        return due


def test_a_leader_whose_clock_is_days_ahead_forgets_nothing_too_early() -> None:
    order = Order()
    order.commit(wrap_call("ann", 1, KV.call("put", "a", 1)), 1_000)
    marking = ExpirySchedule(DAY_S, 0.0)
    looks = 4
    for look in range(1, INTERVALS_PER_RETENTION * looks):
        now_s = look * PART_S / looks
        order.look(marking, now_s, DAYS_US + int(now_s * 1_000_000))
        order.commit(wrap_call("bob", 1 + look // looks, KV.call("put", "b", 1)), 2_000)
        assert order.knows("ann"), f"forgotten after {now_s / DAY_S:.0%} of the time"
    for look in range(INTERVALS_PER_RETENTION * looks, 2 * INTERVALS_PER_RETENTION * looks):
        order.look(marking, look * PART_S / looks, DAYS_US)
    assert not order.knows("ann"), "but in the end it is"


def test_a_clock_that_is_behind_keeps_nothing_for_ever() -> None:
    order = Order()
    order.commit(wrap_call("ann", 1, KV.call("put", "a", 1)), DAYS_US)
    marking = ExpirySchedule(DAY_S, 0.0)
    for part in range(1, 2 * INTERVALS_PER_RETENTION + 3):
        order.look(marking, part * PART_S, 1_000)
    assert not order.knows("ann")


def test_leaders_that_change_do_not_make_time_pass_quicker() -> None:
    order = Order()
    leaders = [ExpirySchedule(DAY_S, 0.0) for _ in range(5)]
    for tenth in range(1, 51):
        for each in leaders:
            order.look(each, tenth * PART_S / 10, 0)
    assert [mark.number for mark in order.marks()] == [1, 2, 3, 4, 5]


def test_a_mark_that_comes_late_is_none() -> None:
    """Two replicas, cut off from each other, lead for themselves."""
    order = Order()
    one, other = ExpirySchedule(DAY_S, 0.0), ExpirySchedule(DAY_S, 0.0)
    late = one.check(order.marks(), True, PART_S, 0, 0).mark
    assert late is not None
    order.look(other, PART_S, 0)
    first = order.marks()
    order.commit(late, DAYS_US)
    assert order.marks() == first


def test_who_has_just_come_waits_for_a_whole_part_of_the_time() -> None:
    order = Order()
    order.look(ExpirySchedule(DAY_S, 0.0), PART_S, 0)
    assert len(order.marks()) == 1
    started_later = ExpirySchedule(DAY_S, PART_S * 1.9)
    assert order.look(started_later, PART_S * 2, 0).mark is None
    assert order.look(started_later, PART_S * 2.9, 0).mark is None
    assert order.look(started_later, PART_S * 3, 0).mark is not None


def test_only_who_leads_makes_marks_and_asks_again_when_it_takes_long() -> None:
    follower, leader = ExpirySchedule(DAY_S, 0.0), ExpirySchedule(DAY_S, 0.0)
    assert follower.check([], False, PART_S * 5, 0, 0) == ExpiryActions(None, None)
    assert leader.check([], True, PART_S, 0, 0).mark is not None
    assert leader.check([], True, PART_S * 1.5, 0, 0).mark is None, "it is on its way"
    assert leader.check([], True, PART_S * 2, 0, 0).mark is not None


def test_while_a_member_is_away_calls_are_kept_for_much_longer() -> None:
    order = Order()
    order.commit(wrap_call("ann", 1, KV.call("put", "a", 1)), 1_000)
    order.settled_by_another = 1
    marking = ExpirySchedule(DAY_S, 0.0)
    for part in range(
        1, 2 * ABSENT_MEMBER_FACTOR * INTERVALS_PER_RETENTION
    ):  # a mark is made at one look, and seen at the next
        order.look(marking, part * PART_S, 0)
        assert order.knows("ann"), f"forgotten after {part / INTERVALS_PER_RETENTION:.1f} days"
    for part in range(
        2 * ABSENT_MEMBER_FACTOR * INTERVALS_PER_RETENTION,
        2 * ABSENT_MEMBER_FACTOR * INTERVALS_PER_RETENTION + 4,
    ):
        order.look(marking, part * PART_S, 0)
    assert not order.knows("ann"), "but not for ever"


def test_who_is_back_has_a_part_of_the_time_to_tell_what_it_has() -> None:
    order = Order()
    order.commit(wrap_call("ann", 1, KV.call("put", "a", 1)), 1_000)
    order.settled_by_another = 1
    marking = ExpirySchedule(DAY_S, 0.0)
    for part in range(1, 4 * INTERVALS_PER_RETENTION):
        order.look(marking, part * PART_S, 0)
    order.settled_by_another, since = None, len(order.marks())
    parts = iter(range(4 * INTERVALS_PER_RETENTION, 5 * INTERVALS_PER_RETENTION))
    while order.marks()[-1].number == since:
        order.look(marking, next(parts) * PART_S, 0)
        assert order.knows("ann")
    order.look(marking, next(parts) * PART_S, 0)
    assert not order.knows("ann")
