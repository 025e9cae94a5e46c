"""Algorithm 1, lines 58-61: rolling back."""

from creekdb.protocol.messages import Cast
from tests.paper.harness import EXECUTE, ROLLBACK, Cluster


def cluster_with_two_to_roll_back() -> Cluster:
    """Replica 2 executed 20 and 30, has just learned of 10, and is paused."""
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
    cluster = cluster_with_two_to_roll_back()

    assert cluster.step(2) == (ROLLBACK, (0, 2))
    assert cluster.listed(2) == [20]
    assert cluster.step(2) == (ROLLBACK, (0, 1))
    assert cluster.listed(2) == []


def test_a_rollback_takes_the_operation_out_of_the_state() -> None:
    """Line 60: "state.rollback(head)"."""
    cluster = cluster_with_two_to_roll_back()
    assert cluster.listed(2) == [20, 30]

    cluster.step(2)
    cluster.step(2)

    assert cluster.replicas[2].state() == {}


def test_nothing_is_executed_as_long_as_something_is_to_be_rolled_back() -> None:
    """Line 62: "upon toBeRolledBack = [] ∧ toBeExecuted ≠ []"."""
    cluster = cluster_with_two_to_roll_back()

    assert len(cluster.tasks[2]) == 1
    works = [cluster.step(2)[0] for _ in range(5)]

    assert works == [ROLLBACK, ROLLBACK, EXECUTE, EXECUTE, EXECUTE]
    assert not cluster.tasks[2]
    assert cluster.listed(2) == [10, 20, 30]


def test_a_rollback_that_becomes_necessary_overtakes_an_execution_under_way() -> None:
    """Lines 58 and 62: what ran beside the change was not on the state that line 64 asks for."""
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

    assert cluster.listed(3) == [20]
    assert [cluster.step(3) for _ in range(4)] == [
        (ROLLBACK, first),
        (EXECUTE, third),
        (EXECUTE, first),
        (EXECUTE, second),
    ]
    assert cluster.listed(3) == [10, 20, 30]


def test_the_client_is_not_told_of_a_rollback() -> None:
    """Lines 58-61 return nothing: only executions answer."""
    cluster = Cluster()
    id = cluster.strong(2, "append", "late", at=20)
    cluster.pause(2)
    cluster.weak(1, "append", "early", at=10)
    cluster.deliver(Cast, to=2)
    before = cluster.answers(id)

    assert cluster.step(2) == (ROLLBACK, id)

    assert cluster.answers(id) == before


def test_a_committed_request_in_its_place_is_never_rolled_back() -> None:
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
