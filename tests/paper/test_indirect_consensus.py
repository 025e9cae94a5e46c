"""Section 5: indirect consensus, as Multi-Paxos on batches of identifiers.

Where a test needs an acceptor or a learner in a certain state it plays the other members itself;
replica 1 is then the one that is looked at, in a cluster where nobody leads.
"""

import pytest

from creekdb.protocol.effects import CabDelivered
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    AcceptedValue,
    Ballot,
    Cast,
    CatchUp,
    Decided,
    Decisions,
    Heartbeat,
    Message,
    Prepare,
    Promise,
    Promised,
    Received,
    Reject,
    Vote,
)
from creekdb.protocol.request import Batch
from tests.paper.harness import STABLE, TENTATIVE, Cluster
from tests.paper.schedules import SEEDS, run

LOW, HIGH = Ballot(1, 0), Ballot(2, 2)


def acceptor(replicas: int = 3) -> tuple[Cluster, list[Dot]]:
    """A cluster without a leader whose replica 1 has received three strong requests."""
    cluster = Cluster(replicas, led=False)
    ids = [cluster.strong(2, "append", each) for each in range(3)]
    cluster.deliver(Cast, to=1)
    cluster.in_flight.clear()
    return cluster, ids


def candidate(cluster: Cluster) -> Ballot:
    """Make replica 0 start a ballot above all that its peers speak of; its `Prepare` is lost."""
    peers = cluster.members[1:]
    for peer in peers:
        heartbeat = Heartbeat(Ballot(7, peers[-1]), leader=None, reachable=(0,))
        cluster.inject(heartbeat, sender=peer, to=0)
    cluster.tick(0)
    (prepare, *_) = (each.message for each in cluster.pending(Prepare, sender=0))
    assert isinstance(prepare, Prepare)
    cluster.in_flight.clear()
    return prepare.ballot


def sent(cluster: Cluster, kind: type[object], sender: int) -> list[Message]:
    """What `sender` has in flight, each message once however many it goes to."""
    found: list[Message] = []
    for each in cluster.pending(kind, sender=sender):
        if each.message not in found:
            found.append(each.message)
    return found


def decisions(cluster: Cluster, replica: int) -> list[tuple[int, Batch]]:
    """What the replica decided, in the order it did."""
    found = []
    for record in cluster.on_disk(replica, Decided):
        assert isinstance(record, Decided)
        found.append((record.instance, record.batch))
    return found


# --- termination -------------------------------------------------------------------------------


@pytest.mark.parametrize(("replicas", "crashed"), [(3, 1), (4, 1), (5, 2), (7, 3)])
def test_everyone_who_is_up_decides_as_long_as_a_majority_is(replicas: int, crashed: int) -> None:
    """Termination: "every correct process eventually decides some value"."""
    cluster = Cluster(replicas)
    for replica in range(crashed):
        cluster.crash(replica)
    id = cluster.strong(replicas - 1, "append", "a")

    cluster.settle()

    for replica in cluster.replicas:
        assert (id,) in [batch for _, batch in decisions(cluster, replica)]


@pytest.mark.parametrize(("replicas", "crashed"), [(3, 2), (4, 2), (5, 3), (2, 1)])
def test_without_a_majority_nobody_decides(replicas: int, crashed: int) -> None:
    """Section 3.4: consensus needs Ω and a majority; half of the replicas is none."""
    cluster = Cluster(replicas)
    for replica in range(1, crashed + 1):
        cluster.crash(replica)
    cluster.strong(0, "append", "a")

    cluster.settle(100)

    for replica in cluster.replicas:
        assert decisions(cluster, replica) == []


def test_a_proposal_whose_messages_died_with_the_leader_does_not_stand_in_the_way() -> None:
    """Termination: the others could not vote for it, so nobody knows of it any more."""
    cluster = Cluster(3)
    lost = cluster.strong(0, "append", "lost")
    cluster.drop(Cast)
    cluster.flush()
    cluster.crash(0)
    id = cluster.strong(1, "append", "a")

    cluster.settle()

    assert cluster.cab_delivered(1) == cluster.cab_delivered(2) == [id]
    assert lost not in cluster.tentative(1)


def test_an_instance_that_nobody_can_vote_for_does_not_stand_in_the_way_for_ever() -> None:
    """Termination: where eventual stable evaluation fails for a value, another is decided."""
    cluster = Cluster(3)
    lost = cluster.strong(0, "append", "lost")
    cluster.drop()
    cluster.crash(0)
    cluster.hold(Prepare)
    cluster.settle()
    prepare = cluster.pending(Prepare, sender=1, to=2)[0].message
    assert isinstance(prepare, Prepare)
    cluster.drop(Prepare)
    cluster.release()
    # The dead leader's last word: it had accepted what nobody else will ever receive.
    last_word = Promise(prepare.ballot, 0, (AcceptedValue(0, Ballot(1, 0), (lost,)),))
    cluster.inject(last_word, sender=0, to=1)
    id = cluster.strong(1, "append", "a")
    cluster.settle(20)
    assert cluster.cab_delivered(1) == []

    cluster.settle(60)

    assert cluster.cab_delivered(1) == cluster.cab_delivered(2) == [id]


# --- uniform validity --------------------------------------------------------------------------


def test_votes_alone_decide_nothing() -> None:
    """Uniform validity: "if a process decides v, then (v, rcv) was proposed by some process"."""
    cluster, ids = acceptor()
    for voter in (0, 2):
        cluster.inject(Vote(LOW, 0), sender=voter, to=1)
    assert decisions(cluster, 1) == []

    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)

    assert decisions(cluster, 1) == [(0, (ids[0],))]


def test_a_proposal_that_no_majority_votes_for_is_not_decided() -> None:
    """Uniform validity and agreement: a proposal is not yet a decision."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)
    cluster.inject(Vote(LOW, 0), sender=0, to=1)
    assert decisions(cluster, 1) == []

    cluster.inject(Vote(LOW, 0), sender=3, to=1)

    assert decisions(cluster, 1) == [(0, (ids[0],))]


def test_a_voter_counts_once() -> None:
    """A majority is one of replicas, not of messages."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)
    for _ in range(3):
        cluster.inject(Vote(LOW, 0), sender=0, to=1)

    assert decisions(cluster, 1) == []


def test_a_stranger_does_not_count() -> None:
    """A majority is one of the members."""
    cluster, ids = acceptor(3)
    cluster.inject(Accept(LOW, 0, (ids[0], Dot(0, 1))), sender=0, to=1)
    cluster.inject(Vote(LOW, 0), sender=0, to=1)
    cluster.inject(Vote(LOW, 0), sender=99, to=1)

    assert decisions(cluster, 1) == []
    assert sum(cluster.refused(1).values()) == 1


def test_votes_of_different_ballots_do_not_add_up() -> None:
    """Each ballot has its own value: two halves of two majorities are no majority."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)
    cluster.inject(Accept(HIGH, 0, (ids[1],)), sender=2, to=1)
    cluster.inject(Vote(LOW, 0), sender=0, to=1)
    cluster.inject(Vote(HIGH, 0), sender=2, to=1)
    assert decisions(cluster, 1) == []

    cluster.inject(Vote(HIGH, 0), sender=3, to=1)

    assert decisions(cluster, 1) == [(0, (ids[1],))]


# --- uniform integrity -------------------------------------------------------------------------


def test_a_decision_is_taken_once() -> None:
    """Uniform integrity: "every process decides at most once"."""
    cluster, ids = acceptor()
    cluster.inject(Decisions(0, ((ids[0],),)), sender=0, to=1)

    cluster.inject(Decisions(0, ((ids[0],),)), sender=2, to=1)
    for voter in (0, 2):
        cluster.inject(Vote(LOW, 0), sender=voter, to=1)
    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)

    assert decisions(cluster, 1) == [(0, (ids[0],))]


def test_a_later_proposal_does_not_change_a_decision() -> None:
    """Uniform integrity: whoever proposes for a decided instance is told the decision instead."""
    cluster, ids = acceptor()
    cluster.inject(Decisions(0, ((ids[0],),)), sender=0, to=1)

    cluster.inject(Accept(HIGH, 0, (ids[1],)), sender=2, to=1)

    assert decisions(cluster, 1) == [(0, (ids[0],))]
    assert sent(cluster, Vote, 1) == []
    assert sent(cluster, Decisions, 1) == [Decisions(0, ((ids[0],),))]


def test_a_decision_survives_a_restart() -> None:
    """Uniform integrity: who decided does not decide again."""
    cluster = Cluster(3)
    id = cluster.strong(1, "append", "a")
    cluster.flush()
    before = decisions(cluster, 1)
    cluster.crash(1)
    cluster.restart(1)
    cluster.settle()

    assert cluster.committed(1) == [id]
    assert decisions(cluster, 1) == before


# --- uniform agreement -------------------------------------------------------------------------


def test_what_one_process_decided_alone_every_later_leader_decides_too() -> None:
    """Uniform agreement: "no two processes (correct or not) decide a different value"."""
    cluster = Cluster(5)
    for learner in (1, 2, 3, 4):
        cluster.hold(Vote, to=learner)
    cluster.hold(Accept, to=3)
    cluster.hold(Accept, to=4)
    first = cluster.strong(0, "append", "first")
    cluster.flush()
    assert decisions(cluster, 0) == [(0, (first,))]
    cluster.drop(Vote)
    cluster.drop(Accept)
    cluster.release()
    cluster.crash(0)

    # Replica 3 did not accept it, and is the only one that is heard by enough to lead.
    for mute in (1, 2, 4):
        for deaf in {1, 2, 4} - {mute}:
            cluster.hold(Heartbeat, sender=mute, to=deaf)
    second = cluster.strong(3, "append", "second")
    cluster.settle()
    assert cluster.leaders() >= {3}

    assert [decisions(cluster, each)[0] for each in (1, 2, 3, 4)] == [(0, (first,))] * 4
    assert cluster.cab_delivered(3) == [first, second]


def test_two_leaders_at_once_do_not_decide_differently() -> None:
    """Uniform agreement: the old leader's proposals find no majority any more."""
    cluster = Cluster(5)
    cluster.partition({0, 1}, {2, 3, 4})
    cluster.strong(0, "append", "old")
    cluster.settle()
    new = cluster.strong(3, "append", "new")
    cluster.settle()
    assert decisions(cluster, 0) == []
    assert decisions(cluster, 3)[-1][1] == (new,)

    cluster.heal()
    cluster.settle()

    assert len({tuple(sorted(decisions(cluster, each))) for each in cluster.members}) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_on_every_schedule_each_instance_delivers_the_same_everywhere(seed: int) -> None:
    """Uniform agreement, seen through what the decisions of all incarnations deliver."""
    decided: dict[int, list[Dot]] = {}
    for log in run(seed).history.logs:
        delivered: dict[int, list[Dot]] = {}
        for event in (each.event for each in log.events):
            if isinstance(event, CabDelivered):
                delivered.setdefault(event.instance, []).append(event.id)
        for instance, ids in delivered.items():
            known = decided.setdefault(instance, ids)
            shorter, longer = sorted((known, ids), key=len)  # a crash may cut a delivery short
            assert longer[: len(shorter)] == shorter
            decided[instance] = longer


# --- no loss -----------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [3, 4, 5])
def test_when_a_value_is_decided_a_majority_has_its_messages_on_disk(replicas: int) -> None:
    """No loss: "if a process decides v at time t, then for one correct process rcv(v) = true"."""
    cluster = Cluster(replicas)
    id = cluster.strong(1, "append", "a")
    while not any(decisions(cluster, each) for each in cluster.members):
        cluster.deliver_next()

    holders = [
        replica
        for replica in cluster.members
        if Received(cluster.requests[id]) in cluster.on_disk(replica, Received)
    ]
    assert len(holders) >= replicas // 2 + 1


def test_nothing_is_decided_as_long_as_only_a_minority_has_the_messages() -> None:
    """No loss: the leader has the request, and the others only its identifier."""
    cluster = Cluster(5)
    cluster.hold(Cast, to=2)
    cluster.hold(Cast, to=3)
    cluster.hold(Cast, to=4)
    id = cluster.strong(1, "append", "a")
    cluster.flush()
    assert cluster.tentative(0) == cluster.tentative(1) == [id]
    assert [decisions(cluster, each) for each in cluster.members] == [[]] * 5

    cluster.deliver(Cast, to=3)
    cluster.flush()

    assert decisions(cluster, 1) == [(0, (id,))]


def test_what_was_decided_can_be_had_after_any_minority_is_gone() -> None:
    """No loss, put to use: the decided request outlives all who first had it but one."""
    cluster = Cluster(5)
    cluster.hold(Cast, to=3)
    cluster.hold(Cast, to=4)
    id = cluster.strong(0, "append", "a")
    cluster.flush()
    assert cluster.answers(id) == [(TENTATIVE, 1), (STABLE, 1)]
    cluster.drop(Cast)
    cluster.release()
    cluster.crash(0)
    cluster.crash(1)

    cluster.settle()

    assert [cluster.cab_delivered(each) for each in (2, 3, 4)] == [[id]] * 3
    assert [cluster.listed(each) for each in (2, 3, 4)] == [["a"]] * 3


# --- votes -------------------------------------------------------------------------------------


def test_a_vote_waits_for_the_messages_and_is_then_cast() -> None:
    """Section 5: `rcv(v)` and `q(m)` "for each CAB-cast message m, whose identifier is in v"."""
    cluster = Cluster(3, led=False)
    weak = cluster.weak(0, "append", "w")
    cluster.deliver(Cast, to=2)
    strong = cluster.strong(2, "append", "s")
    cluster.inject(Accept(LOW, 0, (strong,)), sender=0, to=1)
    assert sent(cluster, Vote, 1) == []
    cluster.deliver(Cast, to=1, carrying=strong)
    assert sent(cluster, Vote, 1) == []
    assert cluster.on_disk(1, Accepted) == []

    cluster.deliver(Cast, to=1, carrying=weak)

    assert sent(cluster, Vote, 1) == [Vote(LOW, 0)]
    assert [each.receiver for each in cluster.pending(Vote, sender=1)] == [0, 2]


def test_a_vote_waits_for_every_id_of_the_batch() -> None:
    """Section 5: the conjunction is over all of v."""
    cluster = Cluster(3, led=False)
    ids = [cluster.strong(replica, "append", replica) for replica in (0, 2)]
    cluster.deliver(Cast, to=1, carrying=ids[0])
    cluster.inject(Accept(LOW, 0, tuple(ids)), sender=0, to=1)
    assert sent(cluster, Vote, 1) == []

    cluster.deliver(Cast, to=1, carrying=ids[1])

    assert sent(cluster, Vote, 1) == [Vote(LOW, 0)]


def test_a_deferred_vote_does_not_hold_up_other_instances() -> None:
    """Instances are independent; only delivery is in their order."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(LOW, 0, (Dot(3, 1),)), sender=0, to=1)
    cluster.inject(Accept(LOW, 1, (ids[0],)), sender=0, to=1)

    assert sent(cluster, Vote, 1) == [Vote(LOW, 1)]


def test_a_deferred_vote_is_void_once_a_higher_ballot_is_promised() -> None:
    """A promise binds votes that were asked for before it, too."""
    cluster = Cluster(3, led=False)
    id = cluster.strong(2, "append", "a")
    cluster.inject(Accept(LOW, 0, (id,)), sender=0, to=1)
    cluster.inject(Prepare(HIGH, 0), sender=2, to=1)

    cluster.deliver(Cast, to=1)

    assert sent(cluster, Vote, 1) == []
    assert sent(cluster, Promise, 1) == [Promise(HIGH, 0, ())]


def test_a_deferred_vote_gives_way_to_one_of_a_higher_ballot() -> None:
    """Of two proposals that waited for the same request only the later one may be voted for."""
    cluster = Cluster(3, led=False)
    id = cluster.strong(2, "append", "a")
    cluster.inject(Accept(LOW, 0, (id,)), sender=0, to=1)
    cluster.inject(Accept(HIGH, 0, (id,)), sender=2, to=1)

    cluster.deliver(Cast, to=1)

    assert sent(cluster, Vote, 1) == [Vote(HIGH, 0)]


def test_a_vote_is_on_disk_before_it_is_told() -> None:
    """Multi-Paxos: what an acceptor said it accepted it must know after a crash."""
    cluster, ids = acceptor()
    replica = cluster.replicas[1]
    replica.receive(Accept(LOW, 0, (ids[0],)), 0, cluster.now_us)
    effects = replica.take_effects()

    assert Accepted(AcceptedValue(0, LOW, (ids[0],))) in effects.persist
    assert [each.message for each in effects.send] == [Vote(LOW, 0)]


def test_asked_again_an_acceptor_votes_again_the_same_way() -> None:
    """A repeated `Accept` is answered, and accepted no second time."""
    cluster, ids = acceptor(5)
    for _ in range(2):
        cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)

    assert [each.message for each in cluster.pending(Vote, to=0)] == [Vote(LOW, 0)] * 2
    assert len(cluster.on_disk(1, Accepted)) == 1


# --- ballots -----------------------------------------------------------------------------------


def test_a_proposal_in_a_lower_ballot_is_rejected() -> None:
    """Multi-Paxos: no vote below the promised ballot."""
    cluster, ids = acceptor(5)
    cluster.inject(Prepare(HIGH, 0), sender=2, to=1)

    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)

    assert sent(cluster, Vote, 1) == []
    assert sent(cluster, Reject, 1) == [Reject(HIGH)]
    assert cluster.on_disk(1, Accepted) == []


def test_a_lower_ballot_is_not_promised() -> None:
    """Multi-Paxos: no promise below the promised ballot."""
    cluster, _ = acceptor()
    cluster.inject(Prepare(HIGH, 0), sender=2, to=1)
    cluster.in_flight.clear()

    cluster.inject(Prepare(LOW, 0), sender=0, to=1)

    assert sent(cluster, Promise, 1) == []
    assert sent(cluster, Reject, 1) == [Reject(HIGH)]


def test_a_vote_promises_its_ballot() -> None:
    """Multi-Paxos: whoever voted in a ballot neither votes nor promises below it."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(HIGH, 0, (ids[0],)), sender=2, to=1)
    cluster.in_flight.clear()

    cluster.inject(Prepare(LOW, 0), sender=0, to=1)
    cluster.inject(Accept(LOW, 1, (ids[1],)), sender=0, to=1)

    assert sent(cluster, Promise, 1) == sent(cluster, Vote, 1) == []
    assert sent(cluster, Reject, 1) == [Reject(HIGH)]


def test_the_promised_ballot_itself_may_be_voted_for() -> None:
    """Multi-Paxos: "below" is strict."""
    cluster, ids = acceptor(5)
    cluster.inject(Prepare(HIGH, 0), sender=2, to=1)

    cluster.inject(Accept(HIGH, 0, (ids[0],)), sender=2, to=1)

    assert sent(cluster, Vote, 1) == [Vote(HIGH, 0)]


def test_a_promise_tells_what_was_accepted() -> None:
    """Phase 1b, from the instance that was asked for."""
    cluster, ids = acceptor(5)
    for instance in range(3):
        cluster.inject(Accept(LOW, instance, (ids[instance],)), sender=0, to=1)

    cluster.inject(Prepare(HIGH, 1), sender=2, to=1)

    accepted = tuple(AcceptedValue(each, LOW, (ids[each],)) for each in (1, 2))
    assert sent(cluster, Promise, 1) == [Promise(HIGH, 0, accepted)]


def test_a_promise_is_on_disk_before_it_is_told() -> None:
    """Multi-Paxos: what an acceptor promised it must know after a crash."""
    cluster, _ = acceptor()
    replica = cluster.replicas[1]
    replica.receive(Prepare(HIGH, 0), 2, cluster.now_us)
    effects = replica.take_effects()

    assert effects.persist == (Promised(HIGH),)
    assert [each.message for each in effects.send] == [Promise(HIGH, 0, ())]


def test_a_promise_survives_a_restart() -> None:
    """Multi-Paxos: a promise binds for ever."""
    cluster, ids = acceptor(5)
    cluster.inject(Prepare(HIGH, 0), sender=2, to=1)
    cluster.crash(1)
    cluster.restart(1)
    cluster.in_flight.clear()

    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)
    cluster.inject(Prepare(LOW, 0), sender=0, to=1)

    assert sent(cluster, Vote, 1) == sent(cluster, Promise, 1) == []
    assert sent(cluster, Reject, 1) == [Reject(HIGH)]


def test_a_vote_survives_a_restart() -> None:
    """Multi-Paxos: what was accepted is told to every later candidate, and binds below it."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)
    cluster.crash(1)
    cluster.restart(1)
    cluster.in_flight.clear()

    cluster.inject(Prepare(HIGH, 0), sender=2, to=1)

    accepted = (AcceptedValue(0, LOW, (ids[0],)),)
    assert sent(cluster, Promise, 1) == [Promise(HIGH, 0, accepted)]


def test_a_replica_does_not_use_a_ballot_of_its_own_twice() -> None:
    """Multi-Paxos: a ballot has one proposer and one proposal per instance, across restarts."""
    cluster = Cluster(3)
    (own,) = cluster.on_disk(0, Promised)
    assert isinstance(own, Promised)
    cluster.crash(0)
    cluster.restart(0)
    cluster.in_flight.clear()

    assert candidate(cluster) > own.ballot


# --- recovery of accepted values ---------------------------------------------------------------


def test_a_candidate_proposes_nothing_before_a_majority_has_promised() -> None:
    """Multi-Paxos: with two of five promises, its own included, nothing may be proposed."""
    cluster = Cluster(5, led=False)
    cluster.strong(0, "append", "a")
    ballot = candidate(cluster)
    cluster.inject(Promise(ballot, 0, ()), sender=1, to=0)
    cluster.inject(Promise(ballot, 0, ()), sender=1, to=0)
    assert sent(cluster, Accept, 0) == []

    cluster.inject(Promise(ballot, 0, ()), sender=2, to=0)

    assert sent(cluster, Accept, 0) == [Accept(ballot, 0, (Dot(0, 1),))]


def test_a_promise_for_another_ballot_does_not_count() -> None:
    """Multi-Paxos: a promise is for one ballot."""
    cluster = Cluster(3, led=False)
    cluster.strong(0, "append", "a")
    ballot = candidate(cluster)

    cluster.inject(Promise(Ballot(ballot.round - 1, 0), 0, ()), sender=1, to=0)

    assert sent(cluster, Accept, 0) == []


def test_a_new_leader_proposes_again_what_was_accepted_in_the_highest_ballot() -> None:
    """Multi-Paxos: a value that may have been decided is the only one that is safe."""
    cluster = Cluster(5, led=False)
    low, high = (Dot(4, 1),), (Dot(3, 1),)
    ballot = candidate(cluster)
    cluster.inject(Promise(ballot, 0, (AcceptedValue(0, HIGH, high),)), sender=1, to=0)
    cluster.inject(Promise(ballot, 0, (AcceptedValue(0, LOW, low),)), sender=2, to=0)

    assert sent(cluster, Accept, 0) == [Accept(ballot, 0, high)]


def test_a_new_leader_proposes_again_what_it_accepted_itself() -> None:
    """Multi-Paxos: its own promise counts like any other."""
    cluster = Cluster(5, led=False)
    id = cluster.strong(1, "append", "a")
    cluster.deliver(Cast, to=0)
    cluster.inject(Accept(Ballot(1, 1), 0, (id,)), sender=1, to=0)
    ballot = candidate(cluster)
    for peer in (2, 3):
        cluster.inject(Promise(ballot, 0, ()), sender=peer, to=0)

    assert sent(cluster, Accept, 0) == [Accept(ballot, 0, (id,))]


def test_a_new_leader_closes_gaps_below_what_was_accepted() -> None:
    """Multi-Paxos: delivery is in the order of instances, so none may stay open."""
    cluster = Cluster(5, led=False)
    ballot = candidate(cluster)
    value = AcceptedValue(2, LOW, (Dot(4, 1),))
    cluster.inject(Promise(ballot, 0, (value,)), sender=1, to=0)
    cluster.inject(Promise(ballot, 0, ()), sender=2, to=0)

    assert sent(cluster, Accept, 0) == [
        Accept(ballot, 0, ()),
        Accept(ballot, 1, ()),
        Accept(ballot, 2, (Dot(4, 1),)),
    ]


def test_a_new_leader_proposes_new_requests_above_what_it_recovers() -> None:
    """Multi-Paxos: an instance whose value is bound is not used for another one."""
    cluster = Cluster(5, led=False)
    id = cluster.strong(0, "append", "a")
    ballot = candidate(cluster)
    value = AcceptedValue(0, LOW, (Dot(4, 1),))
    cluster.inject(Promise(ballot, 0, (value,)), sender=1, to=0)
    cluster.inject(Promise(ballot, 0, ()), sender=2, to=0)

    assert sent(cluster, Accept, 0) == [
        Accept(ballot, 0, (Dot(4, 1),)),
        Accept(ballot, 1, (id,)),
    ]


def test_a_new_leader_does_not_propose_where_others_have_decided() -> None:
    """Multi-Paxos: a promise tells how far its sender knows decisions."""
    cluster = Cluster(5, led=False)
    id = cluster.strong(0, "append", "a")
    ballot = candidate(cluster)
    cluster.inject(Promise(ballot, 6, ()), sender=1, to=0)
    cluster.inject(Promise(ballot, 0, ()), sender=2, to=0)
    assert sent(cluster, Accept, 0) == []
    assert sent(cluster, CatchUp, 0) == [CatchUp(0)]

    cluster.inject(Decisions(0, ((),) * 6), sender=1, to=0)

    assert sent(cluster, Accept, 0) == [Accept(ballot, 6, (id,))]


def test_a_leader_that_is_outbid_proposes_no_more() -> None:
    """Multi-Paxos: a leader that hears of a higher ballot stops using its own."""
    cluster = Cluster(3)
    cluster.inject(Reject(Ballot(9, 2)), sender=2, to=0)

    cluster.strong(0, "append", "a")

    assert sent(cluster, Accept, 0) == []


def test_what_a_minority_accepted_is_recovered_when_one_of_it_is_asked() -> None:
    """Multi-Paxos end to end: the leader and one other accepted, then the leader died."""
    cluster = Cluster(5)
    for missed in (2, 3, 4):
        cluster.hold(Accept, to=missed)
    first = cluster.strong(0, "append", "first")
    cluster.flush()
    assert [decisions(cluster, each) for each in cluster.members] == [[]] * 5
    cluster.drop(Accept)
    cluster.release()
    cluster.crash(0)
    second = cluster.strong(1, "append", "second")

    cluster.settle()

    assert cluster.leaders() == {1}
    assert [cluster.cab_delivered(each) for each in (1, 2, 3, 4)] == [[first, second]] * 4
