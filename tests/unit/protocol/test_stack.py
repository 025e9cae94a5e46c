"""The two broadcasts as one machine: routing, the image on disk, snapshots, refusals, drift."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from creekdb.protocol.checkpoint.snapshot_sender import BACKOFF_FACTOR_MAX
from creekdb.protocol.checkpoint.stream import LazyCheckpoint, RegisterLoader, lazy_checkpoint_of
from creekdb.protocol.effects import Effects
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
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
from creekdb.protocol.stack import ProtocolStack
from creekdb.protocol.validation import ID_REUSED, NOT_A_MEMBER

THEIRS = Ballot(1, 1)


def request(replica: int, event: int, timestamp: int = 10, strong: bool = False) -> Request:
    context = Dots() if strong else None
    return Request(timestamp, Dot(replica, event), Operation("touch"), strong, context)


def checkpoint(instance: int, ids: Dots, timestamp: int = 50) -> Checkpoint:
    return Checkpoint(instance, len(ids), ids, timestamp, (), ())


class Scheme:
    """A scheme that writes down what it is told, and commits what is CAB-delivered."""

    def __init__(self) -> None:
        self.requests: dict[Dot, Request] = {}
        self.committed: list[Dot] = []
        self.installed: list[Checkpoint] = []
        self.optimistic: list[tuple[int, Batch]] = []
        self.settled = checkpoint(0, Dots())

    def rb_deliver(self, request: Request) -> None:
        self.requests[request.id] = request

    def fill_lost_request(self, id: Dot, timestamp: int) -> None:
        pass

    def cab_deliver(self, ids: list[Dot], instance: int) -> None:
        self.committed.extend(ids)

    def missing_dependency(self, id: Dot) -> Dot | None:
        return None if id in self.requests else id

    def is_committed(self, id: Dot) -> bool:
        return id in self.committed

    def is_weak(self, id: Dot) -> bool:
        return id in self.requests and not self.requests[id].strong

    def can_install(self, checkpoint: Checkpoint) -> bool:
        return all(id in checkpoint.ids for id in self.committed)

    def checkpoint(self) -> Checkpoint:
        return self.settled

    def on_proposed(self, instance: int, batch: Batch) -> None:
        self.optimistic.append((instance, batch))

    def lazy_checkpoint(self) -> LazyCheckpoint:
        return lazy_checkpoint_of(self.checkpoint())

    def stable_instance(self) -> int:
        return self.settled.instance

    def live_requests(self) -> Iterator[Request]:
        yield from self.requests.values()

    def on_reconfigured(self) -> None:
        pass

    def install(self, checkpoint: Checkpoint, intake: RegisterLoader | None = None) -> None:
        self.installed.append(checkpoint)


class World:
    """The broadcasts of replica 0 of three."""

    def __init__(self, **settings: int) -> None:
        self.settings = Settings(members=(0, 1, 2), **settings)
        self.scheme = Scheme()
        self.broadcasts = ProtocolStack(0, self.settings, self.scheme)

    def receive(self, message: Message, sender: int = 1, now: int = 10) -> Effects:
        self.broadcasts.receive(message, sender, now)
        self.broadcasts.process_pending()
        return self.broadcasts.outbox.take()

    def tick(self, times: int = 1) -> list[Message]:
        for _ in range(times):
            self.broadcasts.tick(10)
        return [each.message for each in self.broadcasts.outbox.take().send]


@pytest.fixture
def world() -> World:
    return World()


def test_every_kind_of_message_finds_its_machine(world: World) -> None:
    broadcasts = world.broadcasts
    world.receive(Cast((request(1, 1, strong=True),)))
    assert Dot(1, 1) in broadcasts.reliable_broadcast.delivered
    world.receive(Summary(Dots({1: (1, 3)})))
    assert broadcasts.reliable_broadcast._summaries[1] == Dots({1: (1, 3)})
    (send,) = world.receive(Pull(Dots({1: (1, 2)}))).send
    assert send.message == PullResponse((request(1, 1, strong=True),))
    world.receive(PullResponse((request(2, 1),)))
    assert Dot(2, 1) in broadcasts.reliable_broadcast.delivered
    world.receive(Heartbeat(THEIRS, 1, (0, 1, 2)))
    assert broadcasts.omega.max_ballot == THEIRS
    (send,) = world.receive(Prepare(THEIRS, 0)).send
    assert send.message == Promise(THEIRS, 0, ())
    (send,) = world.receive(Accept(THEIRS, 0, (Dot(1, 1),))).send
    assert send.message == Vote(THEIRS, 0)
    world.receive(Vote(THEIRS, 0))
    assert world.scheme.committed == [Dot(1, 1)]
    world.receive(Progress(1))
    assert broadcasts.cab.learner.progress_of(1) == 1
    (send,) = world.receive(CatchUp(0)).send
    assert send.message == Decisions(0, ((Dot(1, 1),),))
    world.receive(Decisions(1, ((),)))
    assert broadcasts.cab.learner.delivered == 2
    world.receive(Reject(Ballot(7, 2)))
    assert broadcasts.omega.max_ballot == Ballot(7, 2)
    world.receive(Snapshot(checkpoint(5, Dots({1: (1, 2)}))))
    assert [each.instance for each in world.scheme.installed] == [5]
    assert broadcasts.rejected == {}


def test_what_nothing_follows_from_need_not_be_settled(world: World) -> None:
    broadcasts = world.broadcasts
    world.receive(Cast((request(1, 1, strong=True),)))
    assert not broadcasts.receive(Heartbeat(THEIRS, 1, (0, 1, 2)), 1, 10)
    assert not broadcasts.receive(Progress(0), 1, 10)
    assert not broadcasts.receive(Vote(THEIRS, 0), 3, 10)
    assert not broadcasts.receive(Vote(THEIRS, 0), 2, 10)
    assert broadcasts.receive(Accept(THEIRS, 0, (Dot(1, 1),)), 1, 10)
    broadcasts.process_pending()
    assert world.scheme.committed == [Dot(1, 1)]
    assert not broadcasts.receive(Vote(THEIRS, 0), 1, 10)


@pytest.mark.parametrize("sender", [0, 3])
def test_a_message_from_oneself_or_a_stranger_is_refused(world: World, sender: int) -> None:
    assert world.receive(Vote(THEIRS, 0), sender) == Effects()
    assert world.broadcasts.rejected == {NOT_A_MEMBER: 1}


def test_refusals_are_counted_by_reason(world: World) -> None:
    world.receive(Cast((request(1, 1),)))
    for _ in range(3):
        world.receive(Cast((request(1, 1, timestamp=11),)))
    world.receive(Vote(THEIRS, 0), 9)
    assert world.broadcasts.rejected == {ID_REUSED: 3, NOT_A_MEMBER: 1}


def test_identifiers_are_counted_from_what_was_issued_here(world: World) -> None:
    assert world.broadcasts.next_id() == Dot(0, 1)
    world.broadcasts.rb_cast(request(0, 1))
    assert world.broadcasts.next_id() == Dot(0, 2)


# --- drift ----------------------------------------------------------------------------------------


def test_a_clock_far_ahead_is_reported_and_its_request_delivered() -> None:
    world = World(drift_limit_us=100)
    world.receive(Cast((request(1, 1, timestamp=10 + 101),)))
    assert world.broadcasts.drift_us == {1: 101}
    assert Dot(1, 1) in world.scheme.requests
    assert world.broadcasts.rejected == {}
    assert world.broadcasts.clock.last == 111


def test_a_clock_within_the_limit_is_not_reported() -> None:
    world = World(drift_limit_us=100)
    world.receive(Cast((request(1, 1, timestamp=110),)))
    assert world.broadcasts.drift_us == {}


def test_the_worst_drift_is_kept() -> None:
    world = World(drift_limit_us=100)
    for event, timestamp in ((1, 1_000), (2, 5_000), (3, 5_200)):
        world.receive(Cast((request(1, event, timestamp),)))
    assert world.broadcasts.drift_us == {1: 4_000}
    assert world.broadcasts.probes.counts[Probe.CLOCK_AHEAD] == 3


# --- the image ------------------------------------------------------------------------------------


def test_an_image_holds_all_that_must_survive(world: World) -> None:
    world.receive(Cast((request(1, 1, strong=True), request(1, 3))))
    world.receive(Accept(THEIRS, 1, (Dot(1, 1),)))
    world.receive(Decisions(2, ((),)))
    world.broadcasts.compact(checkpoint(0, Dots(), timestamp=0))
    (image,) = world.broadcasts.outbox.take().persist
    assert image == CheckpointRecord(
        checkpoint(0, Dots(), timestamp=0),
        THEIRS,
        (AcceptedValue(1, THEIRS, (Dot(1, 1),)),),
        ((2, ()),),
        (request(1, 1, strong=True), request(1, 3)),
    )


def test_what_the_checkpoint_before_the_last_held_is_forgotten(world: World) -> None:
    for event in (1, 2):
        world.receive(Cast((request(1, event, strong=True),)))
        world.receive(Decisions(event - 1, ((Dot(1, event),),)))
    gossip, learner = world.broadcasts.reliable_broadcast, world.broadcasts.cab.learner
    world.broadcasts.compact(checkpoint(1, Dots({1: (1, 2)})))
    assert set(gossip._retained[1]) == {1, 2}
    assert list(learner.decided) == [0, 1]
    world.broadcasts.compact(checkpoint(2, Dots({1: (1, 3)})))
    assert set(gossip._retained[1]) == {2}
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


def recovered(records: tuple[Record, ...]) -> World:
    world = World()
    world.broadcasts.recover(records)
    return world


def test_records_bring_everything_back() -> None:
    world = recovered(RECORDS)
    broadcasts = world.broadcasts
    assert set(world.scheme.requests) == {Dot(1, 1), Dot(0, 1)}
    assert [each.id for each in broadcasts.reliable_broadcast.held_back()] == [Dot(2, 2)]
    assert world.scheme.committed == [Dot(1, 1)]
    assert broadcasts.cab.acceptor.promised == Ballot(3, 2)
    assert broadcasts.cab.acceptor.accepted == {1: AcceptedValue(1, Ballot(3, 2), (Dot(0, 9),))}
    assert broadcasts.omega.max_ballot == Ballot(3, 2)
    assert broadcasts.next_id() == Dot(0, 2)
    assert broadcasts.outbox.take() == Effects()


@pytest.mark.parametrize("length", range(len(RECORDS) + 1))
def test_an_image_in_the_middle_brings_back_the_same(length: int) -> None:
    before = recovered(RECORDS[:length])
    before.broadcasts.compact(checkpoint(0, Dots(), timestamp=0))
    (image,) = before.broadcasts.outbox.take().persist
    with_image = recovered((*RECORDS[:2], image, *RECORDS[length:]))
    without = recovered(RECORDS)
    for one, other in zip(essentials(with_image), essentials(without), strict=True):
        assert one == other


def essentials(world: World) -> tuple[object, ...]:
    broadcasts = world.broadcasts
    return (
        set(broadcasts.reliable_broadcast.received),
        set(broadcasts.reliable_broadcast.delivered),
        set(broadcasts.reliable_broadcast._retained),
        broadcasts.cab.acceptor.promised,
        broadcasts.cab.acceptor.accepted,
        broadcasts.cab.learner.decided,
        broadcasts.cab.learner.delivered,
        world.scheme.committed,
        broadcasts.clock.last,
    )


def test_an_image_with_a_checkpoint_is_installed_before_what_comes_after_it() -> None:
    image = CheckpointRecord(
        checkpoint(4, Dots({1: (1, 3)})),
        Ballot(2, 1),
        (),
        ((4, (Dot(1, 3),)),),
        (request(1, 3, strong=True),),
    )
    world = recovered((image, Received(request(1, 4))))
    assert world.scheme.installed == [image.checkpoint]
    assert world.scheme.committed == [Dot(1, 3)]
    assert set(world.scheme.requests) == {Dot(1, 3), Dot(1, 4)}
    assert world.broadcasts.clock.last == 50
    assert world.broadcasts.cab.learner.delivered == 5


# --- snapshots ------------------------------------------------------------------------------------


def test_a_snapshot_is_installed_and_on_disk_at_once(world: World) -> None:
    world.receive(Cast((request(1, 3),)))
    snapshot = checkpoint(7, Dots({1: (1, 3), 2: (1, 9)}))
    effects = world.receive(Snapshot(snapshot))
    assert world.scheme.installed == [snapshot]
    (image,) = effects.persist
    assert isinstance(image, CheckpointRecord)
    assert image.checkpoint == snapshot
    assert set(world.scheme.requests) == {Dot(1, 3)}, "what waited for its dots is delivered"
    assert world.broadcasts.clock.last == 50
    assert world.broadcasts.reliable_broadcast.received.covers(DotSet([Dot(2, 8), Dot(1, 3)]))


def test_a_snapshot_of_what_is_delivered_here_is_ignored(world: World) -> None:
    world.receive(Decisions(0, ((), ())))
    for instance in (0, 1, 2):
        world.receive(Snapshot(checkpoint(instance, Dots())))
    assert world.scheme.installed == []


def test_a_peer_that_lags_too_far_gets_a_snapshot_but_not_at_every_question() -> None:
    world = World(retry_ticks=3)
    world.receive(Snapshot(checkpoint(7, Dots({1: (1, 3)}))))
    world.scheme.settled = checkpoint(7, Dots({1: (1, 3)}))
    answers = []
    for _ in range(6):
        world.tick()
        answers.append([each.message for each in world.receive(CatchUp(0), 2).send])
    snapshot = [Snapshot(world.scheme.settled)]
    assert answers == [snapshot, [], [], snapshot, [], []]
    (send,) = world.receive(CatchUp(6), 1).send
    assert send.message == snapshot[0], "another peer is another matter"


def test_a_peer_to_which_snapshots_got_lost_for_long_still_gets_the_next_one_in_time() -> None:
    world = World(retry_ticks=1)
    world.receive(Snapshot(checkpoint(7, Dots({1: (1, 3)}))))
    world.scheme.settled = checkpoint(7, Dots({1: (1, 3)}))
    sent = []
    for tick in range(4 * BACKOFF_FACTOR_MAX):
        world.tick()
        if world.receive(CatchUp(0), 2).send:
            sent.append(tick)
    waits = [after - before for before, after in pairwise(sent)]
    assert waits[:3] == [1, 2, 4]
    assert waits[-2:] == [BACKOFF_FACTOR_MAX, BACKOFF_FACTOR_MAX]


def test_an_idle_replica_speaks_at_every_beat_of_its_settings() -> None:
    world = World(heartbeat_ticks=2, summary_ticks=4)
    kinds = [[type(each) for each in world.tick()] for _ in range(4)]
    assert kinds == [[], [Heartbeat, Progress], [], [Heartbeat, Summary, Progress]]
