"""Sections 3.4, 4.1, 4.3 and 4.4: what weak and strong operations promise their clients."""

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


def told(cluster: Cluster, id: Dot, kind: ResponseKind) -> list[Any]:
    return [value for each, value in cluster.answers(id) if each is kind]


def delays_until_stable(cluster: Cluster, id: Dot) -> int:
    """Communication delays, each of which lets every message in flight arrive; no time passes."""
    delays = 0
    while not told(cluster, id, STABLE):
        assert cluster.in_flight, "there is nothing left to wait for"
        cluster.round()
        delays += 1
    return delays


# --- weak operations (Section 3.4) -------------------------------------------------------------


def test_a_weak_operation_is_answered_before_any_message_is_delivered() -> None:
    """Section 3.4: "issues a response to the client without waiting for coordination"."""
    cluster = Cluster(5, led=False)
    id = cluster.weak(3, "append", "a")

    assert cluster.answers(id) == [(TENTATIVE, 1)]
    assert {each.sender for each in cluster.in_flight} == {3}


def test_a_weak_operation_is_answered_by_a_replica_that_is_alone() -> None:
    """Section 3.4: it executes "on the local state", even if nobody else is up."""
    cluster = Cluster(3)
    for other in (0, 2):
        cluster.crash(other)
    cluster.settle()

    assert cluster.answers(cluster.weak(1, "append", "a")) == [(TENTATIVE, 1)]


def test_in_a_minority_partition_weak_operations_are_answered_and_converge() -> None:
    """Section 3.4: "the replicas' states in each subgroup converge"."""
    cluster = Cluster(5)
    cluster.partition({0, 1}, {2, 3, 4})
    for replica in cluster.members:
        assert told(cluster, cluster.weak(replica, "append", replica), TENTATIVE) != []
    cluster.settle()

    assert cluster.listed(0) == cluster.listed(1) == [0, 1]
    assert cluster.listed(2) == cluster.listed(3) == cluster.listed(4) == [2, 3, 4]


def test_in_a_minority_partition_strong_operations_are_answered_tentatively() -> None:
    """Section 1: each partition is "capable of … obtaining tentative responses"."""
    cluster = Cluster(5)
    cluster.partition({0, 1}, {2, 3, 4})
    id = cluster.strong(1, "append", "a")

    cluster.settle()

    assert cluster.answers(id) == [(TENTATIVE, 1)]


def test_a_weak_response_may_not_be_the_final_one() -> None:
    """Section 3.4: it "might not reflect the state of replicas once they synchronize"."""
    cluster = Cluster(3, REGISTER)
    cluster.weak(1, "write", "theirs", at=10)
    cluster.weak(2, "write", "mine", at=5)
    seen = cluster.weak(2, "read", at=20)
    assert cluster.answers(seen) == [(TENTATIVE, "mine")]

    cluster.flush()

    assert cluster.answers(cluster.weak(2, "read")) == [(TENTATIVE, "theirs")]


# --- strong operations (Sections 3.4 and 4.3) --------------------------------------------------


@pytest.mark.parametrize("replicas", [3, 4, 5])
def test_a_strong_operation_gets_its_stable_response_from_exactly_a_majority(
    replicas: int,
) -> None:
    """Section 3.4: a stable response "only after the replicas synchronize"."""
    majority = replicas // 2 + 1
    cluster = Cluster(replicas)
    cluster.partition(range(majority - 1), range(majority - 1, replicas))
    alone = cluster.strong(0, "append", "a")
    cluster.settle()
    assert told(cluster, alone, STABLE) == []

    cluster.partition(range(majority), range(majority, replicas))
    cluster.settle(120)

    assert told(cluster, alone, STABLE) == [1]


def test_a_majority_goes_on_without_its_leader() -> None:
    """Section 3.4: with Ω consensus can be solved "in the presence of failures"."""
    cluster = Cluster(5)
    cluster.partition({0, 1}, {2, 3, 4})
    cluster.settle()

    id = cluster.strong(4, "append", "a")
    cluster.flush()

    assert told(cluster, id, STABLE) == [1]


@pytest.mark.parametrize("replicas", [5, 6, 7])
def test_the_stable_response_takes_three_communication_delays(replicas: int) -> None:
    """Section 5: the request's gossip proposes it; then come the proposal and the votes."""
    cluster = Cluster(replicas)

    for origin in cluster.members[1:]:
        assert delays_until_stable(cluster, cluster.strong(origin, "append", origin)) == 3
        cluster.flush()


@pytest.mark.parametrize("replicas", [2, 3, 4, 5, 6, 7])
def test_the_stable_response_takes_two_where_the_origin_leads(replicas: int) -> None:
    """Section 5: the leader proposes at once; its proposal goes out with the request itself."""
    cluster = Cluster(replicas)

    assert delays_until_stable(cluster, cluster.strong(0, "append", "a")) == 2


@pytest.mark.parametrize("origin", [1, 2])
def test_of_three_replicas_a_follower_needs_two_as_well(origin: int) -> None:
    """Section 5: the leader's vote comes with the proposal; the origin's makes a majority."""
    cluster = Cluster(3)

    assert delays_until_stable(cluster, cluster.strong(origin, "append", "a")) == 2


def test_alone_a_replica_needs_no_communication() -> None:
    """A majority of one is there from the start."""
    cluster = Cluster(1)

    assert delays_until_stable(cluster, cluster.strong(0, "append", "a")) == 0


def test_many_strong_operations_at_once_need_no_more_delays_than_one() -> None:
    """Section 5: instances are pipelined and nobody waits for a batch to fill."""
    cluster = Cluster(5)
    ids = [cluster.strong(replica, "append", "x") for replica in (1, 2, 3, 4) for _ in range(5)]

    for _ in range(3):
        cluster.round()

    assert all(len(told(cluster, id, STABLE)) == 1 for id in ids)


def test_an_operation_invoked_after_a_stable_response_comes_after_it() -> None:
    """Section 4.3: "when … op returns a stable response before another … op′ starts"."""
    cluster = Cluster(5)
    first = cluster.strong(1, "append", "first", at=10**9)
    delays_until_stable(cluster, first)

    second = cluster.strong(4, "append", "second", at=1)
    cluster.settle()

    for replica in cluster.members:
        assert cluster.committed(replica) == [first, second]
    assert told(cluster, second, STABLE) == [2]


def test_an_operation_invoked_at_a_replica_that_has_heard_nothing_still_comes_after() -> None:
    """Section 4.3: real-time order is CAB's, and not a matter of what the issuer knows."""
    cluster = Cluster(5)
    cluster.hold(to=4)
    first = cluster.strong(1, "append", "first")
    cluster.flush()
    assert told(cluster, first, STABLE) == [1]
    second = cluster.strong(4, "append", "second", at=1)
    assert told(cluster, second, TENTATIVE) == [1]

    cluster.release()
    cluster.settle()

    assert told(cluster, second, STABLE) == [2]


def test_a_stable_response_reflects_the_replicas_own_earlier_operations() -> None:
    """Section 4.3: S "respects the program order of every replica", on a clock that stands."""
    cluster = Cluster(3)
    ids = [cluster.weak(1, "append", each, at=10) for each in "ab"]
    strong = cluster.strong(1, "get_all", at=10)
    cluster.settle()

    assert cluster.committed(2) == [*ids, strong]
    assert told(cluster, strong, STABLE) == [("a", "b")]


def test_a_stable_response_reflects_every_weak_operation_the_tentative_one_did() -> None:
    """Section 1, point 5: at least what "would be visible to op's speculative execution"."""
    cluster = Cluster(3)
    for replica in cluster.members:
        cluster.weak(replica, "append", replica)
    cluster.flush()
    strong = cluster.strong(2, "get_all")
    cluster.settle()

    assert cluster.answers(strong) == [(TENTATIVE, (0, 1, 2)), (STABLE, (0, 1, 2))]


def test_a_weak_operation_executes_after_the_strong_one_invoked_before_it() -> None:
    """Section 4.3: "the execution of operations always respects the order" of invocation."""
    cluster = Cluster(3, led=False)
    cluster.strong(1, "append", "strong")
    weak = cluster.weak(1, "get_all")

    assert cluster.answers(weak) == [(TENTATIVE, ("strong",))]


# --- the causal context (Section 4.1) ----------------------------------------------------------


def test_no_uncommitted_strong_operation_is_in_a_context_and_so_none_is_dragged_along() -> None:
    """Section 4.2: it "does not include … any strong operations that are not yet committed"."""
    cluster = Cluster(3)
    cluster.hold(Accept)
    pending = cluster.strong(1, "append", "pending")
    cluster.flush()
    weak = cluster.weak(2, "append", "weak")
    strong = cluster.strong(2, "append", "strong")

    assert cluster.tentative(2) == [pending, weak, strong]
    assert cluster.context(strong) == {weak}


def test_a_strong_operation_stabilises_the_weak_ones_of_its_context_everywhere() -> None:
    """Section 4.1: "Each replica will also stabilize these operations" on CAB-delivery."""
    cluster = Cluster(4)
    weak = [cluster.weak(each, "append", each) for each in (0, 3)]
    cluster.flush()
    assert [cluster.tentative(each) for each in cluster.members] == [weak] * 4

    strong = cluster.strong(1, "length")
    cluster.flush()

    assert [cluster.committed(each) for each in cluster.members] == [[*weak, strong]] * 4
    assert [cluster.tentative(each) for each in cluster.members] == [[]] * 4


def test_weak_operations_outside_the_context_stay_unstable() -> None:
    """Section 4.1: `tentative` holds the "weak operations that are not yet stabilized"."""
    cluster = Cluster(3)
    strong = cluster.strong(1, "length")
    weak = cluster.weak(2, "append", "w")
    cluster.settle()

    assert [cluster.committed(each) for each in cluster.members] == [[strong]] * 3
    assert [cluster.tentative(each) for each in cluster.members] == [[weak]] * 3


def test_the_committed_list_only_ever_grows_at_its_end() -> None:
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


def test_clients_may_see_operations_in_opposite_orders_for_a_while() -> None:
    """Section 4.3: "the replicas may temporarily disagree on the relative order"."""
    cluster = Cluster(4)
    cluster.partition({0, 1}, {2, 3})
    cluster.weak(0, "append", "a")
    cluster.weak(2, "append", "b")
    cluster.settle()
    left, right = (cluster.weak(each, "get_all") for each in (1, 3))
    assert cluster.answers(left) == [(TENTATIVE, ("a",))]
    assert cluster.answers(right) == [(TENTATIVE, ("b",))]

    cluster.heal()
    cluster.settle()
    final = cluster.strong(3, "get_all")
    cluster.settle()

    assert [cluster.listed(each) for each in cluster.members] == [["a", "b"]] * 4
    assert told(cluster, final, STABLE) == [("a", "b")]


def test_the_order_that_was_seen_may_turn_round_once_and_then_stays() -> None:
    """Section 4.3: observed "only temporarily … in an order which is not" the final one."""
    cluster = Cluster(3)
    weak = cluster.weak(1, "append", "weak", at=10)
    cluster.drop(Cast)
    strong = cluster.strong(2, "append", "strong", at=20)
    cluster.deliver(Cast, to=1)
    assert cluster.answers(cluster.weak(1, "get_all")) == [(TENTATIVE, ("weak", "strong"))]

    cluster.settle()

    assert cluster.answers(cluster.weak(1, "get_all")) == [(TENTATIVE, ("strong", "weak"))]
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
    assert len({tuple(cluster.listed(each)) for each in cluster.members}) > 1

    cluster.heal()
    cluster.settle(120)

    assert len({tuple(cluster.listed(each)) for each in cluster.members}) == 1
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


def test_the_no_op_changes_nothing_and_answers_nobody() -> None:
    """Section 4.4: it is there to be ordered."""
    cluster = Cluster(3, noop_ticks=5)
    id = cluster.weak(1, "append", "a")
    cluster.settle()

    assert len(cluster.committed(1)) == 2
    assert [cluster.listed(each) for each in cluster.members] == [["a"]] * 3
    assert {response.id for _, response in cluster.responses} == {id}


def test_no_no_op_is_issued_when_there_is_nothing_to_stabilise() -> None:
    """Section 4.4: "when no strong operations are being committed" and weak ones pile up."""
    cluster = Cluster(3, noop_ticks=5)
    cluster.settle(20)
    assert cluster.requests == {}
    weak = cluster.weak(1, "append", "a")
    strong = cluster.strong(1, "length")

    cluster.settle(60)

    assert list(cluster.requests) == [weak, strong]


def test_one_no_op_is_under_way_at_a_time() -> None:
    """Section 4.4: in a minority no no-op helps, and none is piled on another."""
    cluster = Cluster(3, noop_ticks=5)
    cluster.partition({0}, {1, 2})
    cluster.weak(0, "append", "a")
    cluster.settle(200)

    noops = [each for each in cluster.requests.values() if each.operation == NOOP]

    assert [each.id.replica for each in noops] == [0]
    cluster.heal()
    cluster.settle(60)
    assert cluster.tentative(0) == cluster.tentative(1) == []


def test_a_client_may_ask_for_a_no_op_itself() -> None:
    """Section 4.4: to stabilise is an operation of every data type."""
    cluster = Cluster(3, REGISTER)
    weak = cluster.weak(2, "write", 5)
    strong = cluster.strong(2, "noop")
    cluster.flush()

    assert cluster.requests[strong].operation == Operation("noop")
    assert cluster.committed(0) == [weak, strong]


# --- over many schedules -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_on_every_schedule_clients_and_replicas_see_what_theorem_1_says(seed: int) -> None:
    """Theorem 1: S is `committed`, gives the stable responses, and keeps both orders."""
    assert run(seed).quiescence_failure is None
    for checker in (
        "commit_order",
        "replay",
        "real_time",
        "session_order",
        "answers",
        "convergence",
    ):
        assert verdicts(seed)[checker] == Ok(checker)
