"""Hybrid logical clock, and the order of all requests that a replica has received.

The clock is `currTime` of line 17. Timestamps are microseconds, strictly increasing at a replica,
and never below a received timestamp. So no request on `tentative` is later than one issued now, and
line 19 excludes none. A clock that runs ahead advances the timestamps of the other replicas. It
does not keep its own requests unstable.

The order is `committed · tentative` (lines 6, 37-40, 49-53), maintained incrementally. Inserting
costs O(log n), at the end O(1). Committing k requests costs O(k log n + holes). No operation walks
a whole list. A checkpoint may replace a prefix of `committed`; only its length and its identifiers
are retained.

This module does not depend on what requests do, or on which of them were executed.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.request import OrderKey, Request
from creekdb.protocol.sorted_blocks import SortedBlocks


class HybridClock:
    def __init__(self) -> None:
        self.last = 0

    def stamp(self, now: int) -> int:
        """Return a timestamp for a new request, at the wall-clock time `now`."""
        self.last = max(self.last + 1, now)
        return self.last

    def peek(self, now: int) -> int:
        """Return a time for an event outside the order, not before any known timestamp."""
        return max(self.last, now)

    def observe(self, timestamp: int, now: int) -> int:
        """Observe a received timestamp; return its lead over the clock, at least 0."""
        ahead = timestamp - max(self.last, now)
        self.last = max(self.last, timestamp)
        return max(ahead, 0)


class RequestOrder:
    def __init__(self) -> None:
        self.committed: list[Request] = []
        """Requests at positions `first_position`, `first_position + 1`, … of `committed`."""
        self.first_position = 0
        self.committed_ids = DotSet()
        """Identifiers of all of `committed`, including the truncated prefix."""
        self.tentative: SortedBlocks[Request] = SortedBlocks()
        """Tentative requests, in order. Only this class changes them."""
        self._tentative_by_id: dict[Dot, Request] = {}

    @property
    def length(self) -> int:
        """Number of committed requests."""
        return self.first_position + len(self.committed)

    def find_tentative(self, id: Dot) -> Request | None:
        return self._tentative_by_id.get(id)

    def tentative_after(self, key: OrderKey | None) -> Iterator[Request]:
        """Return the tentative requests later than `key`, or all of them if `key` is None."""
        if key is None:
            return iter(self.tentative)
        return self.tentative.after(_sort_key(key.timestamp, key.id))

    def insert(self, request: Request) -> None:
        """Insert a new request at its position on `tentative` (lines 37-39)."""
        id = request.id
        assert id not in self._tentative_by_id
        assert id not in self.committed_ids
        self._tentative_by_id[id] = request
        self.tentative.add(_sort_key(request.timestamp, id), request)

    def commit(self, request: Request, cut: Sequence[Dot] = ()) -> list[Request]:
        """Move a strong request, preceded by its causal context, to `committed` (lines 49-52).

        A `cut` extends the context: each dot by the weak requests of its origin up to that event.
        Return the moved requests, in their new order. The whole context must be present
        (`checkDep`).
        """
        assert request.context is not None
        unstable = self.committed_ids.missing(request.context)
        moved = self._tentative_in(unstable) if unstable.ranges else []
        ends: dict[int, int] = {}
        for dot in cut:  # of two cuts, if the strong request between them was delivered before
            ends[dot.replica] = max(dot.event, ends.get(dot.replica, 0))
        for replica, event in ends.items():
            moved += self._tentative_weak_up_to(replica, event, request.context)
        if len(moved) > 1:
            moved.sort(key=_order_key)
        moved.append(request)
        for each in moved:
            id = each.id
            self._remove_tentative(each, id)
            self.committed_ids.add(id)
        self.committed += moved
        return moved

    def _tentative_in(self, ids: Dots) -> list[Request]:
        """Return the requests with these identifiers, which are all tentative."""
        by_id: dict[Any, Request] = self._tentative_by_id
        found: list[Request] = []
        for replica, ranges in ids.ranges.items():
            for at in range(0, len(ranges), 2):
                # A plain tuple is equal to the dot, and cheaper to create.
                found += [by_id[replica, event] for event in range(ranges[at], ranges[at + 1])]
        return found

    def _tentative_weak_up_to(self, replica: int, event: int, context: Dots) -> list[Request]:
        """Return the weak requests of an origin up to an event that `context` does not have."""
        weak: list[Request] = []
        for id in self.committed_ids.missing(Dots({replica: (1, event + 1)})):
            request = self._tentative_by_id[id]
            if not request.strong and id not in context:
                weak.append(request)
        return weak

    def ids_before(self, length: int) -> Dots:
        """Return the identifiers of the first `length` committed requests, in O(later requests)."""
        suffix = self.committed[length - self.first_position :]
        return self.committed_ids.freeze().without(request.id for request in suffix)

    def truncate_prefix(self, length: int) -> None:
        """Discard the first `length` committed requests, but keep their identifiers."""
        assert self.first_position <= length <= self.length
        del self.committed[: length - self.first_position]
        self.first_position = length

    def can_install(self, length: int, ids: Dots) -> bool:
        """True if a checkpoint with these identifiers covers every committed request."""
        covered = DotSet()
        covered.update(ids)
        return length >= self.length and covered.covers(self.committed_ids)

    def install(self, length: int, ids: Dots) -> None:
        """Replace the first `length` requests, named by `ids`, by a checkpoint, which must cover
        all committed requests."""
        assert self.can_install(length, ids)
        for each in [request for id, request in self._tentative_by_id.items() if id in ids]:
            self._remove_tentative(each, each.id)
        self.committed = []
        self.first_position = length
        self.committed_ids.update(ids)

    def _remove_tentative(self, request: Request, id: Dot) -> None:
        del self._tentative_by_id[id]
        if not self.tentative.remove_first(request):
            removed = self.tentative.remove(_sort_key(request.timestamp, id), request)
            assert removed


def _order_key(request: Request) -> tuple[int, Dot]:
    """Return the fields of `request.key`, at half the cost."""
    return request.timestamp, request.id


def _sort_key(timestamp: int, id: Dot) -> int:
    """Return the order key as one integer that compares alike. An event number takes less than 62
    bits, the number of a replica less than 34."""
    replica, event = id
    return (timestamp << 96) | (replica << 62) | event
