"""Sections 3.4, 4.1, 4.3 and 4.4: guarantees of weak and strong operations for clients."""

from typing import Any

import pytest

from creekdb.checkers import Ok
from creekdb.datatypes.register import REGISTER
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Accept, Cast
from creekdb.protocol.request import NOOP, Operation
from tests.paper.harness import STABLE, TENTATIVE, Cluster
from tests.paper.schedules import SEEDS, run, verdicts


def responses_of(cluster: Cluster, id: Dot, kind: ResponseKind) -> list[Any]:
    return [value for each, value in cluster.responses_to(id) if each is kind]


def delays_until_stable(cluster: Cluster, id: Dot) -> int:
    """Return the number of communication delays. Each delivers all messages in flight."""
    delays = 0
    while not responses_of(cluster, id, STABLE):
        assert cluster.in_flight, "no message is in flight"
        cluster.round()
        delays += 1
    return delays


# --- weak operations (Section 3.4) -------------------------------------------------------------


def test_a_weak_response_precedes_all_message_deliveries() -> None:
    """Section 3.4: "issues a response to the client without waiting for coordination"."""
    cluster = Cluster(5, with_leader=False)
    id = cluster.weak(3, "append", "a")

    assert cluster.responses_to(id) == [(TENTATIVE, 1)]
    assert {each.sender for each in cluster.in_flight} == {3}


def test_a_weak_response_needs_no_other_replica() -> None:
    """Section 3.4: it executes "on the local state", even if no other replica is up."""
    cluster = Cluster(3)
    for other in (0, 2):
        cluster.crash(other)
    cluster.settle()

    assert cluster.responses_to(cluster.weak(1, "append", "a")) == [(TENTATIVE, 1)]


def test_weak_operations_converge_within_each_partition() -> None:
    """Section 3.4: "the replicas' states in each subgroup converge"."""
    cluster = Cluster(5)
    cluster.partition({0, 1}, {2, 3, 4})
    for replica in cluster.members:
        assert responses_of(cluster, cluster.weak(replica, "append", replica), TENTATIVE) != []
    cluster.settle()

    assert cluster.state_values(0) == cluster.state_values(1) == [0, 1]
    assert (
        cluster.state_values(2) == cluster.state_values(3) == cluster.state_values(4) == [2, 3, 4]
    )


def test_strong_operations_of_a_minority_get_tentative_responses() -> None:
    """Section 1: each partition is "capable of … obtaining tentative responses"."""
    cluster = Cluster(5)
    cluster.partition({0, 1}, {2, 3, 4})
    id = cluster.strong(1, "append", "a")

    cluster.settle()

    assert cluster.responses_to(id) == [(TENTATIVE, 1)]


def test_a_weak_response_may_differ_from_the_final_one() -> None:
    """Section 3.4: it "might not reflect the state of replicas once they synchronize"."""
    cluster = Cluster(3, REGISTER)
    cluster.weak(1, "write", "theirs", at=10)
    cluster.weak(2, "write", "mine", at=5)
    seen = cluster.weak(2, "read", at=20)
    assert cluster.responses_to(seen) == [(TENTATIVE, "mine")]

    cluster.flush()

    assert cluster.responses_to(cluster.weak(2, "read")) == [(TENTATIVE, "theirs")]


# --- strong operations (Sections 3.4 and 4.3) --------------------------------------------------


@pytest.mark.parametrize("replicas", [3, 4, 5])
def test_a_stable_response_needs_exactly_a_majority(
    replicas: int,
) -> None:
    """Section 3.4: a stable response "only after the replicas synchronize"."""
    majority = replicas // 2 + 1
    cluster = Cluster(replicas)
    cluster.partition(range(majority - 1), range(majority - 1, replicas))
    alone = cluster.strong(0, "append", "a")
    cluster.settle()
    assert responses_of(cluster, alone, STABLE) == []

    cluster.partition(range(majority), range(majority, replicas))
    cluster.settle(120)

    assert responses_of(cluster, alone, STABLE) == [1]


def test_a_majority_continues_without_its_leader() -> None:
    """Section 3.4: with Ω, consensus can be solved "in the presence of failures"."""
    cluster = Cluster(5)
    cluster.partition({0, 1}, {2, 3, 4})
    cluster.settle()

    id = cluster.strong(4, "append", "a")
    cluster.flush()

    assert responses_of(cluster, id, STABLE) == [1]


@pytest.mark.parametrize("replicas", [5, 6, 7])
def test_a_stable_response_takes_three_communication_delays(replicas: int) -> None:
    """Section 5: the delays are the gossip of the request, the proposal and the votes."""
    cluster = Cluster(replicas)

    for origin in cluster.members[1:]:
        assert delays_until_stable(cluster, cluster.strong(origin, "append", origin)) == 3
        cluster.flush()


@pytest.mark.parametrize("replicas", [2, 3, 4, 5, 6, 7])
def test_a_stable_response_of_the_leader_takes_two_delays(replicas: int) -> None:
    """Section 5: the leader proposes at once and sends its proposal together with the request."""
    cluster = Cluster(replicas)

    assert delays_until_stable(cluster, cluster.strong(0, "append", "a")) == 2


@pytest.mark.parametrize("origin", [1, 2])
def test_a_stable_response_in_a_cluster_of_three_takes_two_delays(origin: int) -> None:
    """Section 5: the proposal includes the leader's vote; the origin's vote is the second."""
    cluster = Cluster(3)

    assert delays_until_stable(cluster, cluster.strong(origin, "append", "a")) == 2


def test_a_single_replica_needs_no_communication() -> None:
    """A majority of one replica exists from the start."""
    cluster = Cluster(1)

    assert delays_until_stable(cluster, cluster.strong(0, "append", "a")) == 0


def test_concurrent_strong_operations_need_no_additional_delays() -> None:
    """Section 5: instances are pipelined, and no proposal waits for a batch to fill."""
    cluster = Cluster(5)
    ids = [cluster.strong(replica, "append", "x") for replica in (1, 2, 3, 4) for _ in range(5)]

    for _ in range(3):
        cluster.round()

    assert all(len(responses_of(cluster, id, STABLE)) == 1 for id in ids)


def test_an_operation_invoked_after_a_stable_response_is_ordered_after_it() -> None:
    """Section 4.3: "when … op returns a stable response before another … op′ starts"."""
    cluster = Cluster(5)
    first = cluster.strong(1, "append", "first", at=10**9)
    delays_until_stable(cluster, first)

    second = cluster.strong(4, "append", "second", at=1)
    cluster.settle()

    for replica in cluster.members:
        assert cluster.committed(replica) == [first, second]
    assert responses_of(cluster, second, STABLE) == [2]


def test_real_time_order_holds_at_an_uninformed_replica() -> None:
    """Section 4.3: CAB establishes real-time order, independently of the origin's knowledge."""
    cluster = Cluster(5)
    cluster.hold(to=4)
    first = cluster.strong(1, "append", "first")
    cluster.flush()
    assert responses_of(cluster, first, STABLE) == [1]
    second = cluster.strong(4, "append", "second", at=1)
    assert responses_of(cluster, second, TENTATIVE) == [1]

    cluster.release()
    cluster.settle()

    assert responses_of(cluster, second, STABLE) == [2]


def test_a_stable_response_reflects_the_replicas_own_earlier_operations() -> None:
    """Section 4.3: S "respects the program order of every replica", even with a stopped clock."""
    cluster = Cluster(3)
    ids = [cluster.weak(1, "append", each, at=10) for each in "ab"]
    strong = cluster.strong(1, "get_all", at=10)
    cluster.settle()

    assert cluster.committed(2) == [*ids, strong]
    assert responses_of(cluster, strong, STABLE) == [("a", "b")]


def test_a_stable_response_reflects_all_weak_operations_of_the_tentative_one() -> None:
    """Section 1, point 5: at least the operations that "would be visible to op's
    speculative execution"."""
    cluster = Cluster(3)
    for replica in cluster.members:
        cluster.weak(replica, "append", replica)
    cluster.flush()
    strong = cluster.strong(2, "get_all")
    cluster.settle()

    assert cluster.responses_to(strong) == [(TENTATIVE, (0, 1, 2)), (STABLE, (0, 1, 2))]


def test_a_weak_operation_executes_after_the_strong_one_invoked_before_it() -> None:
    """Section 4.3: "the execution of operations always respects the order" of invocation."""
    cluster = Cluster(3, with_leader=False)
    cluster.strong(1, "append", "strong")
    weak = cluster.weak(1, "get_all")

    assert cluster.responses_to(weak) == [(TENTATIVE, ("strong",))]


# --- the causal context (Section 4.1) ----------------------------------------------------------


def test_a_context_excludes_uncommitted_strong_operations() -> None:
    """Section 4.2: it "does not include … any strong operations that are not yet committed"."""
    cluster = Cluster(3)
    cluster.hold(Accept)
    pending = cluster.strong(1, "append", "pending")
    cluster.flush()
    weak = cluster.weak(2, "append", "weak")
    strong = cluster.strong(2, "append", "strong")

    assert cluster.tentative(2) == [pending, weak, strong]
    assert cluster.context(strong) == {weak}


def test_a_strong_operation_stabilises_the_weak_ones_of_its_context() -> None:
    """Section 4.1: "Each replica will also stabilize these operations" on CAB-delivery."""
    cluster = Cluster(4)
    weak = [cluster.weak(each, "append", each) for each in (0, 3)]
    cluster.flush()
    assert [cluster.tentative(each) for each in cluster.members] == [weak] * 4

    strong = cluster.strong(1, "length")
    cluster.flush()

    assert [cluster.committed(each) for each in cluster.members] == [[*weak, strong]] * 4
    assert [cluster.tentative(each) for each in cluster.members] == [[]] * 4


def test_weak_operations_outside_the_context_stay_tentative() -> None:
    """Section 4.1: `tentative` holds the "weak operations that are not yet stabilized"."""
    cluster = Cluster(3)
    strong = cluster.strong(1, "length")
    weak = cluster.weak(2, "append", "w")
    cluster.settle()

    assert [cluster.committed(each) for each in cluster.members] == [[strong]] * 3
    assert [cluster.tentative(each) for each in cluster.members] == [[weak]] * 3


def test_the_committed_list_is_append_only() -> None:
    """Section 4.3: "committed corresponds to the ever growing single serialization"."""
    cluster = Cluster(3)
    before: dict[int, list[Dot]] = {each: [] for each in cluster.members}
    for step in range(6):
        cluster.weak(step % 3, "append", step, at=100 - step)
        cluster.strong((step + 1) % 3, "length", at=50 + step)
        while cluster.in_flight:
            cluster.deliver_next()
            for replica in cluster.members:
                now = cluster.committed(replica)
                assert now[: len(before[replica])] == before[replica]
                before[replica] = now
    assert {tuple(each) for each in before.values()} == {tuple(before[0])}
    assert len(before[0]) >= 6


# --- temporary operation reordering (Section 4.3) ----------------------------------------------


def test_clients_may_temporarily_see_different_orders() -> None:
    """Section 4.3: "the replicas may temporarily disagree on the relative order"."""
    cluster = Cluster(4)
    cluster.partition({0, 1}, {2, 3})
    cluster.weak(0, "append", "a")
    cluster.weak(2, "append", "b")
    cluster.settle()
    left, right = (cluster.weak(each, "get_all") for each in (1, 3))
    assert cluster.responses_to(left) == [(TENTATIVE, ("a",))]
    assert cluster.responses_to(right) == [(TENTATIVE, ("b",))]

    cluster.heal()
    cluster.settle()
    final = cluster.strong(3, "get_all")
    cluster.settle()

    assert [cluster.state_values(each) for each in cluster.members] == [["a", "b"]] * 4
    assert responses_of(cluster, final, STABLE) == [("a", "b")]


def test_an_observed_order_may_change_until_it_is_committed() -> None:
    """Section 4.3: observed "only temporarily … in an order which is not" the final one."""
    cluster = Cluster(3)
    weak = cluster.weak(1, "append", "weak", at=10)
    cluster.drop(Cast)
    strong = cluster.strong(2, "append", "strong", at=20)
    cluster.deliver(Cast, to=1)
    assert cluster.responses_to(cluster.weak(1, "get_all")) == [(TENTATIVE, ("weak", "strong"))]

    cluster.settle()

    assert cluster.responses_to(cluster.weak(1, "get_all")) == [(TENTATIVE, ("strong", "weak"))]
    cluster.strong(1, "length")
    cluster.settle()
    assert [cluster.committed(each)[:2] for each in cluster.members] == [[strong, weak]] * 3


def test_replicas_converge_once_the_stream_of_operations_ceases() -> None:
    """Section 1: "converging to the same state, once the stream of client requests ceases"."""
    cluster = Cluster(5)
    cluster.partition({0}, {1, 2}, {3, 4})
    for step in range(20):
        operation = ("append", step) if step % 3 else ("pop_first",)
        cluster.invoke(step % 5, *operation, strong=step % 7 == 0, at=1000 - step)
        cluster.flush()
    assert len({tuple(cluster.state_values(each)) for each in cluster.members}) > 1

    cluster.heal()
    cluster.settle(120)

    assert len({tuple(cluster.state_values(each)) for each in cluster.members}) == 1
    assert len({tuple(cluster.committed(each)) for each in cluster.members}) == 1
    assert len({tuple(cluster.tentative(each)) for each in cluster.members}) == 1


# --- the strong no-op (Section 4.4) ------------------------------------------------------------


def test_without_strong_operations_a_no_op_stabilises_weak_ones() -> None:
    """Section 4.4: "strong no-op operations, that would gradually stabilize weak operations"."""
    cluster = Cluster(3, noop_ticks=5)
    weak = [cluster.weak(each, "append", each) for each in cluster.members]
    cluster.settle(4)
    assert sorted(cluster.tentative(1)) == weak

    cluster.settle(2)

    for replica in cluster.members:
        assert cluster.committed(replica)[:-1] == weak
        assert cluster.tentative(replica) == []
    noop = cluster.requests[cluster.committed(0)[-1]]
    assert noop.operation == NOOP
    assert noop.strong


def test_the_no_op_changes_no_state_and_has_no_response() -> None:
    """Section 4.4: the no-op exists only to be ordered."""
    cluster = Cluster(3, noop_ticks=5)
    id = cluster.weak(1, "append", "a")
    cluster.settle()

    assert len(cluster.committed(1)) == 2
    assert [cluster.state_values(each) for each in cluster.members] == [["a"]] * 3
    assert {response.id for _, response in cluster.responses} == {id}


def test_no_no_op_is_issued_without_unstable_operations() -> None:
    """Section 4.4: "when no strong operations are being committed" and weak ones accumulate."""
    cluster = Cluster(3, noop_ticks=5)
    cluster.settle(20)
    assert cluster.requests == {}
    weak = cluster.weak(1, "append", "a")
    strong = cluster.strong(1, "length")

    cluster.settle(60)

    assert list(cluster.requests) == [weak, strong]


def test_only_one_no_op_is_pending_at_a_time() -> None:
    """Section 4.4: a no-op of a minority has no effect, so no further ones are issued."""
    cluster = Cluster(3, noop_ticks=5)
    cluster.partition({0}, {1, 2})
    cluster.weak(0, "append", "a")
    cluster.settle(200)

    noops = [each for each in cluster.requests.values() if each.operation == NOOP]

    assert [each.id.replica for each in noops] == [0]
    cluster.heal()
    cluster.settle(60)
    assert cluster.tentative(0) == cluster.tentative(1) == []


def test_a_client_may_invoke_a_no_op() -> None:
    """Section 4.4: the no-op is an operation of every data type."""
    cluster = Cluster(3, REGISTER)
    weak = cluster.weak(2, "write", 5)
    strong = cluster.strong(2, "noop")
    cluster.flush()

    assert cluster.requests[strong].operation == Operation("noop")
    assert cluster.committed(0) == [weak, strong]


# --- many schedules ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_every_schedule_satisfies_theorem_1(seed: int) -> None:
    """Theorem 1: S is `committed`, determines the stable responses, and respects both orders."""
    assert run(seed).quiescence_failure is None
    for checker in (
        "commit_order",
        "replay",
        "real_time",
        "session_order",
        "responses",
        "convergence",
    ):
        assert verdicts(seed)[checker] == Ok(checker)
