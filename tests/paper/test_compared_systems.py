"""Section 6.2: the systems that Creek is compared with, and their differences from it.

Replica 0 is the leader, and the primary of Bayou. One `round` is one communication delay.
"""

from collections import Counter

import pytest

from creekdb.checkers import Ok, check_all
from creekdb.protocol.effects import CabDelivered, SpeculativelyExecuted
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Accept, Cast, Prepare, Promise, PullResponse, Vote
from creekdb.protocol.probes import Probe
from creekdb.schemes import bayou, smr
from creekdb.schemes.archie import ArchieReplica
from creekdb.simulation.fuzz.campaign import build_fuzz_simulation
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from tests.paper.harness import EXECUTE, FINAL, ROLLBACK, STABLE, TENTATIVE, Cluster, Scheme

STABLE_ONLY_SCHEMES: tuple[Scheme, ...] = (smr.create_replica, ArchieReplica)
ALL_SCHEMES: tuple[Scheme, ...] = (smr.create_replica, bayou.create_replica, ArchieReplica)
SEQUENTIAL_SCHEMES: tuple[Scheme, ...] = (smr.create_replica, bayou.create_replica)
SEEDS = range(0, 24, 2)


def executed(cluster: Cluster, replica: int) -> list[Dot]:
    return [id for kind, id in cluster.done[replica] if kind is EXECUTE]


def rolled_back(cluster: Cluster, replica: int) -> list[Dot]:
    return [id for kind, id in cluster.done[replica] if kind is ROLLBACK]


def speculated(cluster: Cluster, replica: int) -> list[Dot]:
    return [each.id for each in cluster.events[replica] if isinstance(each, SpeculativelyExecuted)]


def scheduled_ids(cluster: Cluster, replica: int) -> list[Dot]:
    return [task.request.id for task in cluster.tasks[replica]]


# --- all systems --------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
@pytest.mark.parametrize("strong", [False, True])
def test_every_operation_is_ordered_individually(scheme: Scheme, strong: bool) -> None:
    """Section 6.2: in Creek "an operation's identifier needs to be CAB-cast" only if it is strong.
    In the other systems, "after they have been delivered by AB" applies to "all transactions"."""
    cluster = Cluster(scheme=scheme)
    earlier = cluster.invoke(1, "append", "a", strong=False)
    id = cluster.invoke(1, "append", "b", strong=strong)
    cluster.settle()

    for each in cluster.members:
        assert cluster.cab_delivered(each) == cluster.committed(each) == [earlier, id]
    assert [request.context for request in cluster.requests.values()] == [Dots(), Dots()]


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_consensus_orders_identifiers_and_gossip_transfers_operations(scheme: Scheme) -> None:
    """Section 6: "Creek (similarly to Bayou) uses a gossip protocol to disseminate [...]
    operations". "[O]ur implementations of SMR and Archie rely on a variant of AB that is also based
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


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_strong_and_weak_operations_cost_the_same_messages(scheme: Scheme) -> None:
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


@pytest.mark.parametrize("scheme", SEQUENTIAL_SCHEMES)
def test_transactions_are_processed_sequentially(scheme: Scheme) -> None:
    """Section 6.2: "SMR executes all transactions sequentially"; "Bayou also processes all
    transactions sequentially"; Section 6.3: "CPUs with more cores [have] no effect"."""
    cluster = Cluster(scheme=scheme)
    cluster.pause(2)
    ids = [cluster.weak(1, "append", each) for each in range(4)]
    cluster.flush()

    for id in ids:
        assert scheduled_ids(cluster, 2) == [id]
        assert cluster.step(2) == (EXECUTE, id)
    assert scheduled_ids(cluster, 2) == []
    assert cluster.state_values(2) == [0, 1, 2, 3]


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_replicas_converge_to_one_order_and_state(scheme: Scheme) -> None:
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
        assert cluster.state_values(each) == cluster.state_values(0)
        assert cluster.tentative(each) == []


@pytest.mark.parametrize("scheme", ["smr", "bayou", "archie"])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_schedule_satisfies_the_guarantees_of_the_scheme(scheme: str, seed: int) -> None:
    """Section 6: a comparison requires correct systems."""
    run = build_fuzz_simulation(scenario_from_seed(seed, scheme)).run()

    assert run.quiescence_failure is None
    assert [each for each in check_all(run.history) if not isinstance(each, Ok)] == []
    assert not run.history.guarantees.contexts
    assert run.history.guarantees.tentative == (scheme == "bayou")
    assert run.history.voters == ((0,) if scheme == "bayou" else run.history.members)


# --- SMR and Archie: responses only after the decision ---------------------------------------


@pytest.mark.parametrize("scheme", STABLE_ONLY_SCHEMES)
@pytest.mark.parametrize("strong", [False, True])
def test_the_only_response_is_stable(scheme: Scheme, strong: bool) -> None:
    """Section 6: "Archie [...] does not return tentative responses"; neither does SMR."""
    cluster = Cluster(scheme=scheme)
    ids = [cluster.invoke(each, "append", each, strong=strong) for each in (2, 0, 1)]
    cluster.settle()

    for id in ids:
        position = cluster.committed(0).index(id) + 1
        assert [kind for kind, _ in cluster.responses_to(id)] == [STABLE]
        assert cluster.responses_to(id) == [(STABLE, position)]


@pytest.mark.parametrize("scheme", STABLE_ONLY_SCHEMES)
def test_a_response_takes_three_communication_phases(scheme: Scheme) -> None:
    """Section 6.2: "the operation identifier can be CAB-delivered after 3 communication phases"."""
    cluster = Cluster(5, scheme=scheme)
    cluster.in_flight.clear()
    id = cluster.weak(1, "append", "a")
    for _ in range(2):
        cluster.round()
        assert cluster.responses_to(id) == []
    cluster.round()

    assert cluster.responses_to(id) == [(STABLE, 1)]


@pytest.mark.parametrize("scheme", STABLE_ONLY_SCHEMES)
def test_a_minority_waits_until_the_partition_heals(scheme: Scheme) -> None:
    """Section 6.4: "Similarly to Bayou, but unlike Archie and SMR, Creek remains available under
    network partitions"."""
    cluster = Cluster(5, scheme=scheme)
    cluster.partition({0, 1}, {2, 3, 4})
    minority, majority = cluster.weak(0, "append", "a"), cluster.weak(3, "append", "b")
    cluster.settle(80)
    assert cluster.responses_to(minority) == []
    assert cluster.responses_to(majority) == [(STABLE, 1)]
    assert cluster.committed(0) == cluster.committed(1) == []

    cluster.heal()
    cluster.settle(80)
    assert cluster.responses_to(minority) == [(STABLE, 2)]


@pytest.mark.parametrize("scheme", STABLE_ONLY_SCHEMES)
def test_any_majority_continues_without_its_leader(scheme: Scheme) -> None:
    """Section 6.2: the leader may change."""
    cluster = Cluster(3, scheme=scheme)
    cluster.crash(0)
    id = cluster.weak(2, "append", "a")
    cluster.settle(80)

    assert cluster.responses_to(id) == [(STABLE, 1)]


# --- SMR ----------------------------------------------------------------------------------------


def test_smr_executes_only_delivered_transactions() -> None:
    """Section 6.2: "SMR executes all transactions sequentially, after they have been delivered by
    AB"."""
    cluster = Cluster(scheme=smr.create_replica)
    cluster.hold(Vote)
    id = cluster.strong(1, "append", "a")
    cluster.flush()
    assert [cluster.tentative(each) for each in cluster.members] == [[id]] * 3
    assert [cluster.done[each] for each in cluster.members] == [[]] * 3

    cluster.deliver(Vote, sender=1, to=2)
    assert cluster.done[2] == [(EXECUTE, id)]
    assert cluster.done[0] == cluster.done[1] == []


def test_smr_executes_in_delivery_order_not_timestamp_order() -> None:
    """Section 6.2: "after they have been delivered by AB"."""
    cluster = Cluster(scheme=smr.create_replica)
    late = cluster.weak(1, "append", "late", at=9_000_000)
    cluster.flush()
    early = cluster.weak(2, "append", "early", at=1)
    cluster.flush()

    for each in cluster.members:
        assert executed(cluster, each) == [late, early]


@pytest.mark.parametrize("seed", SEEDS)
def test_smr_never_rolls_back(seed: int) -> None:
    """Section 6.2: SMR does not speculate, so it executes each transaction once."""
    run = build_fuzz_simulation(scenario_from_seed(seed, "smr")).run()

    assert sum(run.cpu.rollbacks) == 0
    assert not run.probes.keys() & {Probe.ROLLED_BACK, Probe.REEXECUTED}


# --- Bayou --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strong", [False, True])
def test_bayou_sends_a_tentative_response_at_once(strong: bool) -> None:
    """Section 6.2: "Bayou cuts the latency compared to SMR, because Bayou speculatively executes
    transactions before the final transaction execution order is established"."""
    cluster = Cluster(scheme=bayou.create_replica)
    id = cluster.invoke(1, "append", "a", strong=strong)

    assert cluster.responses_to(id) == [(TENTATIVE, 1)]
    assert cluster.committed(1) == []
    cluster.flush()
    assert cluster.responses_to(id) == [(TENTATIVE, 1), (STABLE if strong else FINAL, 1)]


def test_bayou_executes_in_timestamp_order_and_rolls_back() -> None:
    """Section 6.2: Bayou "speculatively executes", so it may have to execute again."""
    cluster = Cluster(scheme=bayou.create_replica)
    cluster.partition({0}, {1, 2})
    late = cluster.weak(1, "append", "late", at=9_000_000)
    early = cluster.weak(2, "append", "early", at=1)
    cluster.flush()

    assert cluster.tentative(1) == cluster.tentative(2) == [early, late]
    assert cluster.state_values(1) == cluster.state_values(2) == ["early", "late"]
    assert rolled_back(cluster, 1) == [late]
    assert rolled_back(cluster, 2) == []


def test_the_primary_commits_in_the_order_of_arrival() -> None:
    """Bayou's primary commits: its order is final, independently of timestamps."""
    cluster = Cluster(scheme=bayou.create_replica)
    early = cluster.weak(1, "append", "early", at=1)
    late = cluster.weak(2, "append", "late", at=9_000_000)
    cluster.deliver(Cast, sender=2, to=0)
    cluster.deliver(Cast, sender=1, to=0)
    cluster.flush()

    for each in cluster.members:
        assert cluster.committed(each) == [late, early]
    assert cluster.responses_to(early) == [(TENTATIVE, 1), (FINAL, 2)]


def test_the_primary_alone_decides_and_a_majority_without_it_does_not() -> None:
    """A consensus with one acceptor."""
    cluster = Cluster(5, scheme=bayou.create_replica)
    cluster.partition({0}, {1, 2, 3, 4})
    primary, majority = cluster.strong(0, "append", "a"), cluster.strong(3, "append", "b")
    cluster.settle(120)

    assert cluster.responses_to(primary) == [(STABLE, 1)]
    assert cluster.responses_to(majority) == [(TENTATIVE, 1)]
    assert [cluster.committed(each) for each in (1, 2, 3, 4)] == [[]] * 4
    assert cluster.leaders() <= {0, None}
    for kind in (Prepare, Promise):
        assert not cluster.pending(kind)


def test_bayou_is_available_in_a_partition_and_reconciles_afterwards() -> None:
    """Section 6.4: "Similarly to Bayou [...] Creek remains available under network partitions"."""
    cluster = Cluster(5, scheme=bayou.create_replica)
    cluster.partition({0, 1}, {2, 3, 4})
    primary_side = [cluster.weak(1, "append", each) for each in "ab"]
    other_side = [cluster.weak(4, "append", each) for each in "cd"]
    cluster.settle(80)
    assert [cluster.responses_to(id)[0] for id in primary_side + other_side] == [
        (TENTATIVE, 1),
        (TENTATIVE, 2),
        (TENTATIVE, 1),
        (TENTATIVE, 2),
    ]
    assert cluster.committed(0) == cluster.committed(1) == primary_side
    assert cluster.tentative(2) == cluster.tentative(3) == other_side

    cluster.heal()
    cluster.settle(80)
    for each in cluster.members:
        assert cluster.committed(each) == primary_side + other_side
        assert cluster.state_values(each) == ["a", "b", "c", "d"]
    assert [cluster.responses_to(id)[-1] for id in other_side] == [(FINAL, 3), (FINAL, 4)]


def test_operations_stay_tentative_until_the_primary_is_back() -> None:
    """Without the primary all operations stay tentative; its earlier decisions are durable."""
    cluster = Cluster(scheme=bayou.create_replica)
    before = cluster.weak(1, "append", "a")
    cluster.settle()
    cluster.crash(0)
    after = cluster.weak(2, "append", "b")
    cluster.settle(120)
    assert cluster.responses_to(after) == [(TENTATIVE, 2)]
    assert cluster.tentative(1) == cluster.tentative(2) == [after]

    cluster.restart(0)
    cluster.settle(80)
    for each in cluster.members:
        assert cluster.committed(each) == [before, after]
    assert cluster.responses_to(after) == [(TENTATIVE, 2), (FINAL, 2)]


def test_a_strong_operation_of_bayou_commits_no_weak_one() -> None:
    """Only in Creek, a strong operation "stabilizes weak transactions from its causal context"."""
    cluster = Cluster(scheme=bayou.create_replica)
    cluster.partition({0, 1}, {2})
    weak = cluster.weak(2, "append", "a")
    cluster.heal()
    cluster.in_flight.clear()
    cluster.inject(Cast((cluster.requests[weak],)), sender=2, to=1)
    strong = cluster.strong(1, "append", "b")
    cluster.flush()

    assert cluster.responses_to(strong) == [(TENTATIVE, 2), (STABLE, 1)]
    assert cluster.committed(1) == [strong]
    assert cluster.tentative(1) == [weak]


# --- Archie -------------------------------------------------------------------------------------


def test_archie_executes_upon_optimistic_delivery() -> None:
    """Section 6.2: "before an Archie's replica can start processing a transaction, it first needs
    to broadcast and deliver it. More precisely, an Archie replica starts processing a transaction
    upon optimistic delivery of a message containing the transaction"."""
    cluster = Cluster(scheme=ArchieReplica)
    cluster.hold(Accept)
    cluster.hold(Vote)
    id = cluster.weak(1, "append", "a")
    assert executed(cluster, 1) == []
    cluster.flush()
    assert executed(cluster, 0) == [id], "the leader has proposed the request"
    assert executed(cluster, 1) == executed(cluster, 2) == []

    cluster.deliver(Accept, to=1)
    assert executed(cluster, 1) == [id]
    assert executed(cluster, 2) == []
    assert cluster.committed(1) == []


def test_archie_without_speculation_executes_only_decided_transactions() -> None:
    """Section 6.2: the speculative execution yields a "5-8% reduction in latency". The reduction is
    relative to executions after the delivery."""
    cluster = Cluster(scheme=ArchieReplica, decided_only=1)
    cluster.hold(Vote)
    id = cluster.weak(1, "append", "a")
    cluster.flush()
    assert executed(cluster, 0) == executed(cluster, 1) == []

    cluster.release()
    cluster.flush()
    assert cluster.responses_to(id) == [(STABLE, 1)]
    assert executed(cluster, 1) == [id]
    assert speculated(cluster, 1) == []


def test_optimistic_delivery_needs_the_proposal_and_the_operation() -> None:
    """Section 6: consensus is indirect, so optimistic delivery requires both."""
    cluster = Cluster(scheme=ArchieReplica)
    cluster.hold(Cast, to=2)
    cluster.hold(Vote)
    id = cluster.weak(1, "append", "a")
    cluster.flush()
    assert executed(cluster, 2) == []

    cluster.deliver(Cast, to=2)
    assert executed(cluster, 2) == [id]


def test_archie_sends_the_response_after_the_decision() -> None:
    """Section 6: "Archie [...] does not return tentative responses after completing speculative
    execution. We can however predict what would be the tentative latency for Archie"."""
    cluster = Cluster(scheme=ArchieReplica)
    cluster.hold(Vote)
    id = cluster.weak(1, "append", "a")
    cluster.flush()
    assert speculated(cluster, 1) == [id]
    assert speculated(cluster, 0) == speculated(cluster, 2) == [], "no client waits there"
    assert cluster.responses_to(id) == []

    cluster.release()
    cluster.flush()
    assert cluster.responses_to(id) == [(STABLE, 1)]
    assert executed(cluster, 1) == [id]


def test_a_decision_during_the_execution_confirms_the_order() -> None:
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
    assert cluster.responses_to(id) == []

    cluster.finish(1, *running)
    assert cluster.responses_to(id) == [(STABLE, 1)]
    assert executed(cluster, 1) == [id]
    assert speculated(cluster, 1) == []


def test_archie_limits_concurrent_executions() -> None:
    """Section 6.2: Creek and Archie "take advantage of multicore architecture". "Archie curbs the
    number of rollbacks and reexecutions by allowing the replicas to limit the number of
    concurrently executed transactions"."""
    cluster = Cluster(scheme=ArchieReplica, parallelism=3)
    cluster.hold(Vote)
    cluster.pause(2)
    ids = [cluster.weak(1, "append", each) for each in range(5)]
    cluster.flush()

    assert scheduled_ids(cluster, 2) == ids[:3]
    cluster.step(2)
    assert scheduled_ids(cluster, 2) == ids[1:4]
    cluster.resume(2)
    cluster.release()
    cluster.flush()
    assert cluster.state_values(2) == [0, 1, 2, 3, 4]


def test_the_optimistic_order_is_final_under_a_stable_leader() -> None:
    """Section 6.2: "in Archie, when the leader process of the underlying AB does not change, the
    optimistic message delivery order always matches the final delivery order"."""
    cluster = Cluster(scheme=ArchieReplica)
    for each in range(30):
        cluster.weak(each % 3, "append", each, at=30 - each)
        cluster.round()
    cluster.settle()

    for replica in cluster.members:
        assert executed(cluster, replica) == cluster.committed(replica)
        probes = cluster.replicas[replica].view.probes.counts
        assert not probes.keys() & {
            Probe.DECIDED_OUT_OF_PROPOSED_ORDER,
            Probe.ROLLED_BACK,
            Probe.REEXECUTED,
        }


def test_a_leader_change_invalidates_speculative_executions() -> None:
    """Section 6.2: the optimistic order is final only "when the leader [...] does not change"."""
    cluster = Cluster(scheme=ArchieReplica)
    cluster.partition({0}, {1, 2})
    overtaken = cluster.weak(0, "append", "a")
    assert executed(cluster, 0) == [overtaken]
    other = cluster.weak(1, "append", "b")
    cluster.settle(80)
    cluster.heal()
    cluster.settle(80)

    assert cluster.committed(0) == [other, overtaken]
    assert executed(cluster, 0) == [overtaken, other, overtaken]
    assert cluster.responses_to(other) == [(STABLE, 1)]
    assert cluster.responses_to(overtaken) == [(STABLE, 2)], "the speculative response is not sent"


def test_transactions_that_swap_positions_are_both_reexecuted() -> None:
    """Section 6.2, as above: the new leader has only the second of two proposals."""
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
    assert cluster.replicas[0].view.probes.counts[Probe.DECIDED_OUT_OF_PROPOSED_ORDER] == 1
    assert cluster.responses_to(first) == [(STABLE, 2)]
    assert cluster.responses_to(second) == [(STABLE, 1)]


def test_speculative_executions_are_reported_only_before_the_decision() -> None:
    """Section 6.2: "a replica starts the execution of a transaction a bit earlier than it takes for
    a message to be delivered by AB"."""
    speculations = 0
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
                    speculations += 1
    assert speculations > 0
