"""Calls that are old are forgotten, and no clock that anybody sets says how old they are.

A call is stamped by the clock of its replica, and that may be wrong. So the order has marks in it,
made by who leads: calls of nobody, which do nothing and are kept like others. A call is forgotten
when it is stamped before a mark that has enough marks behind it.

Rules it keeps:

- Who makes a mark has seen the one before it, committed, for a whole part of the time, counted by a
  clock that only goes on. Marks have numbers, and each is made once: who makes the same comes too
  late. So between two of them lies a part of the time, whoever leads and however often that
  changes.
- Marks are strong: a majority has a mark before it counts, and a replica stamps later than all that
  it has. So a call that is stamped before a mark was asked for before it, at whatever time the
  clocks were. Only where a replica was cut off meanwhile, the time that it was is missing.
- A member that is away may have taken up a call that its client asked another one for as well, and
  be back with it much later. So while one is, calls are kept for `AWAY` times as long. It counts as
  away until it has been in step for a whole part: by then all that it had has arrived.
- Who leads makes marks and has calls forgotten also while it has too much to do for its clients:
  a mark in each part of the time, and a few calls at a time, with a pause in between.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from creekdb.execution.keys import CALLS_PREFIX, CollationKey, prefix_range
from creekdb.protocol.request import NOOP, Operation
from creekdb.protocol.values import Key
from creekdb.wire.deduplication import wrap_call

INTERVALS_PER_RETENTION: Final = 24
"""Of the time after which a call is forgotten."""
ABSENT_MEMBER_FACTOR: Final = 7
IN_STEP_MARKS: Final = 2
"""Marks, one after the other, by which everybody had settled the mark before."""
NO_CLIENT: Final = ""
"""The name of no client."""


class ExpiryMark(NamedTuple):
    number: int
    timestamp: int


class ExpiryActions(NamedTuple):
    """What is to be done by who leads."""

    mark: Operation | None
    """To be called strongly."""
    before_us: int | None
    """What is stamped before is to be forgotten."""


def mark_key_range() -> tuple[CollationKey, CollationKey]:
    return prefix_range((CALLS_PREFIX, NO_CLIENT))


def read_marks(items: Iterable[tuple[Key, Any]]) -> list[ExpiryMark]:
    """Those that the registers at these places hold, in their order."""
    return sorted(ExpiryMark(kept[0], kept[1]) for _, kept in items)


class ExpirySchedule:
    """Times are in seconds, of a clock that only goes on."""

    def __init__(self, forget_after_s: float, now_s: float) -> None:
        self.interval_s = forget_after_s / INTERVALS_PER_RETENTION
        self._last_mark = 0
        """The number of the last mark, as far as it was seen here."""
        self._last_mark_seen_s = now_s
        """Since when; or since this replica has made the next one."""
        self._stable_instance = 0
        """The instances that were settled here then."""
        self._in_step_marks = 0
        """By how many marks in a row everybody had settled the mark before."""
        self._last_expired_mark = 0
        """The last mark when calls were forgotten."""

    def check(
        self, marks: list[ExpiryMark], leads: bool, now_s: float, settled: int, by_all: int
    ) -> ExpiryActions:
        """To be asked several times in each part, by who does not lead as well. `settled`: the
        instances that are settled here; `by_all`: those that every member has settled."""
        last = marks[-1].number if marks else 0
        if last != self._last_mark:
            self._in_step_marks = (
                self._in_step_marks + 1 if by_all >= self._stable_instance > 0 else 0
            )
            self._last_mark, self._last_mark_seen_s, self._stable_instance = last, now_s, settled
        mark, before_us = None, None
        if leads and now_s - self._last_mark_seen_s >= self.interval_s:
            self._last_mark_seen_s = now_s
            mark = wrap_call(NO_CLIENT, last + 1, NOOP)
        enough = (
            INTERVALS_PER_RETENTION
            if self._in_step_marks >= IN_STEP_MARKS
            else INTERVALS_PER_RETENTION * ABSENT_MEMBER_FACTOR
        )
        if leads and last != self._last_expired_mark and len(marks) > enough:
            self._last_expired_mark = last
            before_us = marks[-1 - enough].timestamp
        return ExpiryActions(mark, before_us)
