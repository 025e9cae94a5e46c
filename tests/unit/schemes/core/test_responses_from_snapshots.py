"""A client keeps its right to an answer when its replica is carried forward by a snapshot."""

from creekdb.datatypes.kv import KV
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import Checkpoint, Snapshot
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
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


def test_an_execution_from_before_a_snapshot_does_not_count_after_it() -> None:
    replica = BasicReplica(0, Settings(members=(0, 1, 2)), KV)
    replica.invoke(KV.call("increment", "hits", 1), strong=False, session=1, now=10)
    (stale,) = replica.take_effects().tasks
    execution = replica.run(stale)

    checkpoint = Checkpoint(1, 1, Dots({1: (1, 2)}), 5, state=(("hits", 100),), outcomes=())
    replica.receive(Snapshot(checkpoint), sender=1, now=20)
    (fresh,) = replica.take_effects().tasks
    replica.completed(stale, execution, now=30)
    replica.completed(fresh, replica.run(fresh), now=40)

    assert replica.state() == {"hits": 101}
    (response,) = replica.take_effects().respond
    assert response.outcome.value == 101
