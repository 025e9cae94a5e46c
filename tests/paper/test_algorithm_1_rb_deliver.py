"""Algorithm 1, lines 26-31: `RB-deliver`."""

from creekdb.protocol.messages import Cast, PullResponse
from tests.paper.harness import EXECUTE, Cluster


def test_an_own_request_is_not_delivered_again() -> None:
    """Lines 27-28: "if r.id.first = i then return"."""
    cluster = Cluster()
    id = cluster.weak(1, "append", "a")
    cluster.flush()

    cluster.inject(PullResponse((cluster.requests[id],)), sender=2, to=1)

    assert cluster.rb_delivered(1) == []
    assert cluster.tentative(1) == [id]
    assert cluster.done[1] == [(EXECUTE, id)]
    assert cluster.rejected(1) == {}


def test_a_weak_request_enters_the_causal_context() -> None:
    """Lines 29-30: "causalCtx = causalCtx ∪ {r.id}"."""
    cluster = Cluster()
    id = cluster.weak(1, "append", "a")
    assert cluster.context(cluster.strong(2, "append", "before")) == set()

    cluster.deliver(Cast, to=2, carrying=id)

    assert cluster.context(cluster.strong(2, "append", "after")) == {id}


def test_a_strong_request_does_not_enter_the_causal_context() -> None:
    """Line 29: "if ¬r.strongOp"; it must be CAB-delivered first (line 34)."""
    cluster = Cluster()
    id = cluster.strong(1, "append", "a")

    cluster.deliver(Cast, to=2, carrying=id)

    assert cluster.tentative(2) == [id]
    assert cluster.context(cluster.strong(2, "append", "b")) == set()


def test_a_delivered_request_enters_tentative_in_order() -> None:
    """Line 31: "adjustTentativeOrder(r)"."""
    cluster = Cluster()
    weak = cluster.weak(1, "append", "a", at=10)
    strong = cluster.strong(0, "append", "b", at=5)

    cluster.deliver(Cast, to=2)

    assert cluster.tentative(2) == [strong, weak]
    assert cluster.rb_delivered(2) == [weak, strong]


def test_a_delivered_request_is_executed_without_a_response() -> None:
    """Section 3.4: "Other replicas also execute the operation … as soon as they receive" it."""
    cluster = Cluster()
    id = cluster.weak(1, "append", "a")

    cluster.deliver(Cast, to=2)

    assert cluster.done[2] == [(EXECUTE, id)]
    assert cluster.state_values(2) == ["a"]
    assert [replica for replica, _ in cluster.responses] == [1]


def test_a_strong_request_is_delivered_after_its_causal_context() -> None:
    """Section 4.1: the context "must be executed by each replica before the op is speculatively
    executed (hence, a replica might have to postpone the execution of op)"."""
    cluster = Cluster(4)
    missing = cluster.weak(1, "append", "a")
    cluster.deliver(Cast, to=2)
    strong = cluster.strong(2, "append", "b")
    assert cluster.context(strong) == {missing}

    cluster.deliver(Cast, to=3, carrying=strong)
    assert cluster.tentative(3) == []
    cluster.deliver(Cast, to=3, carrying=missing)

    assert cluster.tentative(3) == [missing, strong]
