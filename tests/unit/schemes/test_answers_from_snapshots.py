"""A client keeps its right to an answer when its replica is carried forward by a snapshot."""

from tests.paper.harness import Cluster


def test_a_request_that_was_committed_but_not_executed_is_answered_from_the_snapshot() -> None:
    cluster = Cluster(checkpoint_every=4)
    cluster.pause(2)
    weak = cluster.weak(2, "append", "w")
    strong = cluster.strong(2, "append", "s")
    cluster.flush()
    cluster.settle(8)  # committed at 2, and told by Progress, but not executed there
    cluster.partition({0, 1}, {2})
    for _ in range(20):
        cluster.strong(0, "length")
        cluster.flush()
    cluster.settle(8)
    cluster.heal()
    cluster.settle(60)
    cluster.resume(2)
    cluster.settle()
    assert cluster.answers(weak)
    assert cluster.answers(strong)
