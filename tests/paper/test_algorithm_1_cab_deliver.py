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


def test_the_id_enters_the_causal_context_and_only_now() -> None:
    """Line 34: "causalCtx = causalCtx ∪ {r.id}"; Section 4.2: "only upon CAB-deliver"."""
    cluster = Cluster()
    id = cluster.strong(1, "append", "a")
    cluster.deliver(Cast, to=2)
    assert cluster.context(cluster.strong(2, "append", "before")) == set()

    cluster.flush()

    assert id in cluster.context(cluster.strong(2, "append", "after"))


def test_it_enters_the_causal_context_of_each_replica_when_that_one_delivers_it() -> None:
    """Line 34 is about the replica that delivers, whatever others have done."""
    cluster = Cluster()
    cluster.hold(Accept, to=2)
    cluster.hold(Vote, to=2)
    id = cluster.strong(1, "append", "a")
    cluster.flush()

    assert cluster.cab_delivered(1) == [id]
    assert cluster.cab_delivered(2) == []
    assert cluster.context(cluster.strong(1, "append", "b")) == {id}
    assert cluster.context(cluster.strong(2, "append", "c")) == set()


def test_requests_are_committed_in_the_order_of_cab_not_of_their_timestamps() -> None:
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
    assert [cluster.listed(each) for each in cluster.members] == [["late", "early"]] * 3


def test_nothing_is_delivered_before_its_request_is_here() -> None:
    """Section 4.2: "only if it had already RB-delivered op's Req structure"."""
    cluster = Cluster()
    id = cluster.strong(1, "append", "a")
    cluster.hold(Cast, to=2)
    cluster.flush()
    assert cluster.cab_delivered(0) == [id]
    assert cluster.cab_delivered(2) == []

    cluster.deliver(Cast, to=2)

    assert cluster.cab_delivered(2) == [id]


def test_an_id_that_was_delivered_is_delivered_again_only_after_a_restart() -> None:
    """Lines 32-35 happen once per request; a replica that restarts begins its lists anew."""
    cluster = Cluster()
    id = cluster.strong(1, "append", "a")
    cluster.settle()
    assert cluster.cab_delivered(2) == [id]

    cluster.crash(2)
    cluster.restart(2)
    cluster.settle()

    assert cluster.cab_delivered(2) == [id]
    assert cluster.committed(2) == [id]
    assert cluster.listed(2) == ["a"]
