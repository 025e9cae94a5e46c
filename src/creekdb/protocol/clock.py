"""A hybrid logical clock: `currTime` of line 17.

Timestamps are microseconds, strictly increasing at a replica, and never behind anything received.
So no request on `tentative` is later than one issued now, and line 19 leaves nothing out: a replica
whose clock runs ahead drags the others' timestamps along instead of keeping its requests unstable.
"""


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
