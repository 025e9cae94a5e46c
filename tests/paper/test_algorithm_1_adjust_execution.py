"""Algorithm 1, lines 42-47: `adjustExecution`, observed through execution and rollback tasks."""

from creekdb.protocol.messages import Cast
from tests.paper.harness import EXECUTE, ROLLBACK, Cluster


def test_a_request_at_the_end_causes_no_rollback() -> None:
    """Section 4.2: "In an ideal case, op is simply added to the end of the toBeExecuted list"."""
    cluster = Cluster()
    first = cluster.weak(0, "append", "a", at=10)
    second = cluster.weak(1, "append", "b", at=20)

    cluster.deliver(Cast, to=2)

    assert cluster.done[2] == [(EXECUTE, first), (EXECUTE, second)]


def test_the_executed_common_prefix_is_kept() -> None:
    """Lines 43 and 45: "executed = inOrder", the longest common prefix of old and new order."""
    cluster = Cluster(4)
    first = cluster.weak(0, "append", "a", at=10)
    third = cluster.weak(1, "append", "c", at=30)
    cluster.deliver(Cast, to=3)
    second = cluster.weak(2, "append", "b", at=20)

    cluster.deliver(Cast, sender=2, to=3)

    assert cluster.done[3] == [
        (EXECUTE, first),
        (EXECUTE, third),
        (ROLLBACK, third),
        (EXECUTE, second),
        (EXECUTE, third),
    ]


def test_out_of_order_requests_are_rolled_back_newest_first() -> None:
    """Line 44: "outOfOrder = [x | x ∈ executed ∧ x ∉ inOrder]"; line 47: "reverse(outOfOrder)"."""
    cluster = Cluster()
    later = [cluster.weak(0, "append", each, at=10 + each) for each in range(3)]
    cluster.deliver(Cast, to=2)
    early = cluster.weak(1, "append", "early", at=1)

    cluster.deliver(Cast, sender=1, to=2)

    assert cluster.done[2][3:6] == [(ROLLBACK, each) for each in reversed(later)]
    assert cluster.done[2][6:] == [(EXECUTE, early), *((EXECUTE, each) for each in later)]
    assert cluster.state_values(2) == ["early", 0, 1, 2]


def test_unexecuted_requests_are_executed_in_the_new_order() -> None:
    """Line 46: "toBeExecuted = [x | x ∈ newOrder ∧ x ∉ executed]"."""
    cluster = Cluster(4)
    cluster.pause(3)
    at = {0: 30, 1: 10, 2: 20}
    ids = {replica: cluster.weak(replica, "append", at[replica], at=at[replica]) for replica in at}

    cluster.deliver(Cast, to=3)
    overtaken = cluster.step(3)

    assert overtaken == (EXECUTE, ids[0])
    assert [cluster.step(3) for _ in range(3)] == [(EXECUTE, ids[each]) for each in (1, 2, 0)]
    assert cluster.state_values(3) == [10, 20, 30]


def test_reordering_unexecuted_requests_causes_no_rollback() -> None:
    """Footnote 4: "the tail of the toBeExecuted list will undergo reordering"."""
    cluster = Cluster()
    cluster.pause(2)
    later = cluster.weak(0, "append", "b", at=20)
    early = cluster.weak(1, "append", "a", at=10)
    cluster.deliver(Cast, to=2)

    cluster.resume(2)

    assert ROLLBACK not in [kind for kind, _ in cluster.done[2]]
    assert cluster.tentative(2) == [early, later]
    assert cluster.state_values(2) == ["a", "b"]


def test_pending_rollbacks_precede_later_ones() -> None:
    """Line 47: "toBeRolledBack = toBeRolledBack · reverse(outOfOrder)"."""
    cluster = Cluster(4)
    ids = [cluster.weak(0, "append", at, at=at) for at in (20, 40)]
    cluster.deliver(Cast, to=3)
    cluster.pause(3)
    middle = cluster.weak(1, "append", 30, at=30)
    cluster.deliver(Cast, sender=1, to=3)
    first = cluster.weak(2, "append", 10, at=10)
    cluster.deliver(Cast, sender=2, to=3)
    before = len(cluster.done[3])

    cluster.resume(3)

    assert cluster.done[3][before:] == [
        (ROLLBACK, ids[1]),
        (ROLLBACK, ids[0]),
        (EXECUTE, first),
        (EXECUTE, ids[0]),
        (EXECUTE, middle),
        (EXECUTE, ids[1]),
    ]
    assert cluster.state_values(3) == [10, 20, 30, 40]


def test_a_pending_rollback_is_not_added_again() -> None:
    """Lines 44-45: a request that left `executed` is not out of order a second time."""
    cluster = Cluster(4)
    late = cluster.weak(0, "append", "late", at=50)
    cluster.deliver(Cast, to=3)
    cluster.pause(3)
    for replica in (1, 2):
        cluster.weak(replica, "append", replica, at=replica)
        cluster.deliver(Cast, sender=replica, to=3)

    cluster.resume(3)

    assert cluster.done[3].count((ROLLBACK, late)) == 1
    assert cluster.state_values(3) == [1, 2, "late"]


def test_a_request_between_two_unexecuted_ones_is_executed_between_them() -> None:
    """Line 46, while an execution is in progress."""
    cluster = Cluster(4)
    cluster.pause(3)
    first = cluster.weak(0, "append", 10, at=10)
    third = cluster.weak(1, "append", 30, at=30)
    second = cluster.weak(2, "append", 20, at=20)
    cluster.deliver(Cast, sender=0, to=3)
    cluster.deliver(Cast, sender=1, to=3)
    assert cluster.step(3) == (EXECUTE, first)
    task, execution = cluster.begin(3)
    assert task.request.id == third

    cluster.deliver(Cast, sender=2, to=3)
    cluster.finish(3, task, execution)

    assert [cluster.step(3) for _ in range(2)] == [(EXECUTE, second), (EXECUTE, third)]
    assert cluster.state_values(3) == [10, 20, 30]
