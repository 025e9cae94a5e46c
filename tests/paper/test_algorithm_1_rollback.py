"""Algorithm 1, lines 58-61: rollbacks."""

from creekdb.protocol.messages import Cast
from tests.paper.harness import EXECUTE, ROLLBACK, Cluster


def cluster_with_two_pending_rollbacks() -> Cluster:
    """Replica 2 has executed 20 and 30, has just received 10, and is paused."""
    cluster = Cluster()
    for at in (20, 30):
        cluster.weak(0, "append", at, at=at)
    cluster.deliver(Cast, to=2)
    cluster.pause(2)
    cluster.weak(1, "append", 10, at=10)
    cluster.deliver(Cast, sender=1, to=2)
    cluster.done[2].clear()
    return cluster


def test_rollbacks_happen_one_by_one_from_the_head() -> None:
    """Lines 58-59: "[head] · tail = toBeRolledBack"; line 61: "toBeRolledBack = tail"."""
    cluster = cluster_with_two_pending_rollbacks()

    assert cluster.step(2) == (ROLLBACK, (0, 2))
    assert cluster.state_values(2) == [20]
    assert cluster.step(2) == (ROLLBACK, (0, 1))
    assert cluster.state_values(2) == []


def test_a_rollback_removes_the_effects_from_the_state() -> None:
    """Line 60: "state.rollback(head)"."""
    cluster = cluster_with_two_pending_rollbacks()
    assert cluster.state_values(2) == [20, 30]

    cluster.step(2)
    cluster.step(2)

    assert cluster.replicas[2].view.state() == {}


def test_pending_rollbacks_precede_all_executions() -> None:
    """Line 62: "upon toBeRolledBack = [] ∧ toBeExecuted ≠ []"."""
    cluster = cluster_with_two_pending_rollbacks()

    assert len(cluster.tasks[2]) == 1
    kinds = [cluster.step(2)[0] for _ in range(5)]

    assert kinds == [ROLLBACK, ROLLBACK, EXECUTE, EXECUTE, EXECUTE]
    assert not cluster.tasks[2]
    assert cluster.state_values(2) == [10, 20, 30]


def test_a_new_rollback_discards_an_execution_in_progress() -> None:
    """Lines 58 and 62: the execution ran on a state other than the one of line 64."""
    cluster = Cluster(4)
    first = cluster.weak(0, "append", 20, at=20)
    cluster.deliver(Cast, to=3)
    cluster.pause(3)
    second = cluster.weak(1, "append", 30, at=30)
    cluster.deliver(Cast, sender=1, to=3)
    task, execution = cluster.begin(3)
    assert task.request.id == second
    third = cluster.weak(2, "append", 10, at=10)
    cluster.deliver(Cast, sender=2, to=3)

    cluster.finish(3, task, execution)

    assert cluster.state_values(3) == [20]
    assert [cluster.step(3) for _ in range(4)] == [
        (ROLLBACK, first),
        (EXECUTE, third),
        (EXECUTE, first),
        (EXECUTE, second),
    ]
    assert cluster.state_values(3) == [10, 20, 30]


def test_a_rollback_sends_no_response() -> None:
    """Lines 58-61 return no response; only executions do."""
    cluster = Cluster()
    id = cluster.strong(2, "append", "late", at=20)
    cluster.pause(2)
    cluster.weak(1, "append", "early", at=10)
    cluster.deliver(Cast, to=2)
    before = cluster.responses_to(id)

    assert cluster.step(2) == (ROLLBACK, id)

    assert cluster.responses_to(id) == before


def test_an_executed_committed_request_is_never_rolled_back() -> None:
    """Section 4.1: "op ∈ committed, once executed, will not be executed again"."""
    cluster = Cluster()
    weak = cluster.weak(1, "append", "w")
    strong = cluster.strong(1, "append", "s")
    cluster.flush()
    for replica in cluster.members:
        cluster.done[replica].clear()

    cluster.weak(0, "append", "early", at=1)
    cluster.strong(2, "append", "earlier", at=0)
    cluster.settle()

    for replica in cluster.members:
        assert cluster.committed(replica)[:2] == [weak, strong]
        assert not {weak, strong} & {id for _, id in cluster.done[replica]}
