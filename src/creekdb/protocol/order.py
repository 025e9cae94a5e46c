"""A hybrid logical clock: `currTime` of line 17.

Timestamps are microseconds, strictly increasing at a replica, and never behind anything received.
So no request on `tentative` is later than one issued now, and line 19 leaves nothing out: a replica
whose clock runs ahead drags the others' timestamps along instead of keeping its requests unstable.

`committed · tentative`: the one order of everything a replica knows (lines 6, 37-40, 49-53).

Kept incrementally. Inserting costs O(log n), at the end O(1); committing k requests costs O(k log n
+ holes); nothing ever walks a whole list. The beginning of `committed` may be summed up in a
checkpoint: then only its length and its identifiers are kept.

This module orders requests. It does not know what they do, or which of them were executed.
"""

from collections.abc import Iterator

from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.request import OrderKey, Request
from creekdb.protocol.sorted_blocks import SortedBlocks


class HybridClock:
    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def stamp(self, now: int) -> int:
        """A timestamp for a new request, when the wall clock says `now`."""
        self.last = max(self.last + 1, now)
        return self.last

    def peek(self, now: int) -> int:
        """The time for something that takes no place in the order: not before anything known."""
        return max(self.last, now)

    def observe(self, timestamp: int, now: int) -> int:
        """Take note of a received timestamp; how far it jumped ahead of all we knew, at least 0."""
        ahead = timestamp - max(self.last, now)
        self.last = max(self.last, timestamp)
        return max(ahead, 0)


class RequestOrder:
    __slots__ = ("_sorted_tentative", "_tentative", "committed", "committed_ids", "first_position")

    def __init__(self) -> None:
        self.committed: list[Request] = []
        """The requests at places `first`, `first + 1`, … of `committed`."""
        self.first_position = 0
        self.committed_ids = DotSet()
        """The identifiers of all of `committed`, summed up or not."""
        self._tentative: dict[Dot, Request] = {}
        self._sorted_tentative: SortedBlocks[Request] = SortedBlocks()
        """The same, in their order."""

    @property
    def length(self) -> int:
        """How many requests are committed."""
        return self.first_position + len(self.committed)

    @property
    def tentative_length(self) -> int:
        return len(self._tentative)

    def find_tentative(self, id: Dot) -> Request | None:
        return self._tentative.get(id)

    def tentative(self) -> Iterator[Request]:
        return iter(self._sorted_tentative)

    def first_tentative(self) -> Request | None:
        return self._sorted_tentative.first()

    def last_tentative(self, most: int) -> list[Request]:
        """The last of them, in their order: at most so many."""
        return self._sorted_tentative.last(most)

    def tentative_after(self, key: OrderKey | None) -> Iterator[Request]:
        """The tentative requests later than `key`, or all of them."""
        return (
            iter(self._sorted_tentative)
            if key is None
            else self._sorted_tentative.after(_sort_key(key))
        )

    def insert(self, request: Request) -> None:
        """Lines 37-39: put a new request in its place on `tentative`."""
        id = request.id
        assert id not in self._tentative
        assert id not in self.committed_ids
        self._tentative[id] = request
        self._sorted_tentative.add(_sort_key(request), request)

    def commit(self, request: Request) -> list[Request]:
        """Lines 49-52: move a strong request, after what is in its causal context, to `committed`.

        Answers with what moved, in its new order. All of the context must be here (`checkDep`).
        """
        assert request.context is not None
        unstable = self.committed_ids.missing(request.context)
        moved = [self._tentative[id] for id in unstable] if unstable.ranges else []
        if len(moved) > 1:
            moved.sort(key=_order_key)
        moved.append(request)
        for each in moved:
            self._remove_tentative(each)
            self.committed_ids.add(each.id)
        self.committed += moved
        return moved

    def ids_before(self, length: int) -> Dots:
        """The identifiers of the first `length` committed requests: O(what comes behind them)."""
        behind = self.committed[length - self.first_position :]
        return self.committed_ids.freeze().without(request.id for request in behind)

    def truncate_prefix(self, length: int) -> None:
        """Forget the requests, but not the identifiers, of the first `length` committed ones."""
        assert self.first_position <= length <= self.length
        del self.committed[: length - self.first_position]
        self.first_position = length

    def can_install(self, length: int, ids: Dots) -> bool:
        """Does it hold everything that is committed here?"""
        return length >= self.length and _covers(ids, self.committed_ids)

    def install(self, length: int, ids: Dots) -> list[Request]:
        """Let a checkpoint take the place of the first `length` requests, which `ids` names.

        It must reach beyond what is committed here. Answers with the tentative requests that it
        covers, in no order that means anything.
        """
        assert self.can_install(length, ids)
        covered = [request for id, request in self._tentative.items() if id in ids]
        for each in covered:
            self._remove_tentative(each)
        self.committed = []
        self.first_position = length
        self.committed_ids.update(ids)
        return covered

    def _remove_tentative(self, request: Request) -> None:
        del self._tentative[request.id]
        if not self._sorted_tentative.remove_first(request):
            removed = self._sorted_tentative.remove(_sort_key(request), request)
            assert removed


def _order_key(request: Request) -> tuple[int, Dot]:
    """As `request.key`, at half the cost."""
    return request.timestamp, request.id


def _sort_key(of: Request | OrderKey) -> int:
    """The key as one number, which compares alike: an event takes less than 62 bits, and the number
    of a replica less than 34."""
    replica, event = of.id
    return (of.timestamp << 96) | (replica << 62) | event


def _covers(ids: Dots, others: DotSet) -> bool:
    mine = DotSet()
    mine.update(ids)
    return mine.covers(others)
