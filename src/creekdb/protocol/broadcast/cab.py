"""Conditional atomic broadcast (Sections 3.3 and 5): a conditional total order of identifiers.

It combines the three roles of Multi-Paxos with the predicate `rcv(v) ∧ q(m)`. The predicate is
tested before a leader proposes an identifier, before an acceptor votes for it, and before it is
delivered. It is never polled. A failed test returns one missing dot, and `on_arrived(dot)` resumes
the steps that are blocked on that dot.

`cab_cast` takes each strong request that arrives by reliable broadcast. So a request is CAB-cast to
the current leader without a message of its own.

A batch may name weak requests too (`creekdb.protocol.broadcast.cuts`). They extend the context of
the next strong request, and with it the predicate: nothing is voted for or delivered before they
are received.

No delivery happens inside another step. Inputs enqueue work, and `process_pending` performs it.
"""

import enum
from collections import deque
from collections.abc import Callable, Iterable

from creekdb.protocol.application import Application, DeliveredRequests
from creekdb.protocol.consensus.acceptor import Acceptor
from creekdb.protocol.consensus.delays import DelayEstimates
from creekdb.protocol.consensus.fast_path import FirstVoter
from creekdb.protocol.consensus.fast_quorums import FastPathControl
from creekdb.protocol.consensus.leader import Leader, LeaderPhase
from creekdb.protocol.consensus.learner import Learner
from creekdb.protocol.consensus.omega import NO_BALLOT, Omega
from creekdb.protocol.consensus.proposal_queue import ArrivalQueue, DeadlineQueue
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    AcceptedValue,
    Ballot,
    CatchUp,
    Decisions,
    FirstVote,
    Prepare,
    Progress,
    Promise,
    Promised,
    RecoveryQuery,
    RecoveryResponse,
    Vote,
)
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.shared_variables import SharedVariables


class _BlockedStep(enum.Enum):
    OFFER = "proposal of a strong request"
    VOTE = "vote in an instance"
    DELIVERY = "delivery of the next decided request"


class ConditionalAtomicBroadcast:
    def __init__(
        self,
        shared: SharedVariables,
        omega: Omega,
        requests: DeliveredRequests,
        application: Application,
        on_outdated_peer: Callable[[int], None],
    ) -> None:
        """`on_outdated_peer` receives each peer that needs discarded decisions."""
        self._shared = shared
        self._can_vote = shared.index in shared.settings.voters
        self._outbox = shared.outbox
        self._probes = shared.probes
        self._omega = omega
        self._missing_dependency = requests.missing_dependency
        self._is_delivered = requests.is_committed
        self._deliver = application.cab_deliver
        self._on_proposed = application.on_proposed
        self._on_outdated_peer = on_outdated_peer

        self.learner = Learner(shared)
        self.acceptor = Acceptor(shared, self._must_defer_vote, self._on_voted)
        self.delays: DelayEstimates | None = None
        """Delays of the requests of peers; None if no request is held."""
        self._held_requests: DeadlineQueue | None = None
        self._fast_path: FastPathControl | None = None
        self._first_voter: FirstVoter | None = None
        """Casts first votes while another replica leads; None without a fast path."""
        settings = shared.settings
        if (settings.late_contexts or settings.fast_path) and requests.has_contexts:
            self.delays = DelayEstimates(shared)
            if settings.fast_path:
                control = FastPathControl(shared, self.delays, omega.reachable)
                self._fast_path = self.learner.fast_path = control
                predictions = DeadlineQueue(shared, requests, self.delays)
                self._first_voter = FirstVoter(
                    shared, predictions, self._is_delivered, self._cast_first_vote
                )
            self._held_requests = DeadlineQueue(shared, requests, self.delays, self._fast_path)
        self.leader = Leader(
            shared,
            self._held_requests or ArrivalQueue(),
            self._accept_locally,
            self.learner.is_decided,
            self.acceptor.is_deferred,
            self._fast_path,
        )
        self._ready: dict[Dot, None] = {}
        """Undelivered strong requests whose predicate holds, for whichever replica leads."""
        self._cast_ids: dict[Dot, None] = {}
        """Undelivered strong requests whose predicate is untested. While another replica leads, it
        is tested only before a vote or a delivery."""
        self._blocked: dict[Dot, dict[tuple[_BlockedStep, int | Dot], None]] = {}
        self._unblocked: deque[tuple[_BlockedStep, int | Dot]] = deque()
        self._delivery_blocked = False
        self.reported_promises: dict[int, Ballot] = {}
        """Highest ballot that each peer has reported to have promised."""

    # --- inputs from the replica --------------------------------------------------------------

    def cab_cast(self, id: Dot) -> None:
        """CAB-cast a strong request that this replica has received (line 20)."""
        voter = None
        if self.leader.phase is not LeaderPhase.LEADING:
            voter = self._first_voter
            if voter is None or not voter.is_active:
                if id not in self._ready:
                    self._cast_ids[id] = None
                return
        if id in self._ready or self._is_delivered(id):
            return
        missing = self._missing_dependency(id)
        if missing is not None:
            if voter is not None:
                self._cast_ids[id] = None
            self._probes.hit(Probe.PROPOSAL_DEFERRED)
            self._block(missing, _BlockedStep.OFFER, id)
            return
        self._ready[id] = None
        if voter is None:
            self.leader.enqueue(id)
        else:
            self._cast_ids.pop(id, None)
            voter.enqueue(id)

    def is_cast(self, id: Dot) -> bool:
        """True for an undelivered request that is known to be strong."""
        return id in self._ready or id in self._cast_ids

    def on_arrived(self, dot: Dot) -> None:
        """Resume the steps that are blocked on this dot."""
        if self._blocked and (blocked := self._blocked.pop(dot, None)) is not None:
            self._unblocked.extend(blocked)

    def on_wake(self) -> None:
        """Process a wake that was requested for a held request."""
        if self._held_requests is not None:
            self._held_requests.on_wake()
        if self._first_voter is not None:
            self._first_voter.on_wake()

    def process_pending(self) -> None:
        """Perform all work that earlier inputs have made possible."""
        leader = self.leader
        progress = True
        while progress:
            while self._unblocked:
                self._resume(*self._unblocked.popleft())
            if leader.phase is LeaderPhase.FOLLOWING:
                progress = self._deliver_ready() or self._cast_first_votes()
            else:
                progress = (
                    self._deliver_ready()
                    or self._lead_if_caught_up()
                    or leader.propose_queued(self.learner.first_undecided)
                )
        if self._held_requests is not None:
            self._held_requests.request_wake()
        if self._first_voter is not None:
            self._first_voter.request_wake()

    def tick(self, stable_instance: int) -> None:
        """`stable_instance`: instance below which a checkpoint could replace all decisions."""
        must_campaign = (
            self.leader.phase is LeaderPhase.FOLLOWING and self._omega.leader == self._shared.index
        )
        must_campaign = must_campaign and not self._shared.is_abstaining
        if self.leader.tick() or must_campaign or self._must_change_fast_quorum():
            self._campaign()
        self.exchange_progress(stable_instance)

    def exchange_progress(self, stable_instance: int) -> None:
        """Send progress and request missing decisions; replicas without a vote do that too."""
        peers = self._shared.peers
        if peers and self._shared.ticks % self._shared.settings.heartbeat_ticks == 0:
            self._outbox.send(peers, Progress(self.learner.delivered, stable_instance))
            self.learner.request_catch_up_if_stalled(self._delivery_blocked)
            self.learner.discard_delivered_by_all(stable_instance)

    def reconfigure(self, changed_below: int) -> None:
        """Adopt new members. They were last changed by an instance below `changed_below`, and by no
        later one that is delivered here."""
        self._can_vote = self._shared.index in self._shared.settings.voters
        self.learner.reconfigure(changed_below)
        self.acceptor.reconfigure()
        self.leader.step_down()  # leading the new members requires a ballot of their epoch
        if self.delays is not None:
            self.delays.reconfigure()
        if self._first_voter is not None:
            self._first_voter.reset()
        if self._fast_path is not None:
            self._fast_path.reconfigure()

    # --- messages -----------------------------------------------------------------------------

    def on_prepare(self, message: Prepare, sender: int) -> None:
        self.observe(message.ballot)
        if message.ballot >= self.acceptor.promised:
            self._record_promise(sender, message.ballot)  # a candidate promises its ballot itself
        if self._can_vote and not self._shared.is_abstaining:
            self.acceptor.on_prepare(message, sender, self.learner.first_undecided)

    def on_promise(self, message: Promise, sender: int) -> None:
        if message.ballot == self.leader.ballot:
            self._record_promise(sender, message.ballot)
        self.leader.on_promise(message, sender)
        if self.leader.has_majority_promise():
            decided, peer = self.leader.most_advanced_promise()
            if decided > self.learner.first_undecided:
                self._probes.hit(Probe.DECIDED_IN_PROMISE)
                self.learner.request_catch_up(peer, self.learner.first_undecided)

    def on_accept(self, message: Accept, sender: int) -> None:
        self.observe(message.ballot)
        if self.learner.is_decided(message.instance):
            if not self.learner.send_decision(sender, message.instance):
                self._on_outdated_peer(sender)
            return
        if self.learner.is_beyond_horizon(message.instance):
            return
        self._follow_proposal(message, opens=False)
        self._process_proposal(message, sender)

    def on_first_vote(self, message: FirstVote, sender: int) -> bool:
        """Process a first vote, or the proposal and vote of a leader in one; True if it gives
        `process_pending` work."""
        ballot, instance, batch = message.ballot, message.instance, message.batch
        if sender != ballot.replica:
            decides = self.learner.on_first_vote(ballot, instance, sender, batch)
            if decides:
                self._on_decided(instance)
            return decides
        self.observe(ballot)
        accept = Accept(ballot, instance, batch)
        if ballot >= self.acceptor.promised:
            self._follow_proposal(accept, opens=True)
        if self.learner.is_decided(instance) or self.learner.is_beyond_horizon(instance):
            return False
        self.learner.on_vote(ballot, instance, sender)
        self._process_proposal(accept, sender)
        return True

    def _follow_proposal(self, message: Accept, *, opens: bool) -> None:
        if self._first_voter is not None:
            self._first_voter.on_proposal(
                message.ballot, message.instance, message.batch, opens=opens
            )

    def _process_proposal(self, message: Accept, sender: int) -> None:
        if self.learner.on_proposal(message.ballot, message.instance, message.batch):
            self._on_decided(message.instance)
            return
        if message.ballot >= self.acceptor.promised:
            self._on_proposed(message.instance, message.batch)
        if self._can_vote and not self._shared.is_abstaining:
            self.acceptor.on_accept(message, sender)

    def on_vote(self, message: Vote, sender: int) -> bool:
        """Process a vote; True if it decides the instance."""
        decides = self.learner.on_vote(message.ballot, message.instance, sender)
        if decides:
            self._on_decided(message.instance)
        return decides

    def on_catch_up(self, message: CatchUp, sender: int) -> None:
        if not self.learner.on_catch_up(sender, message.first):
            self._on_outdated_peer(sender)

    def on_decisions(self, message: Decisions, sender: int) -> None:
        for instance in self.learner.on_decisions(sender, message.first, message.batches):
            self._on_decided(instance)

    def recovery_response(
        self, message: RecoveryQuery, sender: int, received: Dots
    ) -> RecoveryResponse:
        """Return the protocol state for a replica that lost its disk."""
        self.learner.reset_progress_of(sender)
        self.reported_promises.pop(sender, None)
        decided = self.learner.first_undecided
        if self._shared.is_abstaining:
            return RecoveryResponse(message.ballot, NO_BALLOT, True, decided, (), received)
        accepted: tuple[AcceptedValue, ...] = ()
        if self._can_vote and sender in self._shared.settings.voters:
            self.observe(message.ballot)
            promise = self.acceptor.promise(Prepare(message.ballot, 0), decided)
            accepted = promise.accepted if promise is not None else ()
        return RecoveryResponse(
            message.ballot, self.acceptor.promised, False, decided, accepted, received
        )

    def join(self, promised: Ballot, accepted: Iterable[AcceptedValue]) -> None:
        """Start to participate, with this promise and these votes."""
        self._outbox.records.append(Promised(promised))
        self._outbox.records.extend(Accepted(value) for value in accepted)
        self._restore_acceptor(promised, accepted)

    # --- checkpoints and recovery -------------------------------------------------------------

    def install(self, instance: int, ids: Dots) -> None:
        """Skip the instances below `instance`, whose deliveries a checkpoint covers."""
        self.learner.install(instance)
        self.acceptor.discard_below(self.learner.first_undecided)
        self.leader.step_down()
        if self._first_voter is not None:
            self._first_voter.reset()
        for pending in (self._ready, self._cast_ids):
            for id in [id for id in pending if id in ids]:
                del pending[id]
        for blocked in self._blocked.values():
            self._unblocked.extend(blocked)
        self._blocked.clear()
        self._delivery_blocked = False

    def restore(
        self,
        promised: Ballot,
        accepted: Iterable[AcceptedValue],
        decided: dict[int, Batch],
    ) -> None:
        self.learner.restore(decided)
        self._restore_acceptor(promised, accepted)

    # --- internals ----------------------------------------------------------------------------

    def _record_promise(self, peer: int, ballot: Ballot) -> None:
        self.reported_promises[peer] = max(ballot, self.reported_promises.get(peer, ballot))

    def _restore_acceptor(self, promised: Ballot, accepted: Iterable[AcceptedValue]) -> None:
        self.acceptor.restore(promised, accepted)
        self.acceptor.discard_below(self.learner.first_undecided)
        if self.acceptor.promised.round:
            self.observe(self.acceptor.promised)

    def _campaign(self) -> None:
        first_round = self._shared.settings.first_round
        ballot = Ballot(max(self._omega.max_ballot.round + 1, first_round), self._shared.index)
        if self._first_voter is not None:
            self._first_voter.reset()
        if self._fast_path is not None:
            ballot = self._fast_path.choose(ballot)
        decided = self.learner.first_undecided
        prepare = self.leader.campaign(ballot, decided)
        self._omega.observe(ballot)
        promise = self.acceptor.promise(prepare, decided)
        assert promise is not None, "no ballot is greater than the one just created"
        self.on_promise(promise, self._shared.index)

    def _must_change_fast_quorum(self) -> bool:
        return (
            self._fast_path is not None
            and self.leader.phase is LeaderPhase.LEADING
            and self._fast_path.must_change(self.leader.ballot)
        )

    def _cast_first_votes(self) -> bool:
        voter = self._first_voter
        if voter is None:
            return False
        return voter.cast_due(self.learner.first_undecided + self._shared.settings.window)

    def _cast_first_vote(self, ballot: Ballot, instance: int, batch: Batch) -> bool:
        can_vote = self._can_vote and not self._shared.is_abstaining
        if not can_vote or self.learner.is_decided(instance):
            return False
        if not self.acceptor.cast_first_vote(ballot, instance, batch):
            return False
        if self.learner.on_first_vote(ballot, instance, self._shared.index, batch):
            self._on_decided(instance)
        return True

    def _lead_if_caught_up(self) -> bool:
        """Lead once a majority promised and all decisions that the majority reported are known."""
        if not self.leader.has_majority_promise():
            return False
        if self.learner.first_undecided < self.leader.most_advanced_promise()[0]:
            return False
        self.leader.start(self.learner.first_undecided, self._ready)
        cast_ids, self._cast_ids = self._cast_ids, {}
        for id in cast_ids:
            self.cab_cast(id)
        return True

    def observe(self, ballot: Ballot) -> None:
        """Record a ballot seen in a message. Step down if it is above the own ballot."""
        self._omega.observe(ballot)
        self.leader.observe_ballot(ballot)

    def _accept_locally(self, message: Accept, opens: bool) -> None:
        self._on_proposed(message.instance, message.batch)
        self.learner.on_proposal(message.ballot, message.instance, message.batch)
        if opens:
            if self.acceptor.accept_own(message):
                return
            self._outbox.send(self._shared.peers, message)
        self.acceptor.on_accept(message, self._shared.index)

    def _on_voted(self, ballot: Ballot, instance: int) -> None:
        if self.learner.on_vote(ballot, instance, self._shared.index):
            self._on_decided(instance)

    def _on_decided(self, instance: int) -> None:
        self.leader.on_decided(instance)
        self.acceptor.discard_below(self.learner.first_undecided)

    def _must_defer_vote(self, instance: int, batch: Batch) -> bool:
        for id in batch:
            if id in self._ready:
                continue
            if (missing := self._missing_dependency(id)) is not None:
                self._block(missing, _BlockedStep.VOTE, instance)
                return True
            if id in self._cast_ids:
                del self._cast_ids[id]
                self._ready[id] = None
        return False

    def _deliver_ready(self) -> bool:
        """Deliver decided requests until a predicate fails or an unblocked step has priority."""
        learner, ready = self.learner, self._ready
        if self._delivery_blocked or learner.delivered == learner.first_undecided:
            return False
        progress = False
        while not self._unblocked and (id := learner.next_to_deliver()) is not None:
            if id in ready:  # a predicate that held once holds for ever
                self._deliver_from(id)
            elif self._is_delivered(id):
                if self._held_requests is None or learner.is_at_batch_end():  # no part of a cut
                    self._probes.hit(Probe.DECIDED_TWICE)
                learner.advance_delivery()
                self._on_delivered(id)
            elif (missing := self._missing_dependency(id)) is not None:
                self._probes.hit(Probe.DELIVERY_DEFERRED)
                self._delivery_blocked = True
                self._block(missing, _BlockedStep.DELIVERY, id)
                break
            else:
                self._deliver_from(id)
            progress = True
        return progress

    def _deliver_from(self, first: Dot) -> None:
        """Deliver `first` and the deliverable requests that follow it in its instance."""
        learner, ready = self.learner, self._ready
        instance = learner.delivered
        run: list[Dot] = []
        id: Dot | None = first
        while id is not None:
            if id in ready:
                del ready[id]
            else:
                self._cast_ids.pop(id, None)
            learner.advance_delivery()
            self._on_delivered(id)
            run.append(id)
            id = learner.next_to_deliver()
            if learner.delivered != instance or (
                id is not None and not self._can_deliver_with_previous(id)
            ):
                break
        self._deliver(run, instance)

    def _on_delivered(self, id: Dot) -> None:
        self.leader.on_delivered(id)
        if self._first_voter is not None:
            self._first_voter.on_delivered(id)

    def _can_deliver_with_previous(self, id: Dot) -> bool:
        """True if its predicate holds before the preceding requests are delivered."""
        return id in self._ready or (
            not self._is_delivered(id) and self._missing_dependency(id) is None
        )

    def _block(self, missing: Dot, kind: _BlockedStep, subject: int | Dot) -> None:
        self._blocked.setdefault(missing, {})[kind, subject] = None

    def _resume(self, kind: _BlockedStep, subject: int | Dot) -> None:
        if kind is _BlockedStep.DELIVERY:
            self._delivery_blocked = False
        elif kind is _BlockedStep.VOTE:
            assert isinstance(subject, int)
            self.acceptor.resume(subject)
        else:
            assert isinstance(subject, Dot)
            if not self._is_delivered(subject):
                self.cab_cast(subject)
