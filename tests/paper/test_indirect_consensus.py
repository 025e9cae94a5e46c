"""Section 5: indirect consensus, as Multi-Paxos on batches of identifiers.

Some tests need an acceptor or a learner in a certain state. They inject the messages of the other
members, and observe replica 1 of a cluster without a leader.
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
    """Return a cluster without a leader whose replica 1 has received three strong requests."""
    cluster = Cluster(replicas, with_leader=False)
    ids = [cluster.strong(2, "append", each) for each in range(3)]
    cluster.deliver(Cast, to=1)
    cluster.in_flight.clear()
    return cluster, ids


def candidate(cluster: Cluster) -> Ballot:
    """Let replica 0 start a ballot above all ballots of its peers, and drop its `Prepare`."""
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
    """Return the distinct messages that `sender` has in flight."""
    messages: list[Message] = []
    for each in cluster.pending(kind, sender=sender):
        if each.message not in messages:
            messages.append(each.message)
    return messages


def decisions(cluster: Cluster, replica: int) -> list[tuple[int, Batch]]:
    """Return the decisions of the replica, in the order in which it made them."""
    decided = []
    for record in cluster.on_disk(replica, Decided):
        assert isinstance(record, Decided)
        decided.append((record.instance, record.batch))
    return decided


# --- termination -------------------------------------------------------------------------------


@pytest.mark.parametrize(("replicas", "crashed"), [(3, 1), (4, 1), (5, 2), (7, 3)])
def test_all_live_replicas_decide_if_a_majority_is_up(replicas: int, crashed: int) -> None:
    """Termination: "every correct process eventually decides some value"."""
    cluster = Cluster(replicas)
    for replica in range(crashed):
        cluster.crash(replica)
    id = cluster.strong(replicas - 1, "append", "a")

    cluster.settle()

    for replica in cluster.replicas:
        assert (id,) in [batch for _, batch in decisions(cluster, replica)]


@pytest.mark.parametrize(("replicas", "crashed"), [(3, 2), (4, 2), (5, 3), (2, 1)])
def test_no_replica_decides_without_a_majority(replicas: int, crashed: int) -> None:
    """Section 3.4: consensus needs Ω and a majority; half of the replicas is not a majority."""
    cluster = Cluster(replicas)
    for replica in range(1, crashed + 1):
        cluster.crash(replica)
    cluster.strong(0, "append", "a")

    cluster.settle(100)

    for replica in cluster.replicas:
        assert decisions(cluster, replica) == []


def test_a_proposal_lost_with_its_leader_does_not_block_consensus() -> None:
    """Termination: no other replica could vote for the proposal, so none has accepted it."""
    cluster = Cluster(3)
    lost = cluster.strong(0, "append", "lost")
    cluster.drop(Cast)
    cluster.flush()
    cluster.crash(0)
    id = cluster.strong(1, "append", "a")

    cluster.settle()

    assert cluster.cab_delivered(1) == cluster.cab_delivered(2) == [id]
    assert lost not in cluster.tentative(1)


def test_an_instance_without_possible_votes_is_abandoned() -> None:
    """Termination: if eventual stable evaluation fails for a value, another one is decided."""
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
    # The dead leader had accepted a request that no other replica will ever receive.
    last_promise = Promise(prepare.ballot, 0, (AcceptedValue(0, Ballot(1, 0), (lost,)),))
    cluster.inject(last_promise, sender=0, to=1)
    id = cluster.strong(1, "append", "a")
    cluster.settle(20)
    assert cluster.cab_delivered(1) == []

    cluster.settle(60)

    assert cluster.cab_delivered(1) == cluster.cab_delivered(2) == [id]


# --- uniform validity --------------------------------------------------------------------------


def test_votes_without_a_proposal_decide_nothing() -> None:
    """Uniform validity: "if a process decides v, then (v, rcv) was proposed by some process"."""
    cluster, ids = acceptor()
    for voter in (0, 2):
        cluster.inject(Vote(LOW, 0), sender=voter, to=1)
    assert decisions(cluster, 1) == []

    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)

    assert decisions(cluster, 1) == [(0, (ids[0],))]


def test_a_proposal_without_a_majority_of_votes_is_not_decided() -> None:
    """Uniform validity and agreement: a proposal is not yet a decision."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)
    cluster.inject(Vote(LOW, 0), sender=0, to=1)
    assert decisions(cluster, 1) == []

    cluster.inject(Vote(LOW, 0), sender=3, to=1)

    assert decisions(cluster, 1) == [(0, (ids[0],))]


def test_repeated_votes_of_one_replica_count_once() -> None:
    """A majority consists of replicas, not of messages."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)
    for _ in range(3):
        cluster.inject(Vote(LOW, 0), sender=0, to=1)

    assert decisions(cluster, 1) == []


def test_votes_of_non_members_do_not_count() -> None:
    """A majority consists of members."""
    cluster, ids = acceptor(3)
    cluster.inject(Accept(LOW, 0, (ids[0], Dot(0, 1))), sender=0, to=1)
    cluster.inject(Vote(LOW, 0), sender=0, to=1)
    cluster.inject(Vote(LOW, 0), sender=99, to=1)

    assert decisions(cluster, 1) == []
    assert sum(cluster.rejected(1).values()) == 1


def test_votes_of_different_ballots_do_not_add_up() -> None:
    """Each ballot has its own value, so votes of two ballots do not form a majority."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)
    cluster.inject(Accept(HIGH, 0, (ids[1],)), sender=2, to=1)
    cluster.inject(Vote(LOW, 0), sender=0, to=1)
    cluster.inject(Vote(HIGH, 0), sender=2, to=1)
    assert decisions(cluster, 1) == []

    cluster.inject(Vote(HIGH, 0), sender=3, to=1)

    assert decisions(cluster, 1) == [(0, (ids[1],))]


# --- uniform integrity -------------------------------------------------------------------------


def test_an_instance_is_decided_once() -> None:
    """Uniform integrity: "every process decides at most once"."""
    cluster, ids = acceptor()
    cluster.inject(Decisions(0, ((ids[0],),)), sender=0, to=1)

    cluster.inject(Decisions(0, ((ids[0],),)), sender=2, to=1)
    for voter in (0, 2):
        cluster.inject(Vote(LOW, 0), sender=voter, to=1)
    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)

    assert decisions(cluster, 1) == [(0, (ids[0],))]


def test_a_later_proposal_does_not_change_a_decision() -> None:
    """Uniform integrity: the proposer for a decided instance receives the decision instead."""
    cluster, ids = acceptor()
    cluster.inject(Decisions(0, ((ids[0],),)), sender=0, to=1)

    cluster.inject(Accept(HIGH, 0, (ids[1],)), sender=2, to=1)

    assert decisions(cluster, 1) == [(0, (ids[0],))]
    assert sent(cluster, Vote, 1) == []
    assert sent(cluster, Decisions, 1) == [Decisions(0, ((ids[0],),))]


def test_a_decision_survives_a_restart() -> None:
    """Uniform integrity: a restarted replica does not decide again."""
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


def test_later_leaders_decide_the_value_that_one_process_decided() -> None:
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

    # Replica 3 did not accept the value, and only its heartbeats reach a majority.
    for sender in (1, 2, 4):
        for receiver in {1, 2, 4} - {sender}:
            cluster.hold(Heartbeat, sender=sender, to=receiver)
    second = cluster.strong(3, "append", "second")
    cluster.settle()
    assert cluster.leaders() >= {3}

    assert [decisions(cluster, each)[0] for each in (1, 2, 3, 4)] == [(0, (first,))] * 4
    assert cluster.cab_delivered(3) == [first, second]


def test_concurrent_leaders_do_not_decide_differently() -> None:
    """Uniform agreement: the proposals of the old leader no longer get a majority."""
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
def test_every_schedule_delivers_each_instance_alike_at_all_replicas(seed: int) -> None:
    """Uniform agreement, observed through the deliveries of all incarnations."""
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
def test_a_majority_has_the_messages_of_a_decision_on_disk(replicas: int) -> None:
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


def test_no_decision_while_only_a_minority_has_the_messages() -> None:
    """No loss: the leader has the request, and the others have only its identifier."""
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


def test_a_decided_request_survives_the_loss_of_any_minority() -> None:
    """No loss, applied: one replica remains of those that first had the decided request."""
    cluster = Cluster(5)
    cluster.hold(Cast, to=3)
    cluster.hold(Cast, to=4)
    id = cluster.strong(0, "append", "a")
    cluster.flush()
    assert cluster.responses_to(id) == [(TENTATIVE, 1), (STABLE, 1)]
    cluster.drop(Cast)
    cluster.release()
    cluster.crash(0)
    cluster.crash(1)

    cluster.settle()

    assert [cluster.cab_delivered(each) for each in (2, 3, 4)] == [[id]] * 3
    assert [cluster.state_values(each) for each in (2, 3, 4)] == [["a"]] * 3


# --- votes -------------------------------------------------------------------------------------


def test_a_vote_waits_for_the_messages() -> None:
    """Section 5: `rcv(v)` and `q(m)` "for each CAB-cast message m, whose identifier is in v"."""
    cluster = Cluster(3, with_leader=False)
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
    """Section 5: the conjunction is over all identifiers of v."""
    cluster = Cluster(3, with_leader=False)
    ids = [cluster.strong(replica, "append", replica) for replica in (0, 2)]
    cluster.deliver(Cast, to=1, carrying=ids[0])
    cluster.inject(Accept(LOW, 0, tuple(ids)), sender=0, to=1)
    assert sent(cluster, Vote, 1) == []

    cluster.deliver(Cast, to=1, carrying=ids[1])

    assert sent(cluster, Vote, 1) == [Vote(LOW, 0)]


def test_a_deferred_vote_does_not_delay_other_instances() -> None:
    """Instances are independent; only their deliveries are ordered."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(LOW, 0, (Dot(3, 1),)), sender=0, to=1)
    cluster.inject(Accept(LOW, 1, (ids[0],)), sender=0, to=1)

    assert sent(cluster, Vote, 1) == [Vote(LOW, 1)]


def test_a_deferred_vote_is_void_once_a_higher_ballot_is_promised() -> None:
    """A promise also applies to votes that were requested before it."""
    cluster = Cluster(3, with_leader=False)
    id = cluster.strong(2, "append", "a")
    cluster.inject(Accept(LOW, 0, (id,)), sender=0, to=1)
    cluster.inject(Prepare(HIGH, 0), sender=2, to=1)

    cluster.deliver(Cast, to=1)

    assert sent(cluster, Vote, 1) == []
    assert sent(cluster, Promise, 1) == [Promise(HIGH, 0, ())]


def test_a_deferred_vote_is_replaced_by_one_of_a_higher_ballot() -> None:
    """Of two proposals that waited for the same request, only the later one gets a vote."""
    cluster = Cluster(3, with_leader=False)
    id = cluster.strong(2, "append", "a")
    cluster.inject(Accept(LOW, 0, (id,)), sender=0, to=1)
    cluster.inject(Accept(HIGH, 0, (id,)), sender=2, to=1)

    cluster.deliver(Cast, to=1)

    assert sent(cluster, Vote, 1) == [Vote(HIGH, 0)]


def test_a_vote_is_persisted_before_it_is_sent() -> None:
    """Multi-Paxos: an acceptor must know its votes after a crash."""
    cluster, ids = acceptor()
    replica = cluster.replicas[1]
    replica.receive(Accept(LOW, 0, (ids[0],)), 0, cluster.now_us)
    effects = replica.take_effects()

    assert Accepted(AcceptedValue(0, LOW, (ids[0],))) in effects.persist
    assert [each.message for each in effects.send] == [Vote(LOW, 0)]


def test_a_repeated_accept_gets_the_same_vote() -> None:
    """A repeated `Accept` gets a vote, and is not accepted a second time."""
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
    """Multi-Paxos: an acceptor neither votes nor promises below a ballot in which it has voted."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(HIGH, 0, (ids[0],)), sender=2, to=1)
    cluster.in_flight.clear()

    cluster.inject(Prepare(LOW, 0), sender=0, to=1)
    cluster.inject(Accept(LOW, 1, (ids[1],)), sender=0, to=1)

    assert sent(cluster, Promise, 1) == sent(cluster, Vote, 1) == []
    assert sent(cluster, Reject, 1) == [Reject(HIGH)]


def test_an_acceptor_votes_in_the_promised_ballot() -> None:
    """Multi-Paxos: "below" is strict."""
    cluster, ids = acceptor(5)
    cluster.inject(Prepare(HIGH, 0), sender=2, to=1)

    cluster.inject(Accept(HIGH, 0, (ids[0],)), sender=2, to=1)

    assert sent(cluster, Vote, 1) == [Vote(HIGH, 0)]


def test_a_promise_contains_the_accepted_values() -> None:
    """Phase 1b, from the requested instance on."""
    cluster, ids = acceptor(5)
    for instance in range(3):
        cluster.inject(Accept(LOW, instance, (ids[instance],)), sender=0, to=1)

    cluster.inject(Prepare(HIGH, 1), sender=2, to=1)

    accepted = tuple(AcceptedValue(each, LOW, (ids[each],)) for each in (1, 2))
    assert sent(cluster, Promise, 1) == [Promise(HIGH, 0, accepted)]


def test_a_promise_is_persisted_before_it_is_sent() -> None:
    """Multi-Paxos: an acceptor must know its promises after a crash."""
    cluster, _ = acceptor()
    replica = cluster.replicas[1]
    replica.receive(Prepare(HIGH, 0), 2, cluster.now_us)
    effects = replica.take_effects()

    assert effects.persist == (Promised(HIGH),)
    assert [each.message for each in effects.send] == [Promise(HIGH, 0, ())]


def test_a_promise_survives_a_restart() -> None:
    """Multi-Paxos: a promise is permanent."""
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
    """Multi-Paxos: every later promise contains the accepted value."""
    cluster, ids = acceptor(5)
    cluster.inject(Accept(LOW, 0, (ids[0],)), sender=0, to=1)
    cluster.crash(1)
    cluster.restart(1)
    cluster.in_flight.clear()

    cluster.inject(Prepare(HIGH, 0), sender=2, to=1)

    accepted = (AcceptedValue(0, LOW, (ids[0],)),)
    assert sent(cluster, Promise, 1) == [Promise(HIGH, 0, accepted)]


def test_a_replica_does_not_reuse_its_own_ballot() -> None:
    """Multi-Paxos: a ballot has one proposer and one proposal per instance, across restarts."""
    cluster = Cluster(3)
    (own,) = cluster.on_disk(0, Promised)
    assert isinstance(own, Promised)
    cluster.crash(0)
    cluster.restart(0)
    cluster.in_flight.clear()

    assert candidate(cluster) > own.ballot


# --- recovery of accepted values ---------------------------------------------------------------


def test_a_candidate_proposes_only_after_a_majority_of_promises() -> None:
    """Multi-Paxos: two of five promises, its own included, do not allow a proposal."""
    cluster = Cluster(5, with_leader=False)
    cluster.strong(0, "append", "a")
    ballot = candidate(cluster)
    cluster.inject(Promise(ballot, 0, ()), sender=1, to=0)
    cluster.inject(Promise(ballot, 0, ()), sender=1, to=0)
    assert sent(cluster, Accept, 0) == []

    cluster.inject(Promise(ballot, 0, ()), sender=2, to=0)

    assert sent(cluster, Accept, 0) == [Accept(ballot, 0, (Dot(0, 1),))]


def test_a_promise_for_another_ballot_does_not_count() -> None:
    """Multi-Paxos: a promise is valid for one ballot."""
    cluster = Cluster(3, with_leader=False)
    cluster.strong(0, "append", "a")
    ballot = candidate(cluster)

    cluster.inject(Promise(Ballot(ballot.round - 1, 0), 0, ()), sender=1, to=0)

    assert sent(cluster, Accept, 0) == []


def test_a_new_leader_proposes_the_accepted_value_of_the_highest_ballot() -> None:
    """Multi-Paxos: only a value that may have been decided is safe."""
    cluster = Cluster(5, with_leader=False)
    low, high = (Dot(4, 1),), (Dot(3, 1),)
    ballot = candidate(cluster)
    cluster.inject(Promise(ballot, 0, (AcceptedValue(0, HIGH, high),)), sender=1, to=0)
    cluster.inject(Promise(ballot, 0, (AcceptedValue(0, LOW, low),)), sender=2, to=0)

    assert sent(cluster, Accept, 0) == [Accept(ballot, 0, high)]


def test_a_new_leader_proposes_its_own_accepted_value() -> None:
    """Multi-Paxos: its own promise counts like any other."""
    cluster = Cluster(5, with_leader=False)
    id = cluster.strong(1, "append", "a")
    cluster.deliver(Cast, to=0)
    cluster.inject(Accept(Ballot(1, 1), 0, (id,)), sender=1, to=0)
    ballot = candidate(cluster)
    for peer in (2, 3):
        cluster.inject(Promise(ballot, 0, ()), sender=peer, to=0)

    assert sent(cluster, Accept, 0) == [Accept(ballot, 0, (id,))]


def test_a_new_leader_fills_gaps_below_accepted_instances() -> None:
    """Multi-Paxos: delivery is in the order of instances, so no instance may stay open."""
    cluster = Cluster(5, with_leader=False)
    ballot = candidate(cluster)
    value = AcceptedValue(2, LOW, (Dot(4, 1),))
    cluster.inject(Promise(ballot, 0, (value,)), sender=1, to=0)
    cluster.inject(Promise(ballot, 0, ()), sender=2, to=0)

    assert sent(cluster, Accept, 0) == [
        Accept(ballot, 0, ()),
        Accept(ballot, 1, ()),
        Accept(ballot, 2, (Dot(4, 1),)),
    ]


def test_a_new_leader_proposes_new_requests_above_recovered_instances() -> None:
    """Multi-Paxos: an instance with an accepted value is not used for another one."""
    cluster = Cluster(5, with_leader=False)
    id = cluster.strong(0, "append", "a")
    ballot = candidate(cluster)
    value = AcceptedValue(0, LOW, (Dot(4, 1),))
    cluster.inject(Promise(ballot, 0, (value,)), sender=1, to=0)
    cluster.inject(Promise(ballot, 0, ()), sender=2, to=0)

    assert sent(cluster, Accept, 0) == [
        Accept(ballot, 0, (Dot(4, 1),)),
        Accept(ballot, 1, (id,)),
    ]


def test_a_new_leader_skips_instances_that_others_have_decided() -> None:
    """Multi-Paxos: a promise contains the first instance that its sender has not decided."""
    cluster = Cluster(5, with_leader=False)
    id = cluster.strong(0, "append", "a")
    ballot = candidate(cluster)
    cluster.inject(Promise(ballot, 6, ()), sender=1, to=0)
    cluster.inject(Promise(ballot, 0, ()), sender=2, to=0)
    assert sent(cluster, Accept, 0) == []
    assert sent(cluster, CatchUp, 0) == [CatchUp(0)]

    cluster.inject(Decisions(0, ((),) * 6), sender=1, to=0)

    assert sent(cluster, Accept, 0) == [Accept(ballot, 6, (id,))]


def test_a_leader_stops_proposing_after_a_higher_ballot() -> None:
    """Multi-Paxos: a leader that receives a higher ballot stops using its own."""
    cluster = Cluster(3)
    cluster.inject(Reject(Ballot(9, 2)), sender=2, to=0)

    cluster.strong(0, "append", "a")

    assert sent(cluster, Accept, 0) == []


def test_a_value_accepted_by_a_minority_is_recovered() -> None:
    """Multi-Paxos end to end: the leader and one other replica accepted, then the leader died."""
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
