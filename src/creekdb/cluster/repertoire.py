"""Which operations each replica can carry out.

All replicas have the same, but while they are started one after the other with a module that has
more. What is called meanwhile must be carried out by all, so it must be known to all: who is asked
for what another one has not heard of refuses. That other one may be away, and have said nothing:
when such a call reaches it all the same, it stops (`creekdb.cluster.calling`), for it cannot know
what comes of it.
"""

from collections.abc import Callable, Iterable
from typing import Final

from creekdb.cluster.wire import HELLO_FRAME_MAX, Takes
from creekdb.execution.datatype import Arity, DataType

TOLD_BYTES_MAX: Final = HELLO_FRAME_MAX // 2
"""Of a hello. Who has more operations than that tells of none."""


class Repertoire:
    def __init__(self, datatype: DataType) -> None:
        self._ours = {name: datatype.arity(name) for name in datatype.operations}
        self._others: dict[int, dict[str, Arity | None]] = {}
        """Of those that cannot do all that we can: what they do not, or only with other numbers of
        arguments. Mostly there are none."""

    def told(self) -> tuple[Takes, ...]:
        """To the others."""
        if sum(len(name.encode()) + 16 for name in self._ours) > TOLD_BYTES_MAX:
            return ()
        return tuple([(name, *taken) for name, taken in self._ours.items()])

    def note(self, replica: int, told: Iterable[Takes]) -> None:
        """What another one has said. One that says nothing is not doubted."""
        theirs = {name: Arity(least, most) for name, least, most in told}
        others = {
            name: theirs.get(name)
            for name, taken in self._ours.items()
            if theirs and not (name in theirs and theirs[name].covers(taken))
        }
        self._others.pop(replica, None)
        if others:
            self._others[replica] = others

    def who_cannot(
        self, name: str, count: int, connected: Callable[[], Iterable[int]]
    ) -> int | None:
        """Carry out that operation with so many arguments: one of those that are connected."""
        if not self._others:
            return None
        for replica in connected():
            others = self._others.get(replica, {})
            if name in others:
                taken = others[name]
                if taken is None or not taken.takes(count):
                    return replica
        return None
