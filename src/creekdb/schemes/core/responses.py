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

from creekdb.protocol.effects import ObservedOrder, Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import NOOP, Outcome, Request

RETAINED_MAX = 4096
"""Outcomes for each replica."""
RETAINED_BYTES_MAX = 4 * 1024 * 1024
"""What they take, encoded, for each replica; more or less."""

_SMALL_TYPES: Final = frozenset((type(None), bool, int, float))
_SMALL_BYTES: Final = 16

_encode: Final = msgspec.msgpack.Encoder().encode


class _PeerOutcomes:
    """For one replica, oldest first."""

    __slots__ = ("byte_count", "outcomes")

    def __init__(self) -> None:
        self.outcomes: deque[tuple[int, Dot, Outcome, int]] = deque()
        """Each with the instance after which it is known, and its size."""
        self.byte_count = 0

    def drop_first(self) -> None:
        self.byte_count -= self.outcomes.popleft()[3]


class RetainedOutcomes:
    def __init__(self, peers: Iterable[int]) -> None:
        self._by_peer = {peer: _PeerOutcomes() for peer in peers}

    def reconfigure(self, peers: Iterable[int]) -> None:
        self._by_peer = {peer: self._by_peer.get(peer) or _PeerOutcomes() for peer in peers}

    def add(self, instance: int, id: Dot, outcome: Outcome) -> None:
        """Of a request that the instances before this one delivered."""
        kept = self._by_peer.get(id.replica)
        if kept is None:
            return  # it was removed
        size = _size_of(outcome)
        if size > RETAINED_BYTES_MAX:
            return
        kept.outcomes.append((instance, id, outcome, size))
        kept.byte_count += size
        while len(kept.outcomes) > RETAINED_MAX or kept.byte_count > RETAINED_BYTES_MAX:
            kept.drop_first()

    def expire(self, settled_by: Callable[[int], int]) -> None:
        """A replica that executed what an instance delivered needs no outcome of it from us."""
        for peer, kept in self._by_peer.items():
            if kept.outcomes:
                settled = settled_by(peer)
                while kept.outcomes and kept.outcomes[0][0] <= settled:
                    kept.drop_first()

    def outcomes(self) -> tuple[tuple[Dot, Outcome], ...]:
        return tuple(
            [(each[1], each[2]) for kept in self._by_peer.values() for each in kept.outcomes]
        )


def _size_of(outcome: Outcome) -> int:
    value = outcome.value
    kind = type(value)
    if kind is bytes:
        size = len(value)
    else:
        size = _SMALL_BYTES if kind in _SMALL_TYPES else len(_encode(value))
    return size if outcome.error is None else size + len(outcome.error)


class AwaitedResponse:
    """An entry of `reqsAwaitingResp`: who waits, and the last tentative response."""

    __slots__ = ("outcome", "session", "strong")

    def __init__(self, session: int, strong: bool) -> None:
        self.session = session
        self.strong = strong
        self.outcome: Outcome | None = None


class Responses:
    __slots__ = ("_awaiting_final", "_index", "_outbox", "_probes", "awaiting", "retained")

    def __init__(self, index: int, peers: Iterable[int], outbox: Outbox, probes: Probes) -> None:
        self._index = index
        self._outbox = outbox
        self._probes = probes
        self.awaiting: dict[Dot, AwaitedResponse] = {}
        self._awaiting_final: dict[Dot, AwaitedResponse] = {}
        """Weak requests that were answered: their clients are to learn how they ended."""
        self.retained = RetainedOutcomes(peers)

    def expect(self, id: Dot, session: int, strong: bool) -> None:
        """Line 25."""
        self.awaiting[id] = AwaitedResponse(session, strong)

    def has_pending(self, id: Dot) -> bool:
        """Will there be more answers to it?"""
        return id in self.awaiting or id in self._awaiting_final

    def respond_tentative(
        self, id: Dot, awaiting: AwaitedResponse, outcome: Outcome, observed: ObservedOrder | None
    ) -> None:
        """Lines 67-68, and 70-71."""
        if awaiting.outcome is not None:
            self._probes.hit(Probe.TENTATIVE_AGAIN)
        if awaiting.strong:
            awaiting.outcome = outcome
        else:
            self._await_final(id, self.awaiting.pop(id), outcome)
        self._respond(id, awaiting.session, ResponseKind.TENTATIVE, outcome, observed)

    def respond_local(self, id: Dot, outcome: Outcome, observed: ObservedOrder | None) -> None:
        """Of an operation that no other replica hears of: there is nothing more to be told."""
        self._respond(id, self.awaiting.pop(id).session, ResponseKind.TENTATIVE, outcome, observed)

    def respond_stable(self, id: Dot, outcome: Outcome) -> bool:
        """Lines 56-57, and 73-74. Did anybody wait for it?"""
        awaiting = self.awaiting.pop(id, None)
        if awaiting is None:
            return False
        self._respond(id, awaiting.session, ResponseKind.STABLE, outcome, None)
        return True

    def record_stable(self, instance: int, request: Request, outcome: Outcome) -> None:
        """The instances before this one delivered it, and that is how it ended."""
        if request.id.replica == self._index:
            self._respond_final(request.id, outcome)
        elif request.operation != NOOP:
            self.retained.add(instance, request.id, outcome)

    def apply_checkpoint(self, checkpoint: Checkpoint) -> None:
        """What it holds was executed elsewhere: it tells how that ended."""
        for id, outcome in checkpoint.outcomes:
            if id.replica != self._index:
                self.retained.add(checkpoint.instance, id, outcome)
                continue
            awaiting = self.awaiting.pop(id, None)
            if awaiting is not None:
                self._probes.hit(Probe.ANSWERED_FROM_SNAPSHOT)
                kind = ResponseKind.STABLE if awaiting.strong else ResponseKind.TENTATIVE
                self._respond(id, awaiting.session, kind, outcome, None)
                if not awaiting.strong:
                    self._await_final(id, awaiting, outcome)
            self._respond_final(id, outcome)
        for pending in (self.awaiting, self._awaiting_final):
            for id in [id for id in pending if id in checkpoint.ids]:
                del pending[id]  # beyond what others keep for us: its client gives up

    def _respond_final(self, id: Dot, outcome: Outcome) -> None:
        """The client of a weak request learns whether what it was told still holds."""
        assert id not in self.awaiting, "it was answered before it was settled"
        told = self._awaiting_final.pop(id, None)
        if told is not None:
            assert told.outcome is not None
            changed = not outcome.same_as(told.outcome)
            if changed:
                self._probes.hit(Probe.APOLOGY)
            self._outbox.responses.append(
                Response(id, told.session, ResponseKind.FINAL, outcome, changed)
            )

    def _await_final(self, id: Dot, awaiting: AwaitedResponse, outcome: Outcome) -> None:
        awaiting.outcome = outcome
        self._awaiting_final[id] = awaiting

    def _respond(
        self,
        id: Dot,
        session: int,
        kind: ResponseKind,
        outcome: Outcome,
        observed: ObservedOrder | None,
    ) -> None:
        self._outbox.responses.append(Response(id, session, kind, outcome, observed=observed))
