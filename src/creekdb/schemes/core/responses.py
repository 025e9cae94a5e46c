"""Responses to clients, and outcomes retained for other replicas.

`reqsAwaitingResp` (line 9) holds the requests issued here from line 25 on. A weak request leaves
the map with its response (lines 66-68), a strong one with its stable response (lines 56-57 and
73-74). Until then the map holds the last tentative response to the strong request (line 70). The
schemes decide when a response is sent.

Beyond the paper, the client of a weak request also receives a final response once the request is
stable.

Also beyond the paper, outcomes of requests that other replicas issued are retained. A snapshot can
skip the execution of requests that its receiver issued, so it carries their outcomes. The number
and the size of retained outcomes are bounded. For a replica that is too far behind, the oldest
outcomes are dropped first, and its clients retry.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from creekdb.protocol.effects import ObservedOrder, Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import NOOP, Outcome, Request
from creekdb.protocol.shared_variables import SharedVariables

RETAINED_MAX = 4096
"""Number of retained outcomes for each replica."""
RETAINED_BYTES_MAX = 4 * 1024 * 1024
"""Approximate encoded size of the retained outcomes for each replica, in bytes."""

_TENTATIVE: Final = ResponseKind.TENTATIVE
_STABLE: Final = ResponseKind.STABLE
_FINAL: Final = ResponseKind.FINAL
_SMALL_TYPES: Final = frozenset((type(None), bool, int, float))
_SMALL_BYTES: Final = 16

_encode: Final = msgspec.msgpack.Encoder().encode


class _PeerOutcomes:
    """Retained outcomes for one replica, oldest first."""

    __slots__ = ("byte_count", "outcomes")

    def __init__(self) -> None:
        self.outcomes: deque[tuple[int, Dot, Outcome, int]] = deque()
        """Each outcome with the instance after which it is stable, and with its encoded size."""
        self.byte_count = 0

    def drop_first(self) -> None:
        self.byte_count -= self.outcomes.popleft()[3]


class RetainedOutcomes:
    """Outcomes of the requests of other replicas. The limits apply to each of these replicas."""

    def __init__(
        self,
        shared: SharedVariables,
        count_max: int = RETAINED_MAX,
        bytes_max: int = RETAINED_BYTES_MAX,
    ) -> None:
        self._shared = shared
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._by_peer: dict[int, _PeerOutcomes] = {}

    def add(self, instance: int, id: Dot, outcome: Outcome) -> None:
        """Retain the outcome of a request that the instances below `instance` delivered."""
        size = _size_of(outcome)
        if id.replica not in self._shared.peers or size > self._bytes_max:
            return  # the issuing replica was removed, or the outcome is too large
        retained = self._by_peer.get(id.replica)
        if retained is None:
            retained = self._by_peer[id.replica] = _PeerOutcomes()
        retained.outcomes.append((instance, id, outcome, size))
        retained.byte_count += size
        while len(retained.outcomes) > self._count_max or retained.byte_count > self._bytes_max:
            retained.drop_first()

    def expire(self, stable_instance_of: Callable[[int], int]) -> None:
        """Drop the outcomes of requests that the issuing replica has executed itself."""
        self._shared.drop_removed_peers(self._by_peer)
        for peer, retained in self._by_peer.items():
            if retained.outcomes:
                stable_instance = stable_instance_of(peer)
                while retained.outcomes and retained.outcomes[0][0] <= stable_instance:
                    retained.drop_first()

    def outcomes(self) -> tuple[tuple[Dot, Outcome], ...]:
        return tuple(
            [
                (each[1], each[2])
                for peer in self._shared.peers
                if peer in self._by_peer
                for each in self._by_peer[peer].outcomes
            ]
        )


def _size_of(outcome: Outcome) -> int:
    value = outcome.value
    value_type = type(value)
    if value_type is bytes:
        size = len(value)
    else:
        size = _SMALL_BYTES if value_type in _SMALL_TYPES else len(_encode(value))
    return size if outcome.error is None else size + len(outcome.error)


class AwaitedResponse:
    """Entry of `reqsAwaitingResp`: the waiting session and the last tentative response."""

    __slots__ = ("outcome", "session", "strong")

    def __init__(self, session: int, strong: bool) -> None:
        self.session = session
        self.strong = strong
        self.outcome: Outcome | None = None


class Responses:
    def __init__(self, shared: SharedVariables) -> None:
        self._index = shared.index
        self._outbox = shared.outbox
        self._probes = shared.probes
        self.awaiting: dict[Dot, AwaitedResponse] = {}
        self._awaiting_final: dict[Dot, AwaitedResponse] = {}
        """Weak requests that have their tentative response and await the final one."""
        self.retained = RetainedOutcomes(shared)
        self._strong_changed: dict[Dot, bool] | None = (
            {} if shared.settings.report_changes else None
        )
        """Strong requests with a stable response that are not stable yet, and whether it differed
        from the last tentative one. None unless the replica reports changes."""

    def expect(self, id: Dot, session: int, strong: bool) -> None:
        """Line 25."""
        self.awaiting[id] = AwaitedResponse(session, strong)

    def has_pending(self, id: Dot) -> bool:
        """True if more responses to the request will follow."""
        return id in self.awaiting or id in self._awaiting_final

    def respond_tentative(
        self, id: Dot, awaiting: AwaitedResponse, outcome: Outcome, observed: ObservedOrder | None
    ) -> None:
        """Lines 67-68, and 70-71."""
        if awaiting.outcome is not None:
            self._probes.hit(Probe.TENTATIVE_AGAIN)
        awaiting.outcome = outcome
        if not awaiting.strong:
            self._awaiting_final[id] = self.awaiting.pop(id)
        self._outbox.responses.append(
            Response(id, awaiting.session, _TENTATIVE, outcome, observed=observed)
        )

    def respond_local(self, id: Dot, outcome: Outcome, observed: ObservedOrder | None) -> None:
        """Respond to an operation that only this replica executed. No final response follows."""
        session = self.awaiting.pop(id).session
        self._outbox.responses.append(Response(id, session, _TENTATIVE, outcome, observed=observed))

    def respond_stable(self, id: Dot, outcome: Outcome) -> bool:
        """Lines 56-57, and 73-74. Return True if a client waited for the response."""
        awaiting = self.awaiting.pop(id, None)
        if awaiting is None:
            return False
        if self._strong_changed is not None:
            tentative = awaiting.outcome
            self._strong_changed[id] = tentative is not None and not outcome.same_as(tentative)
        self._outbox.responses.append(Response(id, awaiting.session, _STABLE, outcome))
        return True

    def record_stable(self, instance: int, request: Request, outcome: Outcome) -> bool | None:
        """Send or retain the outcome of a request that the instances below `instance` delivered.

        Return whether it differs from the last tentative response, or None if there was none here.
        For a strong request, the result is None unless the replica reports changes.
        """
        if request.id.replica == self._index:
            if request.strong and self._strong_changed is not None:
                return self._strong_changed.pop(request.id, None)
            return self._respond_final(request.id, outcome)
        if request.operation != NOOP:
            self.retained.add(instance, request.id, outcome)
        return None

    def apply_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Respond with the checkpoint's outcomes to requests that other replicas executed."""
        for id, outcome in checkpoint.outcomes:
            if id.replica != self._index:
                self.retained.add(checkpoint.instance, id, outcome)
                continue
            awaiting = self.awaiting.get(id)
            if awaiting is not None:
                self._probes.hit(Probe.RESPONSE_FROM_SNAPSHOT)
                if awaiting.strong:
                    self.respond_stable(id, outcome)
                else:
                    self.respond_tentative(id, awaiting, outcome, None)
            self._respond_final(id, outcome)
        for pending in (self.awaiting, self._awaiting_final):
            for id in [id for id in pending if id in checkpoint.ids]:
                del pending[id]  # no replica retained the outcome: the client's call times out
        if self._strong_changed:
            for id in [id for id in self._strong_changed if id in checkpoint.ids]:
                del self._strong_changed[id]

    def _respond_final(self, id: Dot, outcome: Outcome) -> bool | None:
        """Send the final response to a weak request. Return whether the outcome changed, or None
        if the request had no response here."""
        assert id not in self.awaiting, "a stable weak request has no tentative response"
        awaited = self._awaiting_final.pop(id, None)
        if awaited is None:
            return None
        assert awaited.outcome is not None
        changed = not outcome.same_as(awaited.outcome)
        if changed:
            self._probes.hit(Probe.APOLOGY)
        self._outbox.responses.append(Response(id, awaited.session, _FINAL, outcome, changed))
        return changed
