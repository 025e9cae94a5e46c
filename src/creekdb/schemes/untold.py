"""Outcomes that are kept for other replicas, which may not compute them any more.

A snapshot carries a replica over requests that it issued: their clients are to be answered all the
same, so what came of them is told with it. What is kept is bounded, in number and in bytes: of one
that is too far behind, the oldest are given up first, and its clients ask again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome

UNTOLD_LIMIT = 4096
"""Outcomes for each replica."""
UNTOLD_BYTES = 4 * 1024 * 1024
"""What they take, encoded, for each replica; more or less."""

_SHORT: Final = frozenset((type(None), bool, int, float))
_SHORT_BYTES: Final = 16

_encode: Final = msgspec.msgpack.Encoder().encode


class _Kept:
    """For one replica, oldest first."""

    __slots__ = ("bytes", "outcomes")

    def __init__(self) -> None:
        self.outcomes: deque[tuple[int, Dot, Outcome, int]] = deque()
        """Each with the instance after which it is known, and its size."""
        self.bytes = 0

    def drop_first(self) -> None:
        self.bytes -= self.outcomes.popleft()[3]


class Untold:
    def __init__(self, peers: Iterable[int]) -> None:
        self._kept = {peer: _Kept() for peer in peers}

    def reconfigure(self, peers: Iterable[int]) -> None:
        self._kept = {peer: self._kept.get(peer) or _Kept() for peer in peers}

    def add(self, instance: int, id: Dot, outcome: Outcome) -> None:
        """Of a request that the instances before this one delivered."""
        kept = self._kept.get(id.replica)
        if kept is None:
            return  # it was removed
        size = _size_of(outcome)
        if size > UNTOLD_BYTES:
            return
        kept.outcomes.append((instance, id, outcome, size))
        kept.bytes += size
        while len(kept.outcomes) > UNTOLD_LIMIT or kept.bytes > UNTOLD_BYTES:
            kept.drop_first()

    def forget(self, settled_by: Callable[[int], int]) -> None:
        """A replica that executed what an instance delivered needs no outcome of it from us."""
        for peer, kept in self._kept.items():
            if kept.outcomes:
                settled = settled_by(peer)
                while kept.outcomes and kept.outcomes[0][0] <= settled:
                    kept.drop_first()

    def outcomes(self) -> tuple[tuple[Dot, Outcome], ...]:
        return tuple([(each[1], each[2]) for kept in self._kept.values() for each in kept.outcomes])


def _size_of(outcome: Outcome) -> int:
    value = outcome.value
    kind = type(value)
    if kind is bytes:
        size = len(value)
    else:
        size = _SHORT_BYTES if kind in _SHORT else len(_encode(value))
    return size if outcome.error is None else size + len(outcome.error)
