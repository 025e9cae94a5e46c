"""The leader: proposes batches, in the one ballot that is its own.

Rules kept here:
- before it proposes, a majority promised the ballot, and it knows every decision that they know;
  what they had accepted is proposed again, the value of the highest ballot for each instance, and
  gaps are closed with empty batches;
- a batch holds what has arrived by the time there is room for it: nobody waits for it to fill;
- no instance is proposed that is `window` or more beyond the first undecided one;
- what only a dead replica could tell is given up by preparing anew, with a majority that does not
  know of it: the decisions it promised to know, or the requests of a batch it had accepted.
"""

import enum
from collections import deque
from collections.abc import Callable, Iterable

from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.effects import Send
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Accept, AcceptedValue, Ballot, Prepare, Promise
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import Batch
from creekdb.protocol.settings import Settings


class LeaderPhase(enum.Enum):
    FOLLOWING = "following"
    PREPARING = "preparing"
    LEADING = "leading"


class _Proposal:
    __slots__ = ("batch", "proposed_at", "sent_at")

    def __init__(self, batch: Batch, ticks: int) -> None:
        self.batch = batch
        self.proposed_at = ticks
        self.sent_at = ticks


class Leader:
    def __init__(
        self,
        index: int,
        settings: Settings,
        outbox: Outbox,
        probes: Probes,
        accept: Callable[[Accept], None],
        is_decided: Callable[[int], bool],
        is_stuck: Callable[[int], bool],
    ) -> None:
        """`accept` hands a proposal to the acceptor and learner here; `is_stuck(instance)`: has the
        acceptor here deferred its vote?"""
        self._index = index
        self._peers = settings.peers(index)
        self._settings = settings
        self._outbox = outbox
        self._probes = probes
        self._accept_locally = accept
        self._is_decided = is_decided
        self._is_stuck = is_stuck

        self.phase = LeaderPhase.FOLLOWING
        self.ballot = NO_BALLOT
        self._ticks = 0
        self._prepare = Prepare(NO_BALLOT, 0)
        self._prepared_at = 0
        self._campaign_started_at = 0
        """When the ballot was started."""
        self._promises: dict[int, Promise] = {}
        self._next_instance = 0
        self._proposals: dict[int, _Proposal] = {}
        self._proposed: set[Dot] = set()
        self._queue: deque[Dot] = deque()

    def campaign(self, ballot: Ballot, first: int) -> Prepare:
        """Phase 1a: start a ballot of one's own for the instances from `first` on."""
        assert ballot.replica == self._index
        assert ballot > self.ballot
        self._probes.hit(Probe.CAMPAIGN)
        self.step_down()
        self.phase = LeaderPhase.PREPARING
        self.ballot = ballot
        self._prepare = Prepare(ballot, first)
        self._prepared_at = self._campaign_started_at = self._ticks
        self._send(self._peers, self._prepare)
        return self._prepare

    def step_down(self) -> None:
        self.phase = LeaderPhase.FOLLOWING
        self._promises = {}
        self._proposals = {}
        self._proposed = set()
        self._queue = deque()

    def reconfigure(self, settings: Settings) -> None:
        """There are other members from now on: to lead them takes a ballot of theirs."""
        self._settings = settings
        self._peers = settings.peers(self._index)
        self.step_down()

    def observe_ballot(self, ballot: Ballot) -> None:
        """Someone promised a ballot; if it is above ours, we lead no longer."""
        if self.phase is not LeaderPhase.FOLLOWING and ballot > self.ballot:
            self._probes.hit(Probe.CAMPAIGN_OUTBID)
            self.step_down()

    def on_promise(self, message: Promise, sender: int) -> None:
        if self.phase is LeaderPhase.PREPARING and message.ballot == self.ballot:
            self._promises[sender] = message

    def has_majority_promise(self) -> bool:
        """Has a majority promised, and do we not lead yet?"""
        return (
            self.phase is LeaderPhase.PREPARING and len(self._promises) >= self._settings.majority
        )

    def most_advanced_promise(self) -> tuple[int, int]:
        """The promise that tells of most decisions: below which instance, and whose it is."""
        most = max(promise.decided for promise in self._promises.values())
        return most, min(each for each, told in self._promises.items() if told.decided == most)

    def start(self, start: int, ready: Iterable[Dot]) -> None:
        """Lead, from instance `start` on: take up what the promises tell, then what is `ready`."""
        self.phase = LeaderPhase.LEADING
        recovered: dict[int, AcceptedValue] = {}
        for sender in sorted(self._promises):
            for value in self._promises[sender].accepted:
                known = recovered.get(value.instance)
                if value.instance >= start and (known is None or known.ballot < value.ballot):
                    recovered[value.instance] = value
        end = max(recovered, default=start - 1) + 1
        self._next_instance = end
        for instance in range(start, end):
            if self._is_decided(instance):
                self._probes.hit(Probe.DECIDED_BEFORE_LEADING)
            elif instance in recovered:
                self._probes.hit(Probe.VALUE_RECOVERED)
                self._propose(instance, recovered[instance].batch)
            else:
                self._probes.hit(Probe.GAP_FILLED)
                self._propose(instance, ())
        self._promises = {}
        for id in ready:
            self.enqueue(id)

    def enqueue(self, id: Dot) -> None:
        """A strong request whose predicate holds here."""
        if self.phase is LeaderPhase.LEADING and id not in self._proposed:
            self._proposed.add(id)
            self._queue.append(id)

    def propose_queued(self, first_undecided: int) -> bool:
        """Propose what is queued, as far as there is room; True when something was proposed."""
        if not self._queue:
            return False
        if self._next_instance >= first_undecided + self._settings.window:
            self._probes.hit(Probe.WINDOW_FULL)
            return False
        size = min(len(self._queue), self._settings.batch_limit)
        batch = tuple(self._queue.popleft() for _ in range(size))
        instance = self._next_instance
        self._next_instance += 1
        self._propose(instance, batch)
        return True

    def on_decided(self, instance: int) -> None:
        self._proposals.pop(instance, None)

    def on_delivered(self, id: Dot) -> None:
        self._proposed.discard(id)

    def tick(self, ticks: int) -> bool:
        """Repeat what may have been lost; True when only a new ballot can help."""
        self._ticks = ticks
        if self.phase is LeaderPhase.PREPARING:
            if (
                self.has_majority_promise()
                and ticks - self._campaign_started_at >= self._settings.stuck_ticks
            ):
                self._probes.hit(Probe.UNINFORMED)
                return True
            if ticks - self._prepared_at >= self._settings.retry_ticks:
                self._prepared_at = ticks
                self._probes.hit(Probe.PREPARE_AGAIN)
                waiting_for = tuple(peer for peer in self._peers if peer not in self._promises)
                self._send(waiting_for, self._prepare)
            return False
        for instance, flight in list(self._proposals.items()):
            if ticks - flight.proposed_at >= self._settings.stuck_ticks and self._is_stuck(
                instance
            ):
                self._probes.hit(Probe.STUCK_INSTANCE)
                return True
            if ticks - flight.sent_at >= self._settings.retry_ticks:
                flight.sent_at = ticks
                self._probes.hit(Probe.ACCEPT_AGAIN)
                self._send_accept(instance, flight.batch)
        return False

    def _propose(self, instance: int, batch: Batch) -> None:
        """Phase 2a."""
        self._proposals[instance] = _Proposal(batch, self._ticks)
        self._proposed.update(batch)
        self._send_accept(instance, batch)

    def _send_accept(self, instance: int, batch: Batch) -> None:
        accept = Accept(self.ballot, instance, batch)
        self._send(self._peers, accept)
        self._accept_locally(accept)

    def _send(self, to: tuple[int, ...], message: Prepare | Accept) -> None:
        if to:
            self._outbox.sends.append(Send(to, message))
