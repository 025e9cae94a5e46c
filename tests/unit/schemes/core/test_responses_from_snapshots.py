"""Responses to requests that a snapshot covers."""

from creekdb.datatypes.kv import KV
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import Checkpoint, Snapshot
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
from tests.paper.harness import Cluster


def test_committed_requests_without_execution_get_their_responses_from_the_snapshot() -> None:
    cluster = Cluster(checkpoint_every=4)
    cluster.pause(2)
    weak = cluster.weak(2, "append", "w")
    strong = cluster.strong(2, "append", "s")
    cluster.flush()
    cluster.settle(8)  # committed at 2 and reported by Progress, but not executed there
    cluster.partition({0, 1}, {2})
    for _ in range(20):
        cluster.strong(0, "length")
        cluster.flush()
    cluster.settle(8)
    cluster.heal()
    cluster.settle(60)
    cluster.resume(2)
    cluster.settle()
    assert cluster.responses_to(weak)
    assert cluster.responses_to(strong)


def test_an_execution_from_before_a_snapshot_is_discarded() -> None:
    replica = BasicReplica(0, Settings(members=(0, 1, 2)), KV)
    replica.invoke(KV.call("increment", "hits", 1), strong=False, session=1, now=10)
    (stale,) = replica.take_effects().tasks
    execution = replica.run(stale)

    checkpoint = Checkpoint(1, 1, Dots({1: (1, 2)}), 5, state=(("hits", 100),), outcomes=())
    replica.receive(Snapshot(checkpoint), sender=1, now=20)
    (fresh,) = replica.take_effects().tasks
    replica.completed(stale, execution, now=30)
    replica.completed(fresh, replica.run(fresh), now=40)

    assert replica.view.state() == {"hits": 101}
    (response,) = replica.take_effects().respond
    assert response.outcome.value == 101
