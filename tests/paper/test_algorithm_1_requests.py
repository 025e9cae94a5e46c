"""Algorithm 1, lines 1-3: the `Req` structure and the order on it."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast
from creekdb.protocol.request import Operation, Request
from tests.paper.harness import Cluster

DOTS = st.builds(Dot, st.integers(0, 2), st.integers(1, 3))
REQUESTS = st.builds(
    lambda timestamp, id: Request(timestamp, id, Operation("noop"), strong=False),
    st.integers(0, 3),
    DOTS,
)


def test_a_request_has_the_five_fields_of_the_paper() -> None:
    """Line 1: "struct Req(timestamp, id, op, strongOp, causalCtx)"."""
    cluster = Cluster()
    before = cluster.weak(1, "append", "a", at=10)
    id = cluster.strong(1, "append", "b", at=20)

    request = cluster.requests[id]

    assert request.timestamp == 20
    assert request.id == (1, 2)
    assert request.operation == Operation("append", ("b",))
    assert request.strong
    assert cluster.context(id) == {before}


def test_a_weak_request_has_no_causal_context() -> None:
    """Line 17: the context of a request is ⊥, and only line 19 sets it."""
    cluster = Cluster()

    assert cluster.requests[cluster.weak(0, "append", "a")].context is None


def test_a_strong_request_without_dependencies_has_an_empty_context() -> None:
    """Lines 17 and 19: the empty set is a context, ⊥ is not."""
    cluster = Cluster()

    assert cluster.context(cluster.strong(0, "append", "a")) == set()


def test_the_lower_timestamp_precedes_independently_of_the_ids() -> None:
    """Line 3: "(r.timestamp, r.id) < (r′.timestamp, r′.id)", timestamps first."""
    cluster = Cluster()
    later = cluster.weak(0, "append", "later", at=20)
    earlier = cluster.weak(2, "append", "earlier", at=10)

    cluster.flush()

    assert [cluster.tentative(each) for each in cluster.members] == [[earlier, later]] * 3


def test_the_lower_id_precedes_at_equal_timestamps() -> None:
    """Line 3: identifiers break ties, replicas first."""
    cluster = Cluster()
    ids = [cluster.weak(replica, "append", replica, at=10) for replica in (2, 0, 1)]

    cluster.flush()

    assert [cluster.tentative(each) for each in cluster.members] == [sorted(ids)] * 3
    assert [id.replica for id in cluster.tentative(0)] == [0, 1, 2]


def test_the_event_number_orders_requests_of_one_replica() -> None:
    """Line 3: the second component of `id` is compared last."""
    operation = Operation("noop")
    first = Request(10, Dot(1, 9), operation, strong=False)
    second = Request(10, Dot(1, 10), operation, strong=False)

    assert first.key < second.key


@given(REQUESTS, REQUESTS)
def test_the_order_is_strict_and_total(left: Request, right: Request) -> None:
    """Lines 2-3: `<` is a strict order, total on requests with different identifiers."""
    assert not left.key < left.key
    if left.id != right.id:
        assert (left.key < right.key) != (right.key < left.key)


@given(REQUESTS, REQUESTS, REQUESTS)
def test_the_order_is_transitive(first: Request, second: Request, third: Request) -> None:
    """Lines 2-3: the order is transitive."""
    if first.key < second.key < third.key:
        assert first.key < third.key


@given(REQUESTS, st.booleans())
def test_the_order_ignores_strength_operation_and_context(request: Request, strong: bool) -> None:
    """Line 3 compares timestamps and identifiers, and nothing else."""
    other = Request(request.timestamp, request.id, Operation("append", ("x",)), strong)

    assert request.key == other.key


def test_every_replica_receives_the_issued_request() -> None:
    """Section 4.2: "Such a package is then distributed among replicas"."""
    cluster = Cluster(4)
    ids = [cluster.weak(3, "append", "a"), cluster.strong(3, "append", "b")]

    for id in ids:
        sent = [each.message for each in cluster.pending(Cast, carrying=id)]
        assert sent == [Cast((cluster.requests[id],))] * 3
    cluster.flush()
    assert [cluster.state_values(each) for each in cluster.members] == [["a", "b"]] * 4


def test_sorting_does_not_depend_on_the_initial_arrangement() -> None:
    """Lines 2-3: sorting any arrangement of the same requests gives the same list."""
    operation = Operation("noop")
    requests = [
        Request(timestamp, Dot(replica, 1), operation, strong=False)
        for timestamp, replica in ((1, 2), (1, 1), (0, 3), (2, 0))
    ]

    orders = {
        tuple(each.id for each in sorted(arrangement, key=lambda request: request.key))
        for arrangement in permutations(requests)
    }

    assert orders == {(Dot(3, 1), Dot(1, 1), Dot(2, 1), Dot(0, 1))}
