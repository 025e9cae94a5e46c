"""Section 6.2: the systems that Creek is compared with, and in what they differ from it.

Replica 0 leads, and is Bayou's primary. Where a test counts delays, one `round` is one.
"""

from collections import Counter

import pytest

from creekdb.checkers import Ok, check_all
from creekdb.protocol.effects import CabDelivered, SpeculativelyExecuted
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Accept, Cast, Prepare, Promise, PullResponse, Vote
from creekdb.protocol.probes import Probe
from creekdb.schemes.archie import ArchieReplica
from creekdb.schemes.bayou import BayouReplica
from creekdb.schemes.smr import SmrReplica
from creekdb.simulation.fuzz.campaign import build_fuzz_simulation
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from tests.paper.harness import EXECUTE, FINAL, ROLLBACK, STABLE, TENTATIVE, Cluster, Scheme

ORDERED_FIRST: tuple[Scheme, ...] = (SmrReplica, ArchieReplica)
ALL: tuple[Scheme, ...] = (SmrReplica, BayouReplica, ArchieReplica)
SEQUENTIAL: tuple[Scheme, ...] = (SmrReplica, BayouReplica)
SEEDS = range(0, 24, 2)


def executed(cluster: Cluster, replica: int) -> list[Dot]:
    return [id for work, id in cluster.done[replica] if work is EXECUTE]


def rolled_back(cluster: Cluster, replica: int) -> list[Dot]:
    return [id for work, id in cluster.done[replica] if work is ROLLBACK]


def speculated(cluster: Cluster, replica: int) -> list[Dot]:
    return [each.id for each in cluster.events[replica] if isinstance(each, SpeculativelyExecuted)]


def handed_out(cluster: Cluster, replica: int) -> list[Dot]:
    return [task.request.id for task in cluster.tasks[replica]]


# --- all of them --------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ALL)
@pytest.mark.parametrize("strong", [False, True])
def test_every_operation_is_ordered_for_itself(scheme: Scheme, strong: bool) -> None:
    """Section 6.2: "an operation's identifier needs to be CAB-cast" in Creek only if it is strong;
    with the others, "after they have been delivered by AB" goes for "all transactions"."""
    cluster = Cluster(scheme=scheme)
    earlier = cluster.invoke(1, "append", "a", strong=False)
    id = cluster.invoke(1, "append", "b", strong=strong)
    cluster.settle()

    for each in cluster.members:
        assert cluster.cab_delivered(each) == cluster.committed(each) == [earlier, id]
    assert [request.context for request in cluster.requests.values()] == [Dots(), Dots()]


@pytest.mark.parametrize("scheme", ALL)
def test_consensus_is_on_identifiers_and_operations_are_gossiped(scheme: Scheme) -> None:
    """Section 6: "Creek (similarly to Bayou) uses a gossip protocol to disseminate [...]
    operations"; "our implementations of SMR and Archie rely on a variant of AB that is also based
    on indirect consensus"."""
    cluster = Cluster(scheme=scheme)
    id = cluster.weak(1, "append", "a")
    assert [each.message for each in cluster.pending(carrying=id)] == [
        Cast((cluster.requests[id],))
    ] * 2
    cluster.drop(Cast, to=2)
    cluster.deliver(Cast, to=0)
    (proposal,) = (each.message for each in cluster.pending(Accept, to=2))
    assert isinstance(proposal, Accept)
    assert proposal.batch == (id,)

    cluster.hold(PullResponse)
    cluster.settle(12)
    assert cluster.committed(2) == []
    cluster.release()
    cluster.settle(12)
    assert cluster.committed(2) == [id]


@pytest.mark.parametrize("scheme", ALL)
def test_a_strong_operation_costs_what_a_weak_one_does(scheme: Scheme) -> None:
    """Section 6.3: "Increasing the fraction of strong operations in the workload naturally did not
    impact neither the performance of SMR nor Bayou"."""

    def messages(strong: bool) -> Counter[str]:
        cluster = Cluster(scheme=scheme)
        cluster.invoke(1, "append", "a", strong=strong)
        sent: Counter[str] = Counter()
        while cluster.in_flight:
            sent.update(type(each.message).__name__ for each in cluster.in_flight)
            cluster.round()
        return sent

    assert messages(strong=True) == messages(strong=False)
    assert messages(strong=True)["Cast"] == 2


@pytest.mark.parametrize("scheme", SEQUENTIAL)
def test_one_transaction_is_processed_at_a_time(scheme: Scheme) -> None:
    """Section 6.2: "SMR executes all transactions sequentially"; "Bayou also processes all
    transactions sequentially"; Section 6.3: "CPUs with more cores [have] no effect"."""
    cluster = Cluster(scheme=scheme)
    cluster.pause(2)
    ids = [cluster.weak(1, "append", each) for each in range(4)]
    cluster.flush()

    for id in ids:
        assert handed_out(cluster, 2) == [id]
        assert cluster.step(2) == (EXECUTE, id)
    assert handed_out(cluster, 2) == []
    assert cluster.listed(2) == [0, 1, 2, 3]


@pytest.mark.parametrize("scheme", ALL)
def test_replicas_end_with_one_order_and_one_state(scheme: Scheme) -> None:
    """Section 6: these are "replication schemes that enable arbitrary semantics"."""
    cluster = Cluster(5, scheme=scheme)
    cluster.partition({0, 1, 2}, {3, 4})
    for each in range(12):
        cluster.invoke(each % 5, "append", each, strong=each % 3 == 0)
        cluster.round()
    cluster.heal()
    cluster.settle(80)

    assert len(cluster.committed(0)) == 12
    for each in cluster.members:
        assert cluster.committed(each) == cluster.committed(0)
        assert cluster.listed(each) == cluster.listed(0)
        assert cluster.tentative(each) == []


@pytest.mark.parametrize("scheme", ["smr", "bayou", "archie"])
@pytest.mark.parametrize("seed", SEEDS)
def test_on_every_schedule_they_keep_what_they_promise(scheme: str, seed: int) -> None:
    """Section 6: what is measured is worth comparing only if it is right."""
    run = build_fuzz_simulation(scenario_from_seed(seed, scheme)).run()

    assert run.quiescence_failure is None
    assert [each for each in check_all(run.history) if not isinstance(each, Ok)] == []
    assert not run.history.guarantees.contexts
    assert run.history.guarantees.tentative == (scheme == "bayou")
    assert run.history.voters == ((0,) if scheme == "bayou" else run.history.members)


# --- SMR and Archie: nothing is answered before its order is decided ----------------------------


@pytest.mark.parametrize("scheme", ORDERED_FIRST)
@pytest.mark.parametrize("strong", [False, True])
def test_there_is_one_answer_and_it_is_stable(scheme: Scheme, strong: bool) -> None:
    """Section 6: "Archie [...] does not return tentative responses"; nor could SMR."""
    cluster = Cluster(scheme=scheme)
    ids = [cluster.invoke(each, "append", each, strong=strong) for each in (2, 0, 1)]
    cluster.settle()

    for id in ids:
        place = cluster.committed(0).index(id) + 1
        assert [kind for kind, _ in cluster.answers(id)] == [STABLE]
        assert cluster.answers(id) == [(STABLE, place)]


@pytest.mark.parametrize("scheme", ORDERED_FIRST)
def test_an_answer_takes_three_communication_phases(scheme: Scheme) -> None:
    """Section 6.2: "the operation identifier can be CAB-delivered after 3 communication phases"."""
    cluster = Cluster(5, scheme=scheme)
    cluster.in_flight.clear()
    id = cluster.weak(1, "append", "a")
    for _ in range(2):
        cluster.round()
        assert cluster.answers(id) == []
    cluster.round()

    assert cluster.answers(id) == [(STABLE, 1)]


@pytest.mark.parametrize("scheme", ORDERED_FIRST)
def test_a_minority_waits_until_the_partition_is_over(scheme: Scheme) -> None:
    """Section 6.4: "Similarly to Bayou, but unlike Archie and SMR, Creek remains available under
    network partitions"."""
    cluster = Cluster(5, scheme=scheme)
    cluster.partition({0, 1}, {2, 3, 4})
    here, there = cluster.weak(0, "append", "a"), cluster.weak(3, "append", "b")
    cluster.settle(80)
    assert cluster.answers(here) == []
    assert cluster.answers(there) == [(STABLE, 1)]
    assert cluster.committed(0) == cluster.committed(1) == []

    cluster.heal()
    cluster.settle(80)
    assert cluster.answers(here) == [(STABLE, 2)]


@pytest.mark.parametrize("scheme", ORDERED_FIRST)
def test_any_majority_goes_on_without_its_leader(scheme: Scheme) -> None:
    """Section 6.2: who leads may change."""
    cluster = Cluster(3, scheme=scheme)
    cluster.crash(0)
    id = cluster.weak(2, "append", "a")
    cluster.settle(80)

    assert cluster.answers(id) == [(STABLE, 1)]


# --- SMR ----------------------------------------------------------------------------------------


def test_smr_executes_nothing_before_it_is_delivered() -> None:
    """Section 6.2: "SMR executes all transactions sequentially, after they have been delivered by
    AB"."""
    cluster = Cluster(scheme=SmrReplica)
    cluster.hold(Vote)
    id = cluster.strong(1, "append", "a")
    cluster.flush()
    assert [cluster.tentative(each) for each in cluster.members] == [[id]] * 3
    assert [cluster.done[each] for each in cluster.members] == [[]] * 3

    cluster.deliver(Vote, sender=1, to=2)
    assert cluster.done[2] == [(EXECUTE, id)]
    assert cluster.done[0] == cluster.done[1] == []


def test_smr_executes_in_the_order_of_delivery_whatever_timestamps_say() -> None:
    """Section 6.2: "after they have been delivered by AB"."""
    cluster = Cluster(scheme=SmrReplica)
    late = cluster.weak(1, "append", "late", at=9_000_000)
    cluster.flush()
    early = cluster.weak(2, "append", "early", at=1)
    cluster.flush()

    for each in cluster.members:
        assert executed(cluster, each) == [late, early]


@pytest.mark.parametrize("seed", SEEDS)
def test_smr_never_rolls_anything_back(seed: int) -> None:
    """Section 6.2: it does not speculate, so it executes each transaction once."""
    run = build_fuzz_simulation(scenario_from_seed(seed, "smr")).run()

    assert sum(run.cpu.rollbacks) == 0
    assert not run.probes.keys() & {Probe.ROLLED_BACK, Probe.REEXECUTED}


# --- Bayou --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strong", [False, True])
def test_bayou_answers_tentatively_at_once(strong: bool) -> None:
    """Section 6.2: "Bayou cuts the latency compared to SMR, because Bayou speculatively executes
    transactions before the final transaction execution order is established"."""
    cluster = Cluster(scheme=BayouReplica)
    id = cluster.invoke(1, "append", "a", strong=strong)

    assert cluster.answers(id) == [(TENTATIVE, 1)]
    assert cluster.committed(1) == []
    cluster.flush()
    assert cluster.answers(id) == [(TENTATIVE, 1), (STABLE if strong else FINAL, 1)]


def test_bayou_executes_in_the_order_of_timestamps_and_rolls_back_for_it() -> None:
    """Section 6.2: it "speculatively executes", so it may have to do it again."""
    cluster = Cluster(scheme=BayouReplica)
    cluster.partition({0}, {1, 2})
    late = cluster.weak(1, "append", "late", at=9_000_000)
    early = cluster.weak(2, "append", "early", at=1)
    cluster.flush()

    assert cluster.tentative(1) == cluster.tentative(2) == [early, late]
    assert cluster.listed(1) == cluster.listed(2) == ["early", "late"]
    assert rolled_back(cluster, 1) == [late]
    assert rolled_back(cluster, 2) == []


def test_the_primary_decides_the_order_in_which_it_receives() -> None:
    """Bayou's primary commits: its order is final, whatever timestamps say."""
    cluster = Cluster(scheme=BayouReplica)
    early = cluster.weak(1, "append", "early", at=1)
    late = cluster.weak(2, "append", "late", at=9_000_000)
    cluster.deliver(Cast, sender=2, to=0)
    cluster.deliver(Cast, sender=1, to=0)
    cluster.flush()

    for each in cluster.members:
        assert cluster.committed(each) == [late, early]
    assert cluster.answers(early) == [(TENTATIVE, 1), (FINAL, 2)]


def test_the_primary_decides_alone_and_no_majority_without_it() -> None:
    """A consensus with one acceptor."""
    cluster = Cluster(5, scheme=BayouReplica)
    cluster.partition({0}, {1, 2, 3, 4})
    alone, many = cluster.strong(0, "append", "a"), cluster.strong(3, "append", "b")
    cluster.settle(120)

    assert cluster.answers(alone) == [(STABLE, 1)]
    assert cluster.answers(many) == [(TENTATIVE, 1)]
    assert [cluster.committed(each) for each in (1, 2, 3, 4)] == [[]] * 4
    assert cluster.leaders() <= {0, None}
    for kind in (Prepare, Promise):
        assert not cluster.pending(kind)


def test_bayou_works_on_in_a_partition_and_reconciles_after_it() -> None:
    """Section 6.4: "Similarly to Bayou [...] Creek remains available under network partitions"."""
    cluster = Cluster(5, scheme=BayouReplica)
    cluster.partition({0, 1}, {2, 3, 4})
    here = [cluster.weak(1, "append", each) for each in "ab"]
    there = [cluster.weak(4, "append", each) for each in "cd"]
    cluster.settle(80)
    assert [cluster.answers(id)[0] for id in here + there] == [
        (TENTATIVE, 1),
        (TENTATIVE, 2),
        (TENTATIVE, 1),
        (TENTATIVE, 2),
    ]
    assert cluster.committed(0) == cluster.committed(1) == here
    assert cluster.tentative(2) == cluster.tentative(3) == there

    cluster.heal()
    cluster.settle(80)
    for each in cluster.members:
        assert cluster.committed(each) == here + there
        assert cluster.listed(each) == ["a", "b", "c", "d"]
    assert [cluster.answers(id)[-1] for id in there] == [(FINAL, 3), (FINAL, 4)]


def test_nothing_becomes_stable_until_the_primary_is_back() -> None:
    """Without the primary everything stays tentative; what it had decided it remembers."""
    cluster = Cluster(scheme=BayouReplica)
    before = cluster.weak(1, "append", "a")
    cluster.settle()
    cluster.crash(0)
    after = cluster.weak(2, "append", "b")
    cluster.settle(120)
    assert cluster.answers(after) == [(TENTATIVE, 2)]
    assert cluster.tentative(1) == cluster.tentative(2) == [after]

    cluster.restart(0)
    cluster.settle(80)
    for each in cluster.members:
        assert cluster.committed(each) == [before, after]
    assert cluster.answers(after) == [(TENTATIVE, 2), (FINAL, 2)]


def test_a_strong_operation_of_bayou_takes_no_weak_one_along() -> None:
    """Only in Creek a strong operation "stabilizes weak transactions from its causal context"."""
    cluster = Cluster(scheme=BayouReplica)
    cluster.partition({0, 1}, {2})
    weak = cluster.weak(2, "append", "a")
    cluster.heal()
    cluster.in_flight.clear()
    cluster.inject(Cast((cluster.requests[weak],)), sender=2, to=1)
    strong = cluster.strong(1, "append", "b")
    cluster.flush()

    assert cluster.answers(strong) == [(TENTATIVE, 2), (STABLE, 1)]
    assert cluster.committed(1) == [strong]
    assert cluster.tentative(1) == [weak]


# --- Archie -------------------------------------------------------------------------------------


def test_archie_starts_with_the_optimistic_delivery_and_not_before() -> None:
    """Section 6.2: "before an Archie's replica can start processing a transaction, it first needs
    to broadcast and deliver it. More precisely, an Archie replica starts processing a transaction
    upon optimistic delivery of a message containing the transaction"."""
    cluster = Cluster(scheme=ArchieReplica)
    cluster.hold(Accept)
    cluster.hold(Vote)
    id = cluster.weak(1, "append", "a")
    assert executed(cluster, 1) == []
    cluster.flush()
    assert executed(cluster, 0) == [id], "the leader has just proposed it"
    assert executed(cluster, 1) == executed(cluster, 2) == []

    cluster.deliver(Accept, to=1)
    assert executed(cluster, 1) == [id]
    assert executed(cluster, 2) == []
    assert cluster.committed(1) == []


def test_archie_starts_when_the_proposal_or_the_operation_comes_last() -> None:
    """Section 6: the message is optimistically delivered once both are there, since consensus is
    indirect."""
    cluster = Cluster(scheme=ArchieReplica)
    cluster.hold(Cast, to=2)
    cluster.hold(Vote)
    id = cluster.weak(1, "append", "a")
    cluster.flush()
    assert executed(cluster, 2) == []

    cluster.deliver(Cast, to=2)
    assert executed(cluster, 2) == [id]


def test_archie_keeps_the_answer_to_itself_until_the_order_is_decided() -> None:
    """Section 6: "Archie [...] does not return tentative responses after completing speculative
    execution. We can however predict what would be the tentative latency for Archie"."""
    cluster = Cluster(scheme=ArchieReplica)
    cluster.hold(Vote)
    id = cluster.weak(1, "append", "a")
    cluster.flush()
    assert speculated(cluster, 1) == [id]
    assert speculated(cluster, 0) == speculated(cluster, 2) == [], "nobody waits for it there"
    assert cluster.answers(id) == []

    cluster.release()
    cluster.flush()
    assert cluster.answers(id) == [(STABLE, 1)]
    assert executed(cluster, 1) == [id]


def test_a_decision_during_the_execution_confirms_it() -> None:
    """Section 6.2: "before a speculative transaction execution is completed by an Archie replica,
    an appropriate AB message is delivered by the replica, thus confirming the optimistic delivery
    order"."""
    cluster = Cluster(scheme=ArchieReplica)
    cluster.hold(Vote)
    cluster.pause(1)
    id = cluster.weak(1, "append", "a")
    cluster.flush()
    running = cluster.begin(1)
    cluster.release()
    cluster.flush()
    assert cluster.committed(1) == [id]
    assert cluster.answers(id) == []

    cluster.finish(1, *running)
    assert cluster.answers(id) == [(STABLE, 1)]
    assert executed(cluster, 1) == [id]
    assert speculated(cluster, 1) == []


def test_archie_executes_in_parallel_as_many_as_it_is_told_to() -> None:
    """Section 6.2: Creek and Archie "take advantage of multicore architecture"; "Archie curbs the
    number of rollbacks and reexecutions by allowing the replicas to limit the number of
    concurrently executed transactions"."""
    cluster = Cluster(scheme=ArchieReplica, parallelism=3)
    cluster.hold(Vote)
    cluster.pause(2)
    ids = [cluster.weak(1, "append", each) for each in range(5)]
    cluster.flush()

    assert handed_out(cluster, 2) == ids[:3]
    cluster.step(2)
    assert handed_out(cluster, 2) == ids[1:4]
    cluster.resume(2)
    cluster.release()
    cluster.flush()
    assert cluster.listed(2) == [0, 1, 2, 3, 4]


def test_while_the_leader_stays_the_optimistic_order_is_the_final_one() -> None:
    """Section 6.2: "in Archie, when the leader process of the underlying AB does not change, the
    optimistic message delivery order always matches the final delivery order"."""
    cluster = Cluster(scheme=ArchieReplica)
    for each in range(30):
        cluster.weak(each % 3, "append", each, at=30 - each)
        cluster.round()
    cluster.settle()

    for replica in cluster.members:
        assert executed(cluster, replica) == cluster.committed(replica)
        probes = cluster.replicas[replica].probes.counts
        assert not probes.keys() & {Probe.DECIDED_OTHERWISE, Probe.ROLLED_BACK, Probe.REEXECUTED}


def test_what_another_leader_puts_first_makes_the_rest_wrong() -> None:
    """Section 6.2: only "when the leader [...] does not change" the optimistic order is final."""
    cluster = Cluster(scheme=ArchieReplica)
    cluster.partition({0}, {1, 2})
    vain = cluster.weak(0, "append", "a")
    assert executed(cluster, 0) == [vain]
    other = cluster.weak(1, "append", "b")
    cluster.settle(80)
    cluster.heal()
    cluster.settle(80)

    assert cluster.committed(0) == [other, vain]
    assert executed(cluster, 0) == [vain, other, vain]
    assert cluster.answers(other) == [(STABLE, 1)]
    assert cluster.answers(vain) == [(STABLE, 2)], "what it speculated nobody was told"


def test_two_that_change_places_are_both_executed_again() -> None:
    """Section 6.2: the same, when the other leader knows only the second of two proposals."""
    cluster = Cluster(scheme=ArchieReplica)
    cluster.hold(Vote)
    first = cluster.weak(0, "append", "a")
    cluster.drop(Cast)
    cluster.drop(Accept)
    second = cluster.weak(2, "append", "b")
    cluster.flush()
    assert executed(cluster, 0) == [first, second]
    assert executed(cluster, 2) == [second]
    cluster.drop(Vote)
    cluster.release()
    cluster.partition({0}, {1, 2})
    cluster.settle(80)
    cluster.heal()
    cluster.settle(80)

    for each in cluster.members:
        assert cluster.committed(each) == [second, first]
    assert Counter(executed(cluster, 0)) == {first: 2, second: 2}
    assert cluster.replicas[0].probes.counts[Probe.DECIDED_OTHERWISE] == 1
    assert cluster.answers(first) == [(STABLE, 2)]
    assert cluster.answers(second) == [(STABLE, 1)]


def test_speculation_is_done_before_the_decision_or_not_told_of() -> None:
    """Section 6.2: "a replica starts the execution of a transaction a bit earlier than it takes for
    a message to be delivered by AB"."""
    told = 0
    for seed in SEEDS:
        run = build_fuzz_simulation(scenario_from_seed(seed, "archie", faults=False)).run()
        for log in run.history.logs:
            events = [each.event for each in log.events]
            delivered = {
                each.id: at for at, each in enumerate(events) if isinstance(each, CabDelivered)
            }
            for at, each in enumerate(events):
                if isinstance(each, SpeculativelyExecuted):
                    assert each.id.replica == log.replica
                    assert at < delivered[each.id]
                    told += 1
    assert told > 0
