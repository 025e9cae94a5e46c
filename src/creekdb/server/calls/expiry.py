"""Expiry of old calls, independent of the setting of any clock.

A call carries a timestamp of its replica's clock, which may be wrong. So the leader commits marks:
calls without a client, which do nothing and are retained like others. A call expires when its
timestamp precedes a mark that enough later marks follow.

Rules:

- A replica that issues a mark has seen the previous one committed for a whole interval, by a
  monotonic clock. Marks are numbered, and only the first mark of a number takes effect. So at least
  one interval separates two marks, regardless of the leader and of leader changes.
- Marks are strong. A majority holds a mark before it counts, and a replica assigns timestamps above
  all that it holds. So a call with a timestamp before a mark was invoked before it, whatever the
  clocks showed. Only the time that a replica was cut off is not counted.
- An absent member may hold a call that its client also sent to another replica, and may return with
  it much later. While a member is absent, calls are retained `ABSENT_MEMBER_FACTOR` times as long.
  A member is absent until it has been in step for a whole interval. By then all its requests have
  arrived.
- An overloaded leader still issues marks and expires calls: one mark per interval, and a few calls
  at a time with a pause in between.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from creekdb.execution.keys import CALLS_PREFIX, CollationKey, prefix_range
from creekdb.protocol.request import NOOP, Operation
from creekdb.protocol.values import Key
from creekdb.wire.deduplication import wrap_call

INTERVALS_PER_RETENTION: Final = 24
"""Number of mark intervals in the retention time of a call."""
ABSENT_MEMBER_FACTOR: Final = 7
"""Factor by which an absent member prolongs the retention time."""
IN_STEP_MARKS: Final = 2
"""Consecutive marks, each stable on all members before the next, after which no member is absent.
"""
NO_CLIENT: Final = ""
"""Client name of the marks. No client has this name."""


class ExpiryMark(NamedTuple):
    number: int
    timestamp: int


class ExpiryActions(NamedTuple):
    """Actions that the leader must perform now."""

    mark: Operation | None
    """Mark to be issued as a strong call."""
    before_us: int | None
    """Timestamp, in microseconds, before which calls expire."""


def mark_key_range() -> tuple[CollationKey, CollationKey]:
    return prefix_range((CALLS_PREFIX, NO_CLIENT))


def read_marks(items: Iterable[tuple[Key, Any]]) -> list[ExpiryMark]:
    """Return the marks stored in these registers, in their order."""
    return sorted(ExpiryMark(value[0], value[1]) for _, value in items)


class ExpirySchedule:
    """Schedule of marks and expiry. All times are seconds of a monotonic clock."""

    def __init__(self, retention_s: float, now_s: float) -> None:
        self.interval_s = retention_s / INTERVALS_PER_RETENTION
        self._last_mark = 0
        """Number of the last mark that this replica has seen."""
        self._last_mark_seen_s = now_s
        """Time when this replica saw the last mark, or issued the next one."""
        self._stable_instance = 0
        """Number of instances that were stable on this replica at that time."""
        self._in_step_marks = 0
        """Consecutive marks at which every member had stabilised the previous mark."""
        self._last_expired_mark = 0
        """Last mark at the time of the last expiry."""

    def check(
        self,
        marks: list[ExpiryMark],
        is_leader: bool,
        now_s: float,
        stable: int,
        stable_everywhere: int,
    ) -> ExpiryActions:
        """Return the actions that are due. Call this several times per interval on every replica.

        `stable` is the number of instances that are stable on this replica, `stable_everywhere` the
        number that is stable on every member.
        """
        last = marks[-1].number if marks else 0
        if last != self._last_mark:
            self._in_step_marks = (
                self._in_step_marks + 1 if stable_everywhere >= self._stable_instance > 0 else 0
            )
            self._last_mark, self._last_mark_seen_s, self._stable_instance = last, now_s, stable
        mark, before_us = None, None
        if is_leader and now_s - self._last_mark_seen_s >= self.interval_s:
            self._last_mark_seen_s = now_s
            mark = wrap_call(NO_CLIENT, last + 1, NOOP)
        required = (
            INTERVALS_PER_RETENTION
            if self._in_step_marks >= IN_STEP_MARKS
            else INTERVALS_PER_RETENTION * ABSENT_MEMBER_FACTOR
        )
        if is_leader and last != self._last_expired_mark and len(marks) > required:
            self._last_expired_mark = last
            before_us = marks[-1 - required].timestamp
        return ExpiryActions(mark, before_us)
