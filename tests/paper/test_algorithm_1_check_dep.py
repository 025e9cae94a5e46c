"""Algorithm 1, lines 10-14: `checkDep`, the predicate that CAB tests."""

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Accept, Cast, CatchUp, Vote
from tests.paper.harness import Cluster


def check_dep(cluster: Cluster, replica: int, id: Dot) -> bool:
    """`missing_dependency` answers with what is missing: nothing, when `checkDep` is true."""
    return cluster.replicas[replica].missing_dependency(id) is None


def test_it_is_false_for_an_id_that_is_not_known() -> None:
    """Lines 12-13: "if r = ⊥ then return false"."""
    cluster = Cluster()

    assert not check_dep(cluster, 1, Dot(2, 1))


def test_it_is_false_until_the_request_itself_is_delivered() -> None:
    """Section 4.2: "whether the replica has already RB-delivered the strong operation"."""
    cluster = Cluster()
    id = cluster.strong(2, "append", "a")

    assert check_dep(cluster, 2, id)
    assert not check_dep(cluster, 1, id)
    cluster.deliver(Cast, to=1)
    assert check_dep(cluster, 1, id)


def test_it_is_false_until_the_whole_causal_context_is_delivered() -> None:
    """Line 14: "return r.causalCtx ⊆ causalCtx"."""
    cluster = Cluster(4)
    first = cluster.weak(1, "append", "a")
    second = cluster.weak(2, "append", "b")
    cluster.deliver(to=3)
    id = cluster.strong(3, "append", "c")
    assert cluster.context(id) == {first, second}

    cluster.deliver(to=0, carrying=id)
    assert not check_dep(cluster, 0, id)
    cluster.deliver(to=0, carrying=second)
    assert not check_dep(cluster, 0, id)
    cluster.deliver(to=0, carrying=first)
    assert check_dep(cluster, 0, id)


def test_it_is_true_at_once_where_the_request_is_issued() -> None:
    """Lines 14 and 19: a context is taken from the issuer's own `causalCtx`."""
    cluster = Cluster()
    cluster.weak(0, "append", "a")
    cluster.flush()

    assert check_dep(cluster, 1, cluster.strong(1, "append", "b"))


def test_it_is_true_for_a_request_that_is_committed() -> None:
    """Line 11: `r` is sought on "committed · tentative", not on `tentative` alone."""
    cluster = Cluster()
    id = cluster.strong(2, "append", "a")
    cluster.flush()

    assert cluster.committed(1) == [id]
    assert check_dep(cluster, 1, id)


def test_a_committed_strong_request_in_the_context_must_have_been_cab_delivered_here() -> None:
    """Lines 14 and 34: an uncommitted strong request is not in `causalCtx`, however long known."""
    cluster = Cluster(3)
    before = cluster.strong(0, "append", "a")
    cluster.deliver(Cast, to=1)
    cluster.hold(to=1)
    cluster.flush()
    after = cluster.strong(2, "append", "b")
    assert before in cluster.context(after)

    cluster.deliver(Cast, to=1, carrying=after)
    assert before in cluster.tentative(1)
    assert not check_dep(cluster, 1, after)

    cluster.release()
    cluster.flush()
    assert cluster.cab_delivered(1) == [before, after]


def test_once_true_it_stays_true() -> None:
    """Section 3.3: "once q(m) = true on replica p_i, then q(m) never changes to false on p_i"."""
    cluster = Cluster()
    cluster.weak(1, "append", "a", at=50)
    cluster.deliver(Cast)
    id = cluster.strong(2, "append", "b", at=60)
    cluster.deliver(Cast, to=1)
    assert check_dep(cluster, 1, id)

    cluster.weak(1, "append", "c", at=1)
    assert check_dep(cluster, 1, id)
    cluster.strong(0, "append", "d", at=1)
    cluster.deliver(Cast, to=1)
    assert check_dep(cluster, 1, id)
    cluster.settle()
    assert check_dep(cluster, 1, id)
    cluster.crash(1)
    cluster.restart(1)
    assert check_dep(cluster, 1, id)


def test_a_later_weak_request_of_the_same_replica_is_no_dependency() -> None:
    """Lines 14 and 19: only what the issuer knew when it issued the request counts."""
    cluster = Cluster()
    id = cluster.strong(2, "append", "a")
    later = cluster.weak(2, "append", "b")

    cluster.deliver(Cast, to=1, carrying=id)

    assert later not in cluster.rb_delivered(1)
    assert check_dep(cluster, 1, id)


def test_when_it_is_false_it_names_a_dot_that_is_missing() -> None:
    """Lines 12-14: what it waits for is `r` itself, or an element of `r.causalCtx \\ causalCtx`."""
    cluster = Cluster(4)
    for kind in (Accept, Vote, CatchUp):
        cluster.hold(kind, to=2)
    committed = cluster.strong(1, "append", "a")
    cluster.flush()
    assert cluster.cab_delivered(3) == [committed]
    id = cluster.strong(3, "append", "b")

    assert cluster.replicas[2].missing_dependency(id) == id
    cluster.deliver(Cast, to=2, carrying=id)
    assert cluster.replicas[2].missing_dependency(id) == committed
    cluster.release()
    cluster.flush()
    assert cluster.replicas[2].missing_dependency(id) is None
