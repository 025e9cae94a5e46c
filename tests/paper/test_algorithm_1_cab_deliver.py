"""Algorithm 1, lines 32-35: `CAB-deliver`."""

from creekdb.protocol.messages import Accept, Cast, Vote
from tests.paper.harness import Cluster


def test_the_request_moves_from_tentative_to_committed() -> None:
    """Line 33: "r = x : (x ∈ tentative ∧ x.id = id)"; line 35: "commit(r)"."""
    cluster = Cluster()
    id = cluster.strong(1, "append", "a")
    cluster.hold(Vote)
    cluster.flush()
    assert cluster.tentative(0) == [id]
    assert cluster.committed(0) == []

    cluster.release()
    cluster.flush()

    assert cluster.tentative(0) == []
    assert cluster.committed(0) == [id]


def test_the_id_enters_the_causal_context_only_on_delivery() -> None:
    """Line 34: "causalCtx = causalCtx ∪ {r.id}"; Section 4.2: "only upon CAB-deliver"."""
    cluster = Cluster()
    id = cluster.strong(1, "append", "a")
    cluster.deliver(Cast, to=2)
    assert cluster.context(cluster.strong(2, "append", "before")) == set()

    cluster.flush()

    assert id in cluster.context(cluster.strong(2, "append", "after"))


def test_the_causal_context_of_a_replica_depends_on_its_own_deliveries() -> None:
    """Line 34 applies to the delivering replica only, independently of the others."""
    cluster = Cluster()
    cluster.hold(Accept, to=2)
    cluster.hold(Vote, to=2)
    id = cluster.strong(1, "append", "a")
    cluster.flush()

    assert cluster.cab_delivered(1) == [id]
    assert cluster.cab_delivered(2) == []
    assert cluster.context(cluster.strong(1, "append", "b")) == {id}
    assert cluster.context(cluster.strong(2, "append", "c")) == set()


def test_requests_are_committed_in_cab_order_not_timestamp_order() -> None:
    """Section 4.1: "The order of operations on the committed list is determined by" CAB."""
    cluster = Cluster()
    late = cluster.strong(1, "append", "late", at=20)
    cluster.deliver(Cast, to=0, carrying=late)
    early = cluster.strong(2, "append", "early", at=10)
    cluster.deliver(Cast, to=0, carrying=early)
    assert cluster.tentative(0) == [early, late]

    cluster.flush()

    assert [cluster.cab_delivered(each) for each in cluster.members] == [[late, early]] * 3
    assert [cluster.committed(each) for each in cluster.members] == [[late, early]] * 3
    assert [cluster.state_values(each) for each in cluster.members] == [["late", "early"]] * 3


def test_delivery_waits_for_the_request() -> None:
    """Section 4.2: "only if it had already RB-delivered op's Req structure"."""
    cluster = Cluster()
    id = cluster.strong(1, "append", "a")
    cluster.hold(Cast, to=2)
    cluster.flush()
    assert cluster.cab_delivered(0) == [id]
    assert cluster.cab_delivered(2) == []

    cluster.deliver(Cast, to=2)

    assert cluster.cab_delivered(2) == [id]


def test_each_id_is_delivered_once_per_incarnation() -> None:
    """Lines 32-35 run once per request. A restarted replica starts with empty lists."""
    cluster = Cluster()
    id = cluster.strong(1, "append", "a")
    cluster.settle()
    assert cluster.cab_delivered(2) == [id]

    cluster.crash(2)
    cluster.restart(2)
    cluster.settle()

    assert cluster.cab_delivered(2) == [id]
    assert cluster.committed(2) == [id]
    assert cluster.state_values(2) == ["a"]
