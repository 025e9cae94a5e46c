"""Algorithm 1, lines 10-14: `checkDep`, the predicate that CAB evaluates."""

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Accept, Cast, CatchUp, Vote
from tests.paper.harness import Cluster


def check_dep(cluster: Cluster, replica: int, id: Dot) -> bool:
    """Return True if `checkDep` holds. `missing_dependency` then returns None."""
    return cluster.replicas[replica]._ordering.missing_dependency(id) is None


def test_check_dep_is_false_for_an_unknown_id() -> None:
    """Lines 12-13: "if r = ⊥ then return false"."""
    cluster = Cluster()

    assert not check_dep(cluster, 1, Dot(2, 1))


def test_check_dep_is_false_until_the_request_is_delivered() -> None:
    """Section 4.2: "whether the replica has already RB-delivered the strong operation"."""
    cluster = Cluster()
    id = cluster.strong(2, "append", "a")

    assert check_dep(cluster, 2, id)
    assert not check_dep(cluster, 1, id)
    cluster.deliver(Cast, to=1)
    assert check_dep(cluster, 1, id)


def test_check_dep_is_false_until_the_causal_context_is_delivered() -> None:
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


def test_check_dep_is_true_at_the_origin_at_once() -> None:
    """Lines 14 and 19: the context is a subset of the origin's own `causalCtx`."""
    cluster = Cluster()
    cluster.weak(0, "append", "a")
    cluster.flush()

    assert check_dep(cluster, 1, cluster.strong(1, "append", "b"))


def test_check_dep_is_true_for_a_committed_request() -> None:
    """Line 11: the search for `r` covers "committed · tentative", not only `tentative`."""
    cluster = Cluster()
    id = cluster.strong(2, "append", "a")
    cluster.flush()

    assert cluster.committed(1) == [id]
    assert check_dep(cluster, 1, id)


def test_a_strong_dependency_must_be_cab_delivered_locally() -> None:
    """Lines 14 and 34: `causalCtx` contains no strong request that is not committed locally."""
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


def test_check_dep_never_becomes_false_again() -> None:
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
    """Lines 14 and 19: the context contains only requests known to the origin at invocation."""
    cluster = Cluster()
    id = cluster.strong(2, "append", "a")
    later = cluster.weak(2, "append", "b")

    cluster.deliver(Cast, to=1, carrying=id)

    assert later not in cluster.rb_delivered(1)
    assert check_dep(cluster, 1, id)


def test_a_false_check_dep_returns_a_missing_dot() -> None:
    """Lines 12-14: the missing dot is `r.id` or an element of `r.causalCtx \\ causalCtx`."""
    cluster = Cluster(4)
    for kind in (Accept, Vote, CatchUp):
        cluster.hold(kind, to=2)
    committed = cluster.strong(1, "append", "a")
    cluster.flush()
    assert cluster.cab_delivered(3) == [committed]
    id = cluster.strong(3, "append", "b")

    assert cluster.replicas[2]._ordering.missing_dependency(id) == id
    cluster.deliver(Cast, to=2, carrying=id)
    assert cluster.replicas[2]._ordering.missing_dependency(id) == committed
    cluster.release()
    cluster.flush()
    assert cluster.replicas[2]._ordering.missing_dependency(id) is None
