"""Sets of identifiers, as ranges of event numbers per replica.

The protocol has its own (`creekdb.protocol.ids.version_vector`). The checkers do not use it on
purpose: a fault in it must not blind those who look for faults.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from creekdb.history import Dot, Dots


class Ids:
    __slots__ = ("ranges",)

    def __init__(self, dots: Dots | None = None) -> None:
        self.ranges: dict[int, list[int]] = {}
        """Per replica, `start, end, start, end, …`: ascending, half open, never touching."""
        if dots is not None:
            self.update(dots)

    def __contains__(self, dot: Dot) -> bool:
        return bisect_right(self.ranges.get(dot.replica, ()), dot.event) % 2 == 1

    def __iter__(self) -> Iterator[Dot]:
        for replica, start, end in _ranges(self):
            for event in range(start, end):
                yield Dot(replica, event)

    def add(self, dot: Dot) -> None:
        self._add(dot.replica, dot.event, dot.event + 1)

    def update(self, other: "Dots | Ids") -> None:
        for replica, start, end in _ranges(other):
            self._add(replica, start, end)

    def copy(self) -> "Ids":
        same = Ids()
        same.ranges = {replica: list(flat) for replica, flat in self.ranges.items()}
        return same

    def missing(self, other: "Dots | Ids") -> Iterator[Dot]:
        """What is in `other` but not here."""
        for replica, start, end in _ranges(other):
            mine = self.ranges.get(replica, [])
            while start < end:
                at = bisect_right(mine, start)
                stop = min(end, mine[at]) if at < len(mine) else end
                if at % 2 == 0:
                    yield from (Dot(replica, event) for event in range(start, stop))
                start = stop

    def first_missing(self, other: "Dots | Ids") -> Dot | None:
        return next(self.missing(other), None)

    def _add(self, replica: int, start: int, end: int) -> None:
        mine = self.ranges.setdefault(replica, [])
        first, last = bisect_left(mine, start), bisect_right(mine, end)
        mine[first:last] = [start] * (first % 2 == 0) + [end] * (last % 2 == 0)


def _ranges(ids: Dots | Ids) -> Iterable[tuple[int, int, int]]:
    for replica, flat in ids.ranges.items():
        for at in range(0, len(flat), 2):
            yield replica, flat[at], flat[at + 1]
