"""Leader: proposes batches in a ballot of its own.

Invariants:
- Before it proposes, a majority has promised the ballot, and the leader has every decision that the
  majority reported. It proposes the accepted values again, for each instance that of the highest
  ballot, and fills gaps with empty batches.
- A batch holds the requests that are due when the window allows it (`proposal_queue`). It does not
  wait to fill.
- No proposed instance is `window` or more beyond the first undecided one.
- If progress depends on a crashed replica, the leader starts a new ballot with a majority that does
  not include it. It may miss decisions that the replica reported, or requests of its batch.
"""

import enum
from collections.abc import Callable, Iterable

from creekdb.protocol.consensus.fast_quorums import FastPathControl
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.consensus.proposal_queue import ProposalQueue
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Accept, AcceptedValue, Ballot, Prepare, Promise
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.shared_variables import SharedVariables


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
        shared: SharedVariables,
        queue: ProposalQueue,
        accept_locally: Callable[[Accept, bool], None],
        is_decided: Callable[[int], bool],
        is_stuck: Callable[[int], bool],
        fast_path: FastPathControl | None = None,
    ) -> None:
        """`accept_locally` passes a proposal to the local acceptor and learner. Its second argument
        is True for a proposal that opens the ballot, which the local vote sends to the peers.
        `is_stuck(instance)` is True if the local acceptor has deferred its vote."""
        self._shared = shared
        self._outbox = shared.outbox
        self._probes = shared.probes
        self._accept_locally = accept_locally
        self._is_decided = is_decided
        self._is_stuck = is_stuck

        self.phase = LeaderPhase.FOLLOWING
        self.ballot = NO_BALLOT
        self._prepare = Prepare(NO_BALLOT, 0)
        self._prepared_at = 0
        self._campaign_started_at = 0
        """Tick at which the ballot was started."""
        self._promises: dict[int, Promise] = {}
        self._next_instance = 0
        self._proposals: dict[int, _Proposal] = {}
        self._proposed: set[Dot] = set()
        self._queue = queue
        self._fast_path = fast_path
        self._must_batch = False
        """True if a request of the fast path waited for the window. So do those after it."""

    @property
    def _is_fast(self) -> bool:
        """True if a fast quorum can predict the proposals."""
        return self._fast_path is not None and self._fast_path.is_on

    def campaign(self, ballot: Ballot, first: int) -> Prepare:
        """Start a ballot of this replica for the instances from `first` on (phase 1a)."""
        assert ballot.replica == self._shared.index
        assert ballot > self.ballot
        self._probes.hit(Probe.CAMPAIGN)
        self.step_down()
        self.phase = LeaderPhase.PREPARING
        self.ballot = ballot
        self._prepare = Prepare(ballot, first)
        self._prepared_at = self._campaign_started_at = self._shared.ticks
        self._outbox.send(self._shared.peers, self._prepare)
        return self._prepare

    def step_down(self) -> None:
        self.phase = LeaderPhase.FOLLOWING
        self._promises = {}
        self._proposals = {}
        self._proposed = set()
        self._queue.clear()

    def observe_ballot(self, ballot: Ballot) -> None:
        """Step down if `ballot`, which some acceptor promised, is above the own ballot."""
        if self.phase is not LeaderPhase.FOLLOWING and ballot > self.ballot:
            self._probes.hit(Probe.CAMPAIGN_LOST)
            self.step_down()

    def on_promise(self, message: Promise, sender: int) -> None:
        if self.phase is LeaderPhase.PREPARING and message.ballot == self.ballot:
            self._promises[sender] = message

    def has_majority_promise(self) -> bool:
        """True if a majority has promised and this replica does not lead yet."""
        return (
            self.phase is LeaderPhase.PREPARING
            and len(self._promises) >= self._shared.settings.majority
        )

    def most_advanced_promise(self) -> tuple[int, int]:
        """Return the highest `decided` of all promises, and the lowest peer that reported it."""
        peer = max(sorted(self._promises), key=lambda each: self._promises[each].decided)
        return self._promises[peer].decided, peer

    def start(self, first: int, ready: Iterable[Dot]) -> None:
        """Lead from instance `first` on: propose recovered values, then the `ready` requests."""
        self.phase = LeaderPhase.LEADING
        recovered: dict[int, AcceptedValue] = {}
        for sender in sorted(self._promises):
            for value in self._promises[sender].accepted:
                instance = value.true_instance
                known = recovered.get(instance)
                if instance >= first and (known is None or known.rank < value.rank):
                    recovered[instance] = value
        end = max(recovered, default=first - 1) + 1
        self._next_instance = end
        for instance in range(first, end):
            if self._is_decided(instance):
                self._probes.hit(Probe.DECIDED_BEFORE_LEADING)
            elif instance in recovered:
                self._probes.hit(Probe.VALUE_RECOVERED)
                if recovered[instance].is_first:
                    self._probes.hit(Probe.FIRST_VOTE_RECOVERED)
                self._propose(instance, recovered[instance].batch)
            else:
                self._probes.hit(Probe.GAP_FILLED)
                self._propose(instance, ())
        self._promises = {}
        if self._is_fast and end < first + self._shared.settings.window:
            self._next_instance += 1
            self._propose(end, (), opens=True)  # the fast quorum may vote for the first request
        for id in ready:
            self.enqueue(id)

    def enqueue(self, id: Dot) -> None:
        """Enqueue a strong request whose predicate holds here."""
        if self.phase is LeaderPhase.LEADING and id not in self._proposed:
            self._proposed.add(id)
            self._queue.add(id)

    def propose_queued(self, first_undecided: int) -> bool:
        """Propose one batch of queued requests if the window allows; True if it did."""
        if not self._queue.has_due():
            return False
        if self._next_instance >= first_undecided + self._shared.settings.window:
            self._probes.hit(Probe.WINDOW_FULL)
            self._must_batch = True
            return False
        is_fast, is_single = self._is_fast, self._is_fast and not self._must_batch
        self._must_batch = False
        batch = self._queue.take_batch(1 if is_single else self._shared.settings.batch_limit)
        instance = self._next_instance
        self._next_instance += 1
        self._propose(instance, batch, opens=is_fast)
        return True

    def on_decided(self, instance: int) -> None:
        self._proposals.pop(instance, None)

    def on_delivered(self, id: Dot) -> None:
        self._proposed.discard(id)

    def tick(self) -> bool:
        """Repeat messages that may have been lost; True if a new ballot is required."""
        ticks, settings = self._shared.ticks, self._shared.settings
        if self.phase is LeaderPhase.PREPARING:
            if (
                self.has_majority_promise()
                and ticks - self._campaign_started_at >= settings.stuck_ticks
            ):
                self._probes.hit(Probe.DECISIONS_UNREACHABLE)
                return True
            if ticks - self._prepared_at >= settings.retry_ticks:
                self._prepared_at = ticks
                self._probes.hit(Probe.PREPARE_REPEATED)
                unpromised = tuple(
                    peer for peer in self._shared.peers if peer not in self._promises
                )
                self._outbox.send(unpromised, self._prepare)
            return False
        for instance, proposal in list(self._proposals.items()):
            if ticks - proposal.proposed_at >= settings.stuck_ticks and self._is_stuck(instance):
                self._probes.hit(Probe.STUCK_INSTANCE)
                return True
            if ticks - proposal.sent_at >= settings.retry_ticks:
                proposal.sent_at = ticks
                self._probes.hit(Probe.ACCEPT_REPEATED)
                self._send_accept(instance, proposal.batch)
        return False

    def _propose(self, instance: int, batch: Batch, opens: bool = False) -> None:
        """Propose a batch (phase 2a). `opens` is True for an instance in which the promises have
        reported no vote, so that the fast quorum may vote in it and in all later ones."""
        self._proposals[instance] = _Proposal(batch, self._shared.ticks)
        self._proposed.update(batch)
        if self._fast_path is not None:
            self._fast_path.on_proposed(instance, is_open=opens)
        if opens:
            self._accept_locally(Accept(self.ballot, instance, batch), True)
        else:
            self._send_accept(instance, batch)

    def _send_accept(self, instance: int, batch: Batch) -> None:
        accept = Accept(self.ballot, instance, batch)
        self._outbox.send(self._shared.peers, accept)
        self._accept_locally(accept, False)
