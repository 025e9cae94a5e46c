"""Algorithm 1, lines 15-25: `invoke`."""

import pytest

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Accept, Cast, Received
from creekdb.protocol.request import Operation
from tests.paper.harness import STABLE, TENTATIVE, Cluster


def test_each_request_takes_the_next_event_number() -> None:
    """Line 16: "currEventNo = currEventNo + 1"; line 17: the id is "(i, currEventNo)"."""
    cluster = Cluster()

    ids = [cluster.invoke(2, "append", 0, strong=strong) for strong in (False, True, False)]

    assert ids == [Dot(2, 1), Dot(2, 2), Dot(2, 3)]
    assert cluster.weak(0, "append", 0) == Dot(0, 1)


def test_event_numbers_are_not_reused_after_a_crash() -> None:
    """Section 4.2: a request's identifier is unique, its counter "monotonically increasing"."""
    cluster = Cluster()
    before = cluster.weak(1, "append", "a")
    cluster.crash(1)
    cluster.restart(1)

    assert cluster.weak(1, "append", "b") == Dot(1, before.event + 1)


def test_a_request_is_persisted_before_it_is_sent() -> None:
    """Line 16, across crashes: an event number that another process has seen is never reused."""
    cluster = Cluster()
    replica = cluster.replicas[1]
    replica.invoke(Operation("append", ("a",)), False, 0, 1)

    effects = replica.take_effects()

    assert [type(each) for each in effects.persist] == [Received]
    assert [type(each.message) for each in effects.send] == [Cast]


def test_a_request_is_stamped_with_the_current_time() -> None:
    """Line 17: "Req(currTime, …)"."""
    cluster = Cluster()

    assert cluster.requests[cluster.weak(0, "append", "a", at=777)].timestamp == 777


@pytest.mark.parametrize("second_clock", [100, 99, 0])
def test_timestamps_of_one_replica_increase_if_its_clock_does_not(second_clock: int) -> None:
    """Section 4.3: timestamps and ids are "both of which are monotonically increasing"."""
    cluster = Cluster()
    first = cluster.weak(0, "append", "a", at=100)
    second = cluster.weak(0, "append", "b", at=second_clock)

    assert cluster.requests[second].timestamp > cluster.requests[first].timestamp


def test_timestamps_increase_across_a_restart() -> None:
    """Section 4.3, as above: timestamps increase after a crash too."""
    cluster = Cluster()
    first = cluster.weak(0, "append", "a", at=100)
    cluster.crash(0)
    cluster.restart(0)
    second = cluster.weak(0, "append", "b", at=5)

    assert cluster.requests[second].timestamp > cluster.requests[first].timestamp


def test_the_context_contains_all_known_weak_and_committed_requests() -> None:
    """Line 19: "r.causalCtx = causalCtx \\ {x.id | x ∈ tentative ∧ r < x}"."""
    cluster = Cluster()
    committed = cluster.strong(0, "append", "a")
    own = cluster.weak(1, "append", "b")
    foreign = cluster.weak(2, "append", "c")
    cluster.flush()
    unknown = cluster.weak(2, "append", "d")

    context = cluster.context(cluster.strong(1, "append", "e"))

    assert context == {committed, own, foreign}
    assert unknown not in context


def test_the_context_contains_no_uncommitted_strong_request() -> None:
    """Footnote 3: it "cannot include the identifiers of any strong operations" not yet ordered."""
    cluster = Cluster()
    weak = cluster.weak(1, "append", "a")
    own = cluster.strong(1, "append", "b")
    foreign = cluster.strong(2, "append", "c")
    cluster.deliver(Cast, to=1)
    assert cluster.tentative(1) == [weak, own, foreign]

    assert cluster.context(cluster.strong(1, "append", "d")) == {weak}


def test_every_request_in_a_context_precedes_the_request_itself() -> None:
    """Line 19 excludes later requests. There are none: a timestamp exceeds all received ones."""
    cluster = Cluster()
    ahead = cluster.weak(0, "append", "a", at=10**9)
    cluster.deliver(Cast, to=1)

    strong = cluster.strong(1, "append", "b", at=5)

    assert cluster.context(strong) == {ahead}
    assert cluster.requests[ahead].key < cluster.requests[strong].key


def test_a_strong_request_is_cab_cast() -> None:
    """Line 20: "CAB-cast(r.id, checkDep)"; the leader proposes its own request at once."""
    cluster = Cluster()
    id = cluster.strong(0, "append", "a")

    proposals = [each.message for each in cluster.pending(Accept)]

    assert [each.batch for each in proposals if isinstance(each, Accept)] == [(id,), (id,)]


def test_only_the_identifier_is_cab_cast() -> None:
    """Section 4.1: CAB's messages "only include the identifiers of the strong operations"."""
    cluster = Cluster()
    cluster.weak(0, "append", "a")
    id = cluster.strong(0, "append", "b")

    for each in cluster.pending(Accept):
        assert isinstance(each.message, Accept)
        assert each.message.batch == (id,)


def test_a_weak_request_is_not_cab_cast() -> None:
    """Lines 18-21: line 20 runs only for `strongOp`."""
    cluster = Cluster()
    id = cluster.weak(0, "append", "a")
    cluster.settle()

    assert cluster.pending(Accept) == []
    assert cluster.tentative(0) == [id]


@pytest.mark.parametrize("strong", [False, True])
def test_every_request_is_rb_cast_to_all_other_replicas(strong: bool) -> None:
    """Line 23: "RB-cast(r)"."""
    cluster = Cluster(4)
    id = cluster.invoke(1, "append", "a", strong=strong)

    assert sorted(each.receiver for each in cluster.pending(Cast, carrying=id)) == [0, 2, 3]


def test_a_weak_request_enters_the_causal_context_of_its_origin() -> None:
    """Line 22: "causalCtx = causalCtx ∪ {r.id}"."""
    cluster = Cluster()
    weak = cluster.weak(2, "append", "a")

    assert cluster.context(cluster.strong(2, "append", "b")) == {weak}


def test_a_request_enters_tentative_at_its_origin_at_once() -> None:
    """Lines 22 and 24: "we simulate immediate local RB-delivery" (Section 4.2)."""
    cluster = Cluster(with_leader=False)
    weak = cluster.weak(0, "append", "a")
    strong = cluster.strong(0, "append", "b")

    assert cluster.tentative(0) == [weak, strong]
    assert cluster.state_values(0) == ["a", "b"]


def test_only_the_session_that_invoked_gets_responses() -> None:
    """Line 25: "reqsAwaitingResp.put(r, ⊥)", at the invoked replica."""
    cluster = Cluster()
    id = cluster.invoke(2, "append", "a", strong=True, session=41)
    cluster.settle()

    responses = [(replica, each.session, each.kind) for replica, each in cluster.responses]

    assert cluster.done[0] == cluster.done[1] == cluster.done[2]
    assert responses == [(2, 41, TENTATIVE), (2, 41, STABLE)]
    assert {each.id for _, each in cluster.responses} == {id}
