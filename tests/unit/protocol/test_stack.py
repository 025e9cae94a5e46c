"""Protocol stack: routing, rejections, clock drift, checkpoint records, recovery and snapshots."""

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pytest

from creekdb.protocol.checkpoint.snapshot_sender import BACKOFF_FACTOR_MAX
from creekdb.protocol.checkpoint.stream import LazyCheckpoint, RegisterLoader, lazy_checkpoint_of
from creekdb.protocol.effects import DataLossKind, DataLost, Effects
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    AcceptedValue,
    Ballot,
    Cast,
    CatchUp,
    Checkpoint,
    CheckpointRecord,
    Decided,
    Decisions,
    Heartbeat,
    Message,
    Prepare,
    Progress,
    Promise,
    Promised,
    Pull,
    PullResponse,
    Received,
    Record,
    Reject,
    Snapshot,
    Summary,
    Vote,
)
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch, Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables
from creekdb.protocol.stack import ProtocolStack
from creekdb.protocol.validation import MessageRejection

PEER_BALLOT = Ballot(1, 1)


def request(replica: int, event: int, timestamp: int = 10, strong: bool = False) -> Request:
    context = Dots() if strong else None
    return Request(timestamp, Dot(replica, event), Operation("touch"), strong, context)


def checkpoint(instance: int, ids: Dots, timestamp: int = 50) -> Checkpoint:
    return Checkpoint(instance, len(ids), ids, timestamp, (), ())


class Scheme:
    """Scheme that records its inputs and commits the CAB-delivered requests."""

    has_contexts = True

    def __init__(self) -> None:
        self.requests: dict[Dot, Request] = {}
        self.committed: list[Dot] = []
        self.installed: list[Checkpoint] = []
        self.optimistic: list[tuple[int, Batch]] = []
        self.stable = checkpoint(0, Dots())

    def rb_deliver(self, request: Request) -> None:
        self.requests[request.id] = request

    def insert(self, request: Request) -> None:
        pass

    def fill_lost_request(self, id: Dot, timestamp: int) -> Request:
        raise NotImplementedError("this scheme loses no requests")

    def cab_deliver(self, ids: list[Dot], instance: int) -> None:
        self.committed.extend(ids)

    def missing_dependency(self, id: Dot) -> Dot | None:
        return None if id in self.requests else id

    def is_committed(self, id: Dot) -> bool:
        return id in self.committed

    def is_weak(self, id: Dot) -> bool:
        return id in self.requests and not self.requests[id].strong

    def timestamp_of(self, id: Dot) -> int:
        return self.requests[id].timestamp

    def cut_before(self, id: Dot) -> tuple[Dot, ...]:
        return ()

    def can_install(self, checkpoint: Checkpoint) -> bool:
        return all(id in checkpoint.ids for id in self.committed)

    def checkpoint(self) -> Checkpoint:
        return self.stable

    def on_proposed(self, instance: int, batch: Batch) -> None:
        self.optimistic.append((instance, batch))

    def lazy_checkpoint(self) -> LazyCheckpoint:
        return lazy_checkpoint_of(self.checkpoint())

    @property
    def instance(self) -> int:
        return self.stable.instance

    def live_requests(self) -> Iterator[Request]:
        yield from self.requests.values()

    def install(self, checkpoint: Checkpoint, loader: RegisterLoader | None = None) -> None:
        self.installed.append(checkpoint)


def new_stack(settings: Settings, scheme: Scheme) -> ProtocolStack:
    return ProtocolStack(SharedVariables(0, settings), scheme, scheme, scheme)


class StackHarness:
    """Stack of replica 0 of three."""

    def __init__(self, **settings: int) -> None:
        self.settings = Settings(members=(0, 1, 2), **settings)
        self.scheme = Scheme()
        self.stack = new_stack(self.settings, self.scheme)

    def receive(self, message: Message, sender: int = 1, now: int = 10) -> Effects:
        self.stack.receive(message, sender, now)
        self.stack.process_pending()
        return self.stack.outbox.take()

    def tick(self, times: int = 1) -> list[Message]:
        for _ in range(times):
            self.stack.tick(10)
        return [each.message for each in self.stack.outbox.take().send]


@pytest.fixture
def harness() -> StackHarness:
    return StackHarness()


def test_every_message_type_reaches_its_component(harness: StackHarness) -> None:
    stack = harness.stack
    harness.receive(Cast((request(1, 1, strong=True),)))
    assert Dot(1, 1) in stack.reliable_broadcast.delivered
    harness.receive(Summary(Dots({1: (1, 3)})))
    assert stack.reliable_broadcast._summaries[1] == Dots({1: (1, 3)})
    (send,) = harness.receive(Pull(Dots({1: (1, 2)}))).send
    assert send.message == PullResponse((request(1, 1, strong=True),))
    harness.receive(PullResponse((request(2, 1),)))
    assert Dot(2, 1) in stack.reliable_broadcast.delivered
    harness.receive(Heartbeat(PEER_BALLOT, 1, (0, 1, 2)))
    assert stack.omega.max_ballot == PEER_BALLOT
    (send,) = harness.receive(Prepare(PEER_BALLOT, 0)).send
    assert send.message == Promise(PEER_BALLOT, 0, ())
    (send,) = harness.receive(Accept(PEER_BALLOT, 0, (Dot(1, 1),))).send
    assert send.message == Vote(PEER_BALLOT, 0)
    harness.receive(Vote(PEER_BALLOT, 0))
    assert harness.scheme.committed == [Dot(1, 1)]
    harness.receive(Progress(1))
    assert stack.cab.learner.progress_of(1) == 1
    (send,) = harness.receive(CatchUp(0)).send
    assert send.message == Decisions(0, ((Dot(1, 1),),))
    harness.receive(Decisions(1, ((),)))
    assert stack.cab.learner.delivered == 2
    harness.receive(Reject(Ballot(7, 2)))
    assert stack.omega.max_ballot == Ballot(7, 2)
    harness.receive(Snapshot(checkpoint(5, Dots({1: (1, 2)}))))
    assert [each.instance for each in harness.scheme.installed] == [5]
    assert stack._shared.rejected == {}


def test_receive_returns_false_if_no_work_is_pending(harness: StackHarness) -> None:
    stack = harness.stack
    harness.receive(Cast((request(1, 1, strong=True),)))
    assert not stack.receive(Heartbeat(PEER_BALLOT, 1, (0, 1, 2)), 1, 10)
    assert not stack.receive(Progress(0), 1, 10)
    assert not stack.receive(Vote(PEER_BALLOT, 0), 3, 10)
    assert not stack.receive(Vote(PEER_BALLOT, 0), 2, 10)
    assert stack.receive(Accept(PEER_BALLOT, 0, (Dot(1, 1),)), 1, 10)
    stack.process_pending()
    assert harness.scheme.committed == [Dot(1, 1)]
    assert not stack.receive(Vote(PEER_BALLOT, 0), 1, 10)


@pytest.mark.parametrize("sender", [0, 3])
def test_messages_from_itself_or_a_non_member_are_rejected(
    harness: StackHarness, sender: int
) -> None:
    assert harness.receive(Vote(PEER_BALLOT, 0), sender) == Effects()
    assert harness.stack._shared.rejected == {MessageRejection.NOT_A_MEMBER: 1}


def test_rejections_are_counted_by_reason(harness: StackHarness) -> None:
    harness.receive(Cast((request(1, 1),)))
    for _ in range(3):
        harness.receive(Cast((request(1, 1, timestamp=11),)))
    harness.receive(Vote(PEER_BALLOT, 0), 9)
    assert harness.stack._shared.rejected == {
        MessageRejection.ID_REUSED: 3,
        MessageRejection.NOT_A_MEMBER: 1,
    }


def test_an_unknown_member_with_invalid_members_is_rejected(harness: StackHarness) -> None:
    members = (MEMBERSHIP_KEY, (1, ((9, ""), (0, "")), ()))
    snapshot = Snapshot(msgspec.structs.replace(checkpoint(5, Dots()), state=(members,)))
    harness.receive(snapshot, 9)
    assert harness.stack._shared.rejected == {MessageRejection.BAD_CHECKPOINT: 1}


@pytest.mark.parametrize(
    "message",
    [
        Summary(Dots({0: (1, 3)})),
        PullResponse((request(0, 2),)),
        Snapshot(checkpoint(5, Dots({0: (1, 3)}))),
    ],
)
def test_a_later_request_of_this_replica_proves_a_loss_of_data(
    harness: StackHarness, message: Message
) -> None:
    harness.stack.reliable_broadcast.cast(request(0, 1))
    harness.stack.outbox.take()
    assert harness.receive(message, 2) == Effects(data_lost=DataLost(DataLossKind.REQUESTS, 2))
    assert harness.stack.outbox.take() == Effects()


def test_members_that_a_sole_member_did_not_admit_prove_a_loss_of_data() -> None:
    stack = new_stack(Settings(members=(0,)), Scheme())
    later_round = stack.settings.end_round
    stack.receive(Heartbeat(Ballot(later_round, 1), 1, (0, 1)), 1, 10)
    assert stack.outbox.take() == Effects(data_lost=DataLost(DataLossKind.MEMBERS, 1))


def test_next_id_follows_the_last_issued_request(harness: StackHarness) -> None:
    assert harness.stack.next_id() == Dot(0, 1)
    harness.stack.reliable_broadcast.cast(request(0, 1))
    assert harness.stack.next_id() == Dot(0, 2)


# --- drift ----------------------------------------------------------------------------------------


def test_drift_above_the_limit_is_reported_and_the_request_delivered() -> None:
    harness = StackHarness(drift_limit_us=100)
    harness.receive(Cast((request(1, 1, timestamp=10 + 101),)))
    assert harness.stack.drift_us == {1: 101}
    assert Dot(1, 1) in harness.scheme.requests
    assert harness.stack._shared.rejected == {}
    assert harness.stack.clock.last == 111


def test_drift_within_the_limit_is_not_reported() -> None:
    harness = StackHarness(drift_limit_us=100)
    harness.receive(Cast((request(1, 1, timestamp=110),)))
    assert harness.stack.drift_us == {}


def test_maximum_drift_is_retained() -> None:
    harness = StackHarness(drift_limit_us=100)
    for event, timestamp in ((1, 1_000), (2, 5_000), (3, 5_200)):
        harness.receive(Cast((request(1, event, timestamp),)))
    assert harness.stack.drift_us == {1: 4_000}
    assert harness.stack.probes.counts[Probe.CLOCK_AHEAD] == 3


# --- checkpoint records ---------------------------------------------------------------------------


def test_checkpoint_record_holds_the_whole_durable_state(harness: StackHarness) -> None:
    harness.receive(Cast((request(1, 1, strong=True), request(1, 3))))
    harness.receive(Accept(PEER_BALLOT, 1, (Dot(1, 1),)))
    harness.receive(Decisions(2, ((),)))
    harness.stack.compact(checkpoint(0, Dots(), timestamp=0))
    (record,) = harness.stack.outbox.take().persist
    assert record == CheckpointRecord(
        checkpoint(0, Dots(), timestamp=0),
        PEER_BALLOT,
        (AcceptedValue(1, PEER_BALLOT, (Dot(1, 1),)),),
        ((2, ()),),
        (request(1, 1, strong=True), request(1, 3)),
    )


def test_compaction_discards_what_the_previous_checkpoint_covered(harness: StackHarness) -> None:
    for event in (1, 2):
        harness.receive(Cast((request(1, event, strong=True),)))
        harness.receive(Decisions(event - 1, ((Dot(1, event),),)))
    reliable_broadcast, learner = harness.stack.reliable_broadcast, harness.stack.cab.learner
    harness.stack.compact(checkpoint(1, Dots({1: (1, 2)})))
    assert set(reliable_broadcast._retained[1]) == {1, 2}
    assert list(learner.decided) == [0, 1]
    harness.stack.compact(checkpoint(2, Dots({1: (1, 3)})))
    assert set(reliable_broadcast._retained[1]) == {2}
    assert list(learner.decided) == [1]


RECORDS: tuple[Record, ...] = (
    Received(request(1, 1, strong=True)),
    Promised(Ballot(1, 1)),
    Accepted(AcceptedValue(0, Ballot(1, 1), (Dot(1, 1),))),
    Received(request(2, 2)),
    Decided(0, (Dot(1, 1),)),
    Accepted(AcceptedValue(1, Ballot(1, 1), ())),
    Received(request(0, 1)),
    Promised(Ballot(3, 2)),
    Accepted(AcceptedValue(1, Ballot(3, 2), (Dot(0, 9),))),
)


def recovered(records: tuple[Record, ...]) -> StackHarness:
    harness = StackHarness()
    harness.stack.recover(records)
    return harness


def test_recovery_rebuilds_the_state_from_records() -> None:
    harness = recovered(RECORDS)
    stack = harness.stack
    assert set(harness.scheme.requests) == {Dot(1, 1), Dot(0, 1)}
    assert [each.id for each in stack.reliable_broadcast.held_back()] == [Dot(2, 2)]
    assert harness.scheme.committed == [Dot(1, 1)]
    assert stack.cab.acceptor.promised == Ballot(3, 2)
    assert stack.cab.acceptor.accepted == {1: AcceptedValue(1, Ballot(3, 2), (Dot(0, 9),))}
    assert stack.omega.max_ballot == Ballot(3, 2)
    assert stack.next_id() == Dot(0, 2)
    assert stack.outbox.take() == Effects()


@pytest.mark.parametrize("length", range(len(RECORDS) + 1))
def test_checkpoint_record_at_any_position_recovers_the_same_state(length: int) -> None:
    before = recovered(RECORDS[:length])
    before.stack.compact(checkpoint(0, Dots(), timestamp=0))
    (record,) = before.stack.outbox.take().persist
    with_checkpoint = recovered((*RECORDS[:2], record, *RECORDS[length:]))
    without_checkpoint = recovered(RECORDS)
    for left, right in zip(
        durable_state(with_checkpoint), durable_state(without_checkpoint), strict=True
    ):
        assert left == right


def durable_state(harness: StackHarness) -> tuple[object, ...]:
    stack = harness.stack
    return (
        set(stack.reliable_broadcast.received),
        set(stack.reliable_broadcast.delivered),
        set(stack.reliable_broadcast._retained),
        stack.cab.acceptor.promised,
        stack.cab.acceptor.accepted,
        stack.cab.learner.decided,
        stack.cab.learner.delivered,
        harness.scheme.committed,
        stack.clock.last,
    )


def test_checkpoint_record_is_installed_before_later_records() -> None:
    record = CheckpointRecord(
        checkpoint(4, Dots({1: (1, 3)})),
        Ballot(2, 1),
        (),
        ((4, (Dot(1, 3),)),),
        (request(1, 3, strong=True),),
    )
    harness = recovered((record, Received(request(1, 4))))
    assert harness.scheme.installed == [record.checkpoint]
    assert harness.scheme.committed == [Dot(1, 3)]
    assert set(harness.scheme.requests) == {Dot(1, 3), Dot(1, 4)}
    assert harness.stack.clock.last == 50
    assert harness.stack.cab.learner.delivered == 5


# --- snapshots ------------------------------------------------------------------------------------


def test_snapshot_is_installed_and_persisted_at_once(harness: StackHarness) -> None:
    harness.receive(Cast((request(1, 3),)))
    snapshot = checkpoint(7, Dots({1: (1, 3), 2: (1, 9)}))
    effects = harness.receive(Snapshot(snapshot))
    assert harness.scheme.installed == [snapshot]
    (record,) = effects.persist
    assert isinstance(record, CheckpointRecord)
    assert record.checkpoint == snapshot
    assert set(harness.scheme.requests) == {Dot(1, 3)}, "the held-back request is delivered"
    assert harness.stack.clock.last == 50
    assert harness.stack.reliable_broadcast.received.covers(DotSet([Dot(2, 8), Dot(1, 3)]))


def test_snapshot_of_delivered_instances_is_ignored(harness: StackHarness) -> None:
    harness.receive(Decisions(0, ((), ())))
    for instance in (0, 1, 2):
        harness.receive(Snapshot(checkpoint(instance, Dots())))
    assert harness.scheme.installed == []


def test_snapshots_to_a_lagging_peer_are_rate_limited() -> None:
    harness = StackHarness(retry_ticks=3)
    harness.receive(Snapshot(checkpoint(7, Dots({1: (1, 3)}))))
    harness.scheme.stable = checkpoint(7, Dots({1: (1, 3)}))
    responses = []
    for _ in range(6):
        harness.tick()
        responses.append([each.message for each in harness.receive(CatchUp(0), 2).send])
    snapshot = [Snapshot(harness.scheme.stable)]
    assert responses == [snapshot, [], [], snapshot, [], []]
    (send,) = harness.receive(CatchUp(6), 1).send
    assert send.message == snapshot[0], "each peer has a backoff of its own"


def test_snapshot_backoff_doubles_up_to_its_bound() -> None:
    harness = StackHarness(retry_ticks=1)
    harness.receive(Snapshot(checkpoint(7, Dots({1: (1, 3)}))))
    harness.scheme.stable = checkpoint(7, Dots({1: (1, 3)}))
    sent = []
    for tick in range(4 * BACKOFF_FACTOR_MAX):
        harness.tick()
        if harness.receive(CatchUp(0), 2).send:
            sent.append(tick)
    intervals = [after - before for before, after in pairwise(sent)]
    assert intervals[:3] == [1, 2, 4]
    assert intervals[-2:] == [BACKOFF_FACTOR_MAX, BACKOFF_FACTOR_MAX]


def test_idle_replica_sends_periodic_messages_at_the_configured_ticks() -> None:
    harness = StackHarness(heartbeat_ticks=2, summary_ticks=4)
    kinds = [[type(each) for each in harness.tick()] for _ in range(4)]
    assert kinds == [[], [Heartbeat, Progress], [], [Heartbeat, Summary, Progress]]
