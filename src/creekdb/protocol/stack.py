"""Protocol stack under a scheme: the two broadcasts of Section 3, and Ω, as one state machine.

The stack routes messages, maintains the durable protocol state, and sends snapshots to replicas
that are too far behind. It orders and delivers requests; the scheme (`Application`) interprets
them.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from creekdb.errors import BadValue
from creekdb.protocol import validation
from creekdb.protocol.application import Application, CheckpointSource, DeliveredRequests
from creekdb.protocol.broadcast.cab import ConditionalAtomicBroadcast
from creekdb.protocol.broadcast.reliable import ReliableBroadcast, RequestHandover
from creekdb.protocol.checkpoint.replay import replay_records
from creekdb.protocol.checkpoint.snapshot_sender import SnapshotSender
from creekdb.protocol.checkpoint.stream import (
    AssembledSnapshot,
    EncodedCheckpoint,
    IncomingMessage,
    RegisterCursor,
    RegisterLoader,
    StreamedCheckpoint,
)
from creekdb.protocol.consensus.omega import NO_BALLOT, Omega
from creekdb.protocol.effects import DataLossKind, DataLost
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import Configuration, find_configuration
from creekdb.protocol.membership.disk_loss_recovery import DiskLossRecovery
from creekdb.protocol.messages import (
    Accept,
    Cast,
    CatchUp,
    Checkpoint,
    CheckpointRecord,
    Decisions,
    FirstVote,
    Heartbeat,
    Prepare,
    Progress,
    Promise,
    Pull,
    PullResponse,
    Record,
    RecoveryQuery,
    RecoveryResponse,
    Reject,
    Snapshot,
    Summary,
    Vote,
)
from creekdb.protocol.order import HybridClock
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables
from creekdb.protocol.validation import MessageRejection

DATA_LOSS_PROOFS = {
    MessageRejection.NEVER_ISSUED: DataLossKind.REQUESTS,
    MessageRejection.UNAPPROVED_MEMBERS: DataLossKind.MEMBERS,
}
"""Rejections of messages that prove a loss of data."""
RESTORE_BATCH_SIZE = 256
"""Requests that are restored from disk between two deliveries of their decisions."""


class ProtocolStack:
    def __init__(
        self,
        shared: SharedVariables,
        application: Application,
        requests: DeliveredRequests,
        checkpoints: CheckpointSource,
    ) -> None:
        """Create the stack of a member, or of a replica that follows the members until it joins."""
        index, settings = shared.index, shared.settings
        assert index not in settings.former
        assert index not in settings.members or settings.epoch == 0, (
            "a joining replica is no member"
        )
        self._shared = shared
        self.index = index
        self.is_member = index in settings.members
        self.is_removed = False
        """True for a former member. It only informs the others of its removal."""
        self._former = settings.former
        self._latest_replica = settings.all_replicas[-1]
        self.outbox = shared.outbox
        self.probes = shared.probes
        self.clock = HybridClock()
        self.drift_us: dict[int, int] = {}
        self._application = application
        self.requests = requests
        self._checkpoints = checkpoints
        self._snapshot_sender = SnapshotSender(shared, checkpoints)

        self.omega = Omega(shared)
        self.reliable_broadcast = ReliableBroadcast(shared, self._rb_deliver)
        self.cab = ConditionalAtomicBroadcast(
            shared, self.omega, requests, application, self._send_snapshot
        )
        self._checkpoint_on_disk: tuple[Dots, int] | None = None
        """Requests that the last checkpoint on disk covers, and its instance."""
        self._handover = RequestHandover(shared)
        self.disk_loss_recovery: DiskLossRecovery | None = None
        """Set while this replica abstains after a disk loss."""
        if settings.begin_anew and settings.peers(index):
            self.disk_loss_recovery = DiskLossRecovery(shared)
            shared.is_abstaining = True

    @property
    def settings(self) -> Settings:
        return self._shared.settings

    def last_event(self) -> int:
        """Return the event number of the last request issued here."""
        if self.disk_loss_recovery is not None:
            return validation.COUNTER_LIMIT  # other replicas may know later ones
        return self.reliable_broadcast.received.last(self.index)

    def next_id(self) -> Dot:
        assert self.disk_loss_recovery is None, "used event numbers are unknown during recovery"
        return Dot(self.index, self.last_event() + 1)

    def process_pending(self) -> None:
        self.cab.process_pending()
        if self.disk_loss_recovery is not None:
            self._join_if_recovered(self.disk_loss_recovery)

    def reconfigure(self, configuration: Configuration, changed_below: int) -> None:
        """Adopt the members, last changed by an instance below `changed_below`."""
        self.probes.hit(Probe.MEMBERS_CHANGED)
        previous_members = self.settings.members
        self._shared.reconfigure(configuration)
        settings = self.settings
        is_member = self.index in settings.members
        if is_member and not self.is_member:
            self.probes.hit(Probe.JOINED)
        self._former, self._latest_replica = settings.former, settings.all_replicas[-1]
        self.is_member, self.is_removed = is_member, self.index in settings.former
        if self.is_removed:
            self.probes.hit(Probe.REMOVED)
        self.omega.reconfigure()
        has_added = not set(settings.members) <= set(previous_members)
        self.reliable_broadcast.reconfigure(self._checkpoints.live_requests() if has_added else ())
        self.cab.reconfigure(changed_below)
        self._snapshot_sender.reconfigure()

    @property
    def can_shut_down(self) -> bool:
        """True if this replica was removed and a majority knows that and has its requests. Until
        then it may be the only replica that knows."""
        if not self.is_removed:
            return False
        learner = self.cab.learner
        informed = sum(
            learner.progress_of(each) >= learner.reconfigured_below
            for each in self.settings.members
        )
        majority_informed = informed >= self.settings.majority
        return majority_informed and self._handover.is_complete(self._uncommitted())

    def _uncommitted(self) -> Iterator[Request]:
        yield from self.reliable_broadcast.held_back()
        for request in self._checkpoints.live_requests():
            if not self.requests.is_committed(request.id):
                yield request

    def tick(self, now: int) -> None:
        self._shared.now = now
        self._shared.ticks += 1
        if self.is_removed:
            if not self.can_shut_down:
                if self._shared.ticks % self.settings.heartbeat_ticks == 0:
                    self._handover.send(self._uncommitted())
                self.cab.exchange_progress(self._checkpoints.instance)
            return
        if self.disk_loss_recovery is not None:
            self.disk_loss_recovery.tick(self.cab.learner.delivered)
        self.omega.tick()
        self.reliable_broadcast.tick()
        self.cab.tick(self._checkpoints.instance)

    def observe_clock(self, now: int) -> None:
        """Adopt the local wall clock of an input that the stack does not process itself."""
        self._shared.now = now

    def wake(self, now: int) -> None:
        """Process the wake that `Effects.wake_at` requested."""
        self._shared.now = now
        self.cab.on_wake()

    def receive(self, message: IncomingMessage, sender: int, now: int) -> bool:
        """Process a message; False if it gives `process_pending` no work."""
        self._shared.now = now
        if sender == self.index or (
            self.is_removed
            and not isinstance(message, Progress | CatchUp | Snapshot | AssembledSnapshot | Summary)
        ):
            reason: MessageRejection | None = MessageRejection.NOT_A_MEMBER
        elif sender in self._former:
            reason = self._on_removed_member_message(message, sender)
        elif sender > self._latest_replica:
            reason = self._on_unknown_member_message(message, sender)
        else:
            reason = validation.rejection_reason(message, sender, self.settings)
        if reason is None:
            reason = validation.contradiction_reason(message, sender, self)
        if reason is not None:
            self._shared.count_rejection(reason)
            if reason in DATA_LOSS_PROOFS:
                self.outbox.data_lost = DataLost(DATA_LOSS_PROOFS[reason], sender)
            return False
        match message:  # most frequent messages first
            case Vote():
                return self.cab.on_vote(message, sender)
            case FirstVote():
                return self.cab.on_first_vote(message, sender)
            case Cast():
                if self.cab.delays is not None:
                    for request in message.requests:
                        self.cab.delays.add(sender, now - request.timestamp)
                self.reliable_broadcast.on_cast(message)
            case Accept():
                self.cab.on_accept(message, sender)
            case Progress():
                self.cab.learner.on_progress(sender, message.delivered, message.stable_instance)
                return False
            case Heartbeat():
                self.omega.on_heartbeat(message, sender)
                self.cab.leader.observe_ballot(message.ballot)
                return False
            case Summary():
                if self.is_removed:
                    self._handover.on_summary(message, sender)
                    return False
                self.reliable_broadcast.on_summary(message, sender)
            case Pull():
                self.reliable_broadcast.on_pull(message, sender)
                if sender in self._snapshot_sender.recovering:
                    self._snapshot_sender.on_pull(sender, self.cab.learner)
            case PullResponse():
                self.reliable_broadcast.on_pulled(message, sender)
                if sender in self._former:
                    summary = Summary(self.reliable_broadcast.received.freeze())
                    self.outbox.send((sender,), summary)
            case Prepare():
                self.cab.on_prepare(message, sender)
            case Promise():
                self.cab.on_promise(message, sender)
            case Reject():
                self.cab.observe(message.promised)
            case CatchUp():
                self.cab.on_catch_up(message, sender)
            case Decisions():
                self.cab.on_decisions(message, sender)
            case Snapshot() | AssembledSnapshot():
                self._on_snapshot(message)
            case RecoveryQuery():
                self._on_recovery_query(message, sender)
            case RecoveryResponse():
                if self.disk_loss_recovery is not None:
                    self.disk_loss_recovery.on_response(message, sender)
            case _:
                assert_never(message)
        return True

    def _on_removed_member_message(
        self, message: IncomingMessage, sender: int
    ) -> MessageRejection | None:
        """Process a message of a removed member: show it our progress, send a snapshot on request,
        and accept the requests that it hands over."""
        match message:
            case PullResponse(requests=requests):
                self.probes.hit(Probe.HANDED_OVER)
                return validation.requests_rejection_reason(requests, self.settings.all_replicas)
            case Heartbeat() | Progress():
                progress = Progress(self.cab.learner.delivered, self._checkpoints.instance)
                self.outbox.send((sender,), progress)
            case CatchUp():
                self.probes.hit(Probe.REMOVED_MEMBER_CAUGHT_UP)
                self._send_snapshot(sender)
            case _:
                pass
        return MessageRejection.REMOVED_MEMBER

    def _on_unknown_member_message(
        self, message: IncomingMessage, sender: int
    ) -> MessageRejection | None:
        """Process a message of an unknown replica.

        The sender may have been added during our absence, after all known members were removed. Its
        configuration then proves the membership. A sole member, however, must have approved every
        addition itself. An unapproved one shows that this replica lost its state.
        """
        is_alone = self.settings.members == (self.index,)
        match message:
            case Heartbeat(ballot=ballot):
                if is_alone and self.settings.end_round <= ballot.round < validation.COUNTER_LIMIT:
                    return MessageRejection.UNAPPROVED_MEMBERS
            case Progress(delivered=delivered):
                own_delivered = self.cab.learner.delivered
                if delivered > own_delivered:
                    self.outbox.send((sender,), CatchUp(own_delivered))
            case Snapshot(checkpoint=checkpoint) | AssembledSnapshot(checkpoint=checkpoint):
                try:
                    configuration = find_configuration(checkpoint.state)
                    if configuration is not None and configuration.epoch > self.settings.epoch:
                        later_settings = self.settings.with_configuration(configuration)
                        if is_alone:
                            return MessageRejection.UNAPPROVED_MEMBERS
                        self.probes.hit(Probe.MEMBERS_LEARNED_FROM_UNKNOWN)
                        return validation.rejection_reason(message, sender, later_settings)
                except BadValue:
                    return MessageRejection.BAD_CHECKPOINT
            case _:
                pass
        return MessageRejection.NOT_A_MEMBER

    # --- recovery from disk loss --------------------------------------------------------------

    def _on_recovery_query(self, message: RecoveryQuery, sender: int) -> None:
        requests = (*self._checkpoints.live_requests(), *self.reliable_broadcast.held_back())
        self.reliable_broadcast.retain_for(sender, requests)
        response = self.cab.recovery_response(
            message, sender, self.reliable_broadcast.received.freeze()
        )
        self.outbox.send((sender,), response)
        self._snapshot_sender.on_recovery_query(sender, message.delivered, self.cab.learner)

    @property
    def must_be_replaced(self) -> bool:
        """True if this replica lost its disk and the members that knew its promises may be gone."""
        return self.disk_loss_recovery is not None and self.settings.epoch > 0

    def _join_if_recovered(self, recovery: DiskLossRecovery) -> None:
        if self.must_be_replaced or not self.is_member:
            return
        undecided = self.cab.learner.first_undecided
        if recovery.is_complete(undecided, self.reliable_broadcast.received):
            if not recovery.is_new_cluster():
                self.probes.hit(Probe.JOINED_AFTER_DISK_LOSS)
            self._fill_gaps()  # on disk before this replica joins
            self._join()
            self.cab.join(recovery.promised(), tuple(recovery.accepted(undecided)))

    def _fill_gaps(self) -> None:
        """Issue no-ops in place of lost requests of this replica.

        If a member holds later requests, the lost ones would block those and all new ones for ever.
        """
        broadcast, index = self.reliable_broadcast, self.index
        own_held_back = [each for each in broadcast.held_back() if each.id.replica == index]
        for request in sorted(own_held_back, key=lambda each: each.id.event):
            for event in range(broadcast.delivered.last_contiguous(index) + 1, request.id.event):
                id = Dot(index, event)
                if id in broadcast.received:
                    return  # its context is missing, and lost as well
                noop = self.requests.fill_lost_request(id, request.timestamp)
                self._application.insert(noop)
            broadcast.deliver_next_of(index)
        self.cab.process_pending()

    def _join(self) -> None:
        self.disk_loss_recovery = None
        self._shared.is_abstaining = False

    # --- durable state ------------------------------------------------------------------------

    def compact(
        self, checkpoint: Checkpoint, registers: RegisterCursor | AssembledSnapshot | None = None
    ) -> None:
        """Write the whole durable state as one record, so that all earlier ones can be dropped. If
        `registers` is given, the checkpoint itself holds none.

        Requests and decisions that the previous checkpoint covered are discarded. Peers that still
        miss some of them were behind for a whole period, and receive a snapshot.
        """
        self.probes.hit(Probe.JOURNAL_COMPACTED)
        acceptor, learner = self.cab.acceptor, self.cab.learner
        if self._checkpoint_on_disk is not None:
            covered, instance = self._checkpoint_on_disk
            self.reliable_broadcast.discard_covered(covered)
            learner.discard_below(instance)
        self._checkpoint_on_disk = checkpoint.ids, checkpoint.instance
        accepted = tuple(acceptor.accepted[each] for each in sorted(acceptor.accepted))
        decided = tuple(
            (each, learner.decided[each])
            for each in sorted(learner.decided)
            if each >= checkpoint.instance
        )
        requests = (*self._checkpoints.live_requests(), *self.reliable_broadcast.held_back())
        record = CheckpointRecord(checkpoint, acceptor.promised, accepted, decided, requests)
        preceding = len(self.outbox.records)
        if registers is None:
            self.outbox.records.append(record)
        elif isinstance(registers, AssembledSnapshot):
            live, deleted = registers.live, registers.deleted
            self.outbox.checkpoints.append(EncodedCheckpoint(preceding, record, live, deleted))
        else:
            self.outbox.checkpoints.append(StreamedCheckpoint(preceding, record, registers))

    def recover(self, records: Iterable[Record]) -> None:
        """Rebuild the state from `records`. The writes and sends that result are dropped: they are
        on disk already, or are repeated in time."""
        self.probes.hit(Probe.RECOVERED)
        recovered = replay_records(records)
        requests = recovered.requests
        for request in requests:
            self.clock.observe(request.timestamp, request.timestamp)
        if recovered.checkpoint is not None:
            self.probes.hit(Probe.RECOVERED_CHECKPOINT)
            self._install(recovered.checkpoint)
            self._checkpoint_on_disk = recovered.checkpoint.ids, recovered.checkpoint.instance
        if recovered.promised != NO_BALLOT:
            self._join()
        self.cab.restore(recovered.promised, recovered.accepted, recovered.decided)
        for first in range(0, len(requests), RESTORE_BATCH_SIZE):
            self.reliable_broadcast.restore(requests[first : first + RESTORE_BATCH_SIZE])
            # deliver decided requests early, to keep the lists short
            self.process_pending()
        self.process_pending()
        self.outbox.records.clear()
        self.outbox.sends.clear()

    # --- snapshots ----------------------------------------------------------------------------

    def _send_snapshot(self, peer: int) -> None:
        self._snapshot_sender.send_snapshot(peer, self.cab.learner)

    def _on_snapshot(self, message: Snapshot | AssembledSnapshot) -> None:
        checkpoint = message.checkpoint
        assembled = message if isinstance(message, AssembledSnapshot) else None
        if checkpoint.instance <= self.cab.learner.delivered:
            return
        self.probes.hit(Probe.SNAPSHOT_INSTALLED)
        self._install(checkpoint, None if assembled is None else assembled.loader)
        # On disk before any dependent message is sent, and before a recovering replica joins.
        self.compact(checkpoint, assembled)

    def _install(self, checkpoint: Checkpoint, loader: RegisterLoader | None = None) -> None:
        self.clock.observe(checkpoint.timestamp, self._shared.now)
        configuration = find_configuration(checkpoint.state)
        if configuration is not None and configuration.epoch > self.settings.epoch:
            self.reconfigure(configuration, checkpoint.instance)
        self._application.install(checkpoint, loader)
        self.cab.install(checkpoint.instance, checkpoint.ids)
        self.reliable_broadcast.mark_delivered(checkpoint.ids)

    # --- internals ----------------------------------------------------------------------------

    def _rb_deliver(self, request: Request) -> None:
        ahead = self.clock.observe(request.timestamp, self._shared.now)
        if ahead > self.settings.drift_limit_us:
            self.probes.hit(Probe.CLOCK_AHEAD)
            origin = request.id.replica
            self.drift_us[origin] = max(ahead, self.drift_us.get(origin, 0))
        self._application.rb_deliver(request)
