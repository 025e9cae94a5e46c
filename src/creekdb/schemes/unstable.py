"""Weak requests that are not stable yet, and the strong no-op that makes them so (Section 4.4).

A strong request takes along what is in its causal context. Where no client asks for one, a replica
issues one itself in time: who leads first, the others only if that does not help. Time is counted
in ticks.
"""

from collections import deque

from creekdb.protocol.ids.version_vector import Dot, DotSet

NOOP_PATIENCE = 4
"""How many times longer than the leader another replica waits before it issues a no-op."""


class Unstable:
    __slots__ = ("_arrived", "_committed", "_patience", "_ticks", "noop")

    def __init__(self, committed: DotSet, patience: int) -> None:
        self._committed = committed
        self._patience = patience
        self._ticks = 0
        self._arrived: deque[tuple[int, Dot]] = deque()
        """With the tick of their arrival, oldest first."""
        self.noop: Dot | None = None
        """The last one that was issued here."""

    def add(self, id: Dot) -> None:
        self._arrived.append((self._ticks, id))

    def tick(self) -> None:
        self._ticks += 1

    def want_noop(self, leads: bool) -> bool:
        """Has one of them waited for long enough, and is no no-op under way?"""
        arrived = self._arrived
        while arrived and arrived[0][1] in self._committed:
            arrived.popleft()
        if not arrived or (self.noop is not None and self.noop not in self._committed):
            return False
        patience = self._patience if leads else self._patience * NOOP_PATIENCE
        return self._ticks - arrived[0][0] >= patience
