"""Who waits for which answers: `reqsAwaitingResp` (line 9), and the answers themselves.

A request that was issued here is awaited from line 25 on: a weak one until it is answered (lines
66-68), a strong one until it is answered for good (lines 56-57 and 73-74); until then its last
tentative answer is kept (line 70). When which answer may leave is up to the schemes.

Beyond the paper: the client of a weak request also learns how it ended, once that is settled. And
answers of requests that other replicas issued are kept for these (`untold`).
"""

from collections.abc import Iterable

from creekdb.protocol.effects import Kind, Observed, Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import NOOP, Outcome, Request
from creekdb.schemes.untold import Untold


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
