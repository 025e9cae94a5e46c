"""Outcomes that are kept for other replicas, which may not compute them any more.

A snapshot carries a replica over requests that it issued: their clients are to be answered all the
same, so what came of them is told with it. What is kept is bounded, in number and in bytes: of one
that is too far behind, the oldest are given up first, and its clients ask again.

Who waits for which answers: `reqsAwaitingResp` (line 9), and the answers themselves.

A request that was issued here is awaited from line 25 on: a weak one until it is answered (lines
66-68), a strong one until it is answered for good (lines 56-57 and 73-74); until then its last
tentative answer is kept (line 70). When which answer may leave is up to the schemes.

Beyond the paper: the client of a weak request also learns how it ended, once that is settled. And
answers of requests that other replicas issued are kept for these (`untold`).
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from creekdb.protocol.effects import Kind, Observed, Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import NOOP, Outcome, Request

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


class Awaiting:
    """An entry of `reqsAwaitingResp`: who waits, and the last tentative response."""

    __slots__ = ("outcome", "session", "strong")

    def __init__(self, session: int, strong: bool) -> None:
        self.session = session
        self.strong = strong
        self.outcome: Outcome | None = None


class Answers:
    __slots__ = ("_index", "_outbox", "_probes", "_told", "awaiting", "untold")

    def __init__(self, index: int, peers: Iterable[int], outbox: Outbox, probes: Probes) -> None:
        self._index = index
        self._outbox = outbox
        self._probes = probes
        self.awaiting: dict[Dot, Awaiting] = {}
        self._told: dict[Dot, Awaiting] = {}
        """Weak requests that were answered: their clients are to learn how they ended."""
        self.untold = Untold(peers)

    def expect(self, id: Dot, session: int, strong: bool) -> None:
        """Line 25."""
        self.awaiting[id] = Awaiting(session, strong)

    def awaits(self, id: Dot) -> bool:
        """Will there be more answers to it?"""
        return id in self.awaiting or id in self._told

    def tentatively(
        self, id: Dot, awaiting: Awaiting, outcome: Outcome, observed: Observed | None
    ) -> None:
        """Lines 67-68, and 70-71."""
        if awaiting.outcome is not None:
            self._probes.hit(Probe.TENTATIVE_AGAIN)
        if awaiting.strong:
            awaiting.outcome = outcome
        else:
            self._note_told(id, self.awaiting.pop(id), outcome)
        self._respond(id, awaiting.session, Kind.TENTATIVE, outcome, observed)

    def once(self, id: Dot, outcome: Outcome, observed: Observed | None) -> None:
        """Of an operation that no other replica hears of: there is nothing more to be told."""
        self._respond(id, self.awaiting.pop(id).session, Kind.TENTATIVE, outcome, observed)

    def stably(self, id: Dot, outcome: Outcome) -> bool:
        """Lines 56-57, and 73-74. Did anybody wait for it?"""
        awaiting = self.awaiting.pop(id, None)
        if awaiting is None:
            return False
        self._respond(id, awaiting.session, Kind.STABLE, outcome, None)
        return True

    def settled(self, instance: int, request: Request, outcome: Outcome) -> None:
        """The instances before this one delivered it, and that is how it ended."""
        if request.id.replica == self._index:
            self._finally(request.id, outcome)
        elif request.operation != NOOP:
            self.untold.add(instance, request.id, outcome)

    def carried_over(self, checkpoint: Checkpoint) -> None:
        """What it holds was executed elsewhere: it tells how that ended."""
        for id, outcome in checkpoint.outcomes:
            if id.replica != self._index:
                self.untold.add(checkpoint.instance, id, outcome)
                continue
            awaiting = self.awaiting.pop(id, None)
            if awaiting is not None:
                self._probes.hit(Probe.ANSWERED_FROM_SNAPSHOT)
                kind = Kind.STABLE if awaiting.strong else Kind.TENTATIVE
                self._respond(id, awaiting.session, kind, outcome, None)
                if not awaiting.strong:
                    self._note_told(id, awaiting, outcome)
            self._finally(id, outcome)
        for pending in (self.awaiting, self._told):
            for id in [id for id in pending if id in checkpoint.ids]:
                del pending[id]  # beyond what others keep for us: its client gives up

    def _finally(self, id: Dot, outcome: Outcome) -> None:
        """The client of a weak request learns whether what it was told still holds."""
        assert id not in self.awaiting, "it was answered before it was settled"
        told = self._told.pop(id, None)
        if told is not None:
            assert told.outcome is not None
            changed = not outcome.same_as(told.outcome)
            if changed:
                self._probes.hit(Probe.APOLOGY)
            self._outbox.responses.append(Response(id, told.session, Kind.FINAL, outcome, changed))

    def _note_told(self, id: Dot, awaiting: Awaiting, outcome: Outcome) -> None:
        awaiting.outcome = outcome
        self._told[id] = awaiting

    def _respond(
        self, id: Dot, session: int, kind: Kind, outcome: Outcome, observed: Observed | None
    ) -> None:
        self._outbox.responses.append(Response(id, session, kind, outcome, observed=observed))
