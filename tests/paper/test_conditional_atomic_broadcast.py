"""Section 3.3: conditional atomic broadcast. The predicate is `checkDep` (line 20)."""

import pytest

from creekdb.checkers import Ok
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Accept, Ballot, Cast, Decisions, Heartbeat, Vote
from tests.paper.harness import STABLE, Cluster
from tests.paper.schedules import SEEDS, run, verdicts

# --- validity ----------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [0, 1, 4])
def test_a_correct_process_delivers_its_own_message(origin: int) -> None:
    """Validity: "then p_i eventually CAB-delivers m", for leaders and followers."""
    cluster = Cluster(5)
    id = cluster.strong(origin, "append", "a")

    cluster.flush()

    assert cluster.cab_delivered(origin) == [id]


@pytest.mark.parametrize("lost", [Cast, Accept, Vote])
def test_the_loss_of_one_kind_of_message_does_not_prevent_delivery(lost: type[object]) -> None:
    """Validity over lossy channels."""
    cluster = Cluster(3)
    cluster.hold(lost)
    id = cluster.strong(1, "append", "a")
    cluster.flush()
    assert cluster.cab_delivered(1) == []
    cluster.drop(lost)
    cluster.release()

    cluster.settle()

    assert [cluster.cab_delivered(each) for each in cluster.members] == [[id]] * 3


def test_a_leader_crash_before_the_proposal_does_not_prevent_delivery() -> None:
    """Validity: the next leader proposes the id."""
    cluster = Cluster(3)
    id = cluster.strong(1, "append", "a")
    cluster.deliver(Cast, to=0)
    cluster.drop(Accept)
    cluster.crash(0)

    cluster.settle()

    assert cluster.cab_delivered(1) == cluster.cab_delivered(2) == [id]


def test_a_message_cast_without_a_leader_is_delivered_after_the_election() -> None:
    """Validity: a cast needs no leader, delivery does."""
    cluster = Cluster(3, with_leader=False)
    id = cluster.strong(2, "append", "a")
    cluster.flush()
    assert cluster.cab_delivered(2) == []

    cluster.settle()

    assert [cluster.cab_delivered(each) for each in cluster.members] == [[id]] * 3


def test_a_single_process_delivers_its_own_message_at_once() -> None:
    """Validity in a cluster of one replica, which is its own majority."""
    cluster = Cluster(1)
    id = cluster.strong(0, "append", "a")

    assert cluster.cab_delivered(0) == [id]
    assert cluster.in_flight == []


# --- uniform integrity -------------------------------------------------------------------------


def test_an_id_decided_twice_is_delivered_once() -> None:
    """Uniform integrity: "every process p_i CAB-delivers m at most once"."""
    cluster = Cluster(3, with_leader=False)
    id = cluster.strong(2, "append", "a")
    other = cluster.strong(2, "append", "b")
    cluster.deliver(Cast, to=1)

    cluster.inject(Decisions(0, ((id,), (id, other))), sender=0, to=1)

    assert cluster.cab_delivered(1) == [id, other]
    assert cluster.committed(1) == [id, other]


def test_an_id_that_was_not_cast_is_not_delivered() -> None:
    """Uniform integrity: "only if (m, q) was previously CAB-cast"."""
    cluster = Cluster(3, with_leader=False)
    ballot = Ballot(1, 0)
    cluster.inject(Accept(ballot, 0, (Dot(2, 7),)), sender=0, to=1)
    for voter in (0, 2):
        cluster.inject(Vote(ballot, 0), sender=voter, to=1)

    assert cluster.cab_delivered(1) == []
    assert cluster.pending(Vote, sender=1) == []


def test_delivery_waits_for_the_predicate_at_each_process() -> None:
    """Uniform integrity: "and q(m) = true at p_i", although the decision arrives first."""
    cluster = Cluster(4)
    weak = cluster.weak(1, "append", "w")
    cluster.hold(Cast, to=3)
    cluster.flush()
    strong = cluster.strong(2, "append", "s")
    cluster.flush()
    assert cluster.cab_delivered(0) == cluster.cab_delivered(2) == [strong]
    assert cluster.cab_delivered(3) == []

    cluster.deliver(Cast, to=3, carrying=strong)
    assert cluster.cab_delivered(3) == []
    cluster.deliver(Cast, to=3, carrying=weak)

    assert cluster.cab_delivered(3) == [strong]
    assert cluster.committed(3) == [weak, strong]


def test_the_predicate_is_evaluated_before_an_acceptor_votes() -> None:
    """Section 4.2: evaluated "(1) when solving distributed consensus on a concrete" id."""
    cluster = Cluster(4)
    weak = cluster.weak(1, "append", "w")
    cluster.hold(Cast, to=3)
    cluster.flush()
    strong = cluster.strong(2, "append", "s")
    cluster.hold(Vote)
    cluster.flush()
    assert {each.sender for each in cluster.pending(Vote)} == {0, 1, 2}

    cluster.deliver(Cast, to=3, carrying=strong)
    assert cluster.pending(Vote, sender=3) == []
    cluster.deliver(Cast, to=3, carrying=weak)

    assert len(cluster.pending(Vote, sender=3)) == 3


def test_the_predicate_is_evaluated_again_before_delivery() -> None:
    """Section 4.2: "(2) after the decision has been reached, in an attempt to CAB-deliver"."""
    cluster = Cluster(3, with_leader=False)
    weak = cluster.weak(0, "append", "w")
    cluster.deliver(Cast, to=2)
    strong = cluster.strong(2, "append", "s")
    cluster.deliver(Cast, to=1, carrying=strong)

    cluster.inject(Decisions(0, ((strong,),)), sender=0, to=1)
    assert cluster.cab_delivered(1) == []
    cluster.deliver(Cast, to=1, carrying=weak)

    assert cluster.cab_delivered(1) == [strong]


def test_the_leader_proposes_only_ids_that_it_can_vote_for() -> None:
    """Section 5: a proposal is a pair (v, rcv), and the proposer is the first to evaluate rcv."""
    cluster = Cluster(4)
    weak = cluster.weak(1, "append", "w")
    cluster.hold(Cast, to=0, carrying=weak)
    cluster.flush()
    strong = cluster.strong(2, "append", "s")
    cluster.flush()
    assert cluster.tentative(2) == [weak, strong]
    assert cluster.pending(Accept) == []
    assert cluster.cab_delivered(2) == []

    cluster.release()
    cluster.flush()

    assert [cluster.cab_delivered(each) for each in cluster.members] == [[strong]] * 4


def test_a_deferred_request_does_not_delay_independent_ones() -> None:
    """Section 3.3: "CAB allows a process to defer the delivery of a message", not of others."""
    cluster = Cluster(4)
    weak = cluster.weak(1, "append", "w")
    cluster.hold(Cast, to=0, carrying=weak)
    cluster.flush()
    waiting = cluster.strong(2, "append", "waiting")
    cluster.deliver(Cast, to=0, carrying=waiting)
    ready = cluster.strong(0, "append", "ready")
    cluster.flush()
    assert cluster.cab_delivered(0) == [ready]

    cluster.release()
    cluster.flush()

    assert cluster.cab_delivered(0) == [ready, waiting]


# --- uniform agreement -------------------------------------------------------------------------


def test_all_correct_processes_deliver() -> None:
    """Uniform agreement: "then all correct processes eventually CAB-deliver m"."""
    cluster = Cluster(5)
    ids = [cluster.strong(each, "append", each) for each in cluster.members]

    cluster.settle()

    for each in cluster.members:
        assert sorted(cluster.cab_delivered(each)) == ids


def test_a_delivery_of_a_crashed_process_is_repeated_by_all() -> None:
    """Uniform agreement: "if a process p_i (correct or faulty) CAB-delivers m"."""
    cluster = Cluster(5)
    cluster.hold(Vote, to=1)
    cluster.hold(Vote, to=2)
    cluster.hold(Vote, to=3)
    cluster.hold(Vote, to=4)
    first = cluster.strong(0, "append", "first")
    cluster.flush()
    assert cluster.responses_to(first)[-1] == (STABLE, 1)
    cluster.drop(Vote)
    cluster.release()
    cluster.crash(0)

    second = cluster.strong(4, "append", "second")
    cluster.settle()

    assert [cluster.cab_delivered(each) for each in (1, 2, 3, 4)] == [[first, second]] * 4


def test_a_process_that_missed_the_decision_catches_up() -> None:
    """Uniform agreement for a process that was partitioned while the others continued."""
    cluster = Cluster(3)
    cluster.partition({0, 1}, {2})
    ids = [cluster.strong(each % 2, "append", each) for each in range(5)]
    cluster.settle()
    assert cluster.cab_delivered(2) == []

    cluster.heal()
    cluster.settle()

    assert cluster.cab_delivered(0) == cluster.cab_delivered(2)
    assert sorted(cluster.cab_delivered(2)) == sorted(ids)


def test_a_restarted_process_delivers_the_messages_that_it_missed() -> None:
    """Uniform agreement for a process that was down in the meantime."""
    cluster = Cluster(3)
    before = cluster.strong(2, "append", "before")
    cluster.flush()
    cluster.crash(2)
    meanwhile = cluster.strong(1, "append", "meanwhile")
    cluster.flush()

    cluster.restart(2)
    cluster.settle()

    assert cluster.cab_delivered(2) == [before, meanwhile]


# --- uniform total order -----------------------------------------------------------------------


def test_concurrent_requests_are_delivered_in_one_order() -> None:
    """Uniform total order, for any order of arrival."""
    cluster = Cluster(4)
    ids = [cluster.strong(each, "append", each) for each in cluster.members]
    for replica in cluster.members:
        for sender in reversed(cluster.members):
            if cluster.pending(Cast, sender=sender, to=replica):
                cluster.deliver(Cast, sender=sender, to=replica)
    cluster.flush()

    order = cluster.cab_delivered(0)
    assert sorted(order) == ids
    assert [cluster.cab_delivered(each) for each in cluster.members] == [order] * 4


def test_a_later_decision_waits_for_an_earlier_one() -> None:
    """Uniform total order: "delivers m′ only after it has CAB-delivered m"."""
    cluster = Cluster(3)
    first = cluster.strong(0, "append", "first")
    cluster.drop(Accept, to=2)
    cluster.flush()
    second = cluster.strong(0, "append", "second")
    cluster.flush()
    assert cluster.cab_delivered(0) == [first, second]
    assert cluster.cab_delivered(2) == []

    cluster.settle()

    assert cluster.cab_delivered(2) == [first, second]


def test_a_delivery_that_waits_for_its_predicate_delays_later_ones() -> None:
    """Uniform total order if q(m) is not yet true but q′(m′) is."""
    cluster = Cluster(4)
    cluster.hold(Cast, to=3)
    first = cluster.strong(1, "append", "first")
    cluster.flush()
    second = cluster.strong(2, "append", "second")
    cluster.flush()
    assert cluster.cab_delivered(0) == [first, second]

    cluster.deliver(Cast, to=3, carrying=second)
    assert cluster.cab_delivered(3) == []
    cluster.deliver(Cast, to=3, carrying=first)

    assert cluster.cab_delivered(3) == [first, second]


def test_the_ids_of_one_batch_are_delivered_in_the_order_of_the_batch() -> None:
    """Section 5: a decision's messages are delivered "in some deterministic order"."""
    cluster = Cluster(3, with_leader=False)
    ids = [cluster.strong(replica, "append", replica) for replica in (0, 1, 2)]
    cluster.deliver(Cast)
    order = (ids[2], ids[0], ids[1])

    for replica in cluster.members:
        cluster.inject(Decisions(0, (order,)), sender=(replica + 1) % 3, to=replica)

    assert [cluster.cab_delivered(each) for each in cluster.members] == [list(order)] * 3


def test_the_order_survives_a_leader_change() -> None:
    """Uniform total order across leaders, one of which no longer receives messages."""
    cluster = Cluster(5)
    first = cluster.strong(3, "append", "first")
    cluster.flush()
    cluster.partition({0}, {1, 2, 3, 4})
    stale = cluster.strong(0, "append", "stale")
    cluster.hold(Heartbeat, to=0)
    cluster.settle()
    second = cluster.strong(4, "append", "second")
    cluster.flush()
    assert cluster.cab_delivered(4) == [first, second]
    assert cluster.cab_delivered(0) == [first]

    cluster.release()
    cluster.heal()
    cluster.settle()

    expected = [first, second, stale]
    assert [cluster.cab_delivered(each) for each in cluster.members] == [expected] * 5


@pytest.mark.parametrize("seed", SEEDS)
def test_every_schedule_satisfies_all_four_properties(seed: int) -> None:
    """Section 3.3 under loss, duplication, reordering, partitions and crashes."""
    assert run(seed).quiescence_failure is None
    for checker in ("conditional_atomic_broadcast", "prefix_order"):
        assert verdicts(seed)[checker] == Ok(checker)
