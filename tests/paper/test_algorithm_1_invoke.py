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


def test_an_event_number_is_not_used_again_after_a_crash() -> None:
    """Section 4.2: a request's identifier is unique, its counter "monotonically increasing"."""
    cluster = Cluster()
    before = cluster.weak(1, "append", "a")
    cluster.crash(1)
    cluster.restart(1)

    assert cluster.weak(1, "append", "b") == Dot(1, before.event + 1)


def test_a_request_is_on_disk_before_it_is_sent_or_answered() -> None:
    """Line 16, across crashes: a number that anybody has seen must never be given again."""
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


@pytest.mark.parametrize("then", [100, 99, 0])
def test_timestamps_of_one_replica_increase_though_its_clock_does_not(then: int) -> None:
    """Section 4.3: timestamps and ids are "both of which are monotonically increasing"."""
    cluster = Cluster()
    first = cluster.weak(0, "append", "a", at=100)
    second = cluster.weak(0, "append", "b", at=then)

    assert cluster.requests[second].timestamp > cluster.requests[first].timestamp


def test_timestamps_increase_across_a_restart() -> None:
    """Section 4.3, as above: a crash does not turn the clock back either."""
    cluster = Cluster()
    first = cluster.weak(0, "append", "a", at=100)
    cluster.crash(0)
    cluster.restart(0)
    second = cluster.weak(0, "append", "b", at=5)

    assert cluster.requests[second].timestamp > cluster.requests[first].timestamp


def test_the_context_of_a_strong_request_is_everything_known_that_is_weak_or_committed() -> None:
    """Line 19: "r.causalCtx = causalCtx \\ {x.id | x ∈ tentative ∧ r < x}"."""
    cluster = Cluster()
    committed = cluster.strong(0, "append", "a")
    mine = cluster.weak(1, "append", "b")
    theirs = cluster.weak(2, "append", "c")
    cluster.flush()
    unknown = cluster.weak(2, "append", "d")

    context = cluster.context(cluster.strong(1, "append", "e"))

    assert context == {committed, mine, theirs}
    assert unknown not in context


def test_the_context_of_a_strong_request_holds_no_uncommitted_strong_request() -> None:
    """Footnote 3: it "cannot include the identifiers of any strong operations" not yet ordered."""
    cluster = Cluster()
    weak = cluster.weak(1, "append", "a")
    mine = cluster.strong(1, "append", "b")
    theirs = cluster.strong(2, "append", "c")
    cluster.deliver(Cast, to=1)
    assert cluster.tentative(1) == [weak, mine, theirs]

    assert cluster.context(cluster.strong(1, "append", "d")) == {weak}


def test_no_request_in_a_context_is_later_than_the_request_itself() -> None:
    """Line 19 leaves out what is later; a clock that lags follows what it hears, so nothing is."""
    cluster = Cluster()
    ahead = cluster.weak(0, "append", "a", at=10**9)
    cluster.deliver(Cast, to=1)

    strong = cluster.strong(1, "append", "b", at=5)

    assert cluster.context(strong) == {ahead}
    assert cluster.requests[ahead].key < cluster.requests[strong].key


def test_a_strong_request_is_cab_cast() -> None:
    """Line 20: "CAB-cast(r.id, checkDep)"; where the leader issued it, it is proposed at once."""
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
    """Lines 18-21: only `strongOp` leads to line 20."""
    cluster = Cluster()
    id = cluster.weak(0, "append", "a")
    cluster.settle()

    assert cluster.pending(Accept) == []
    assert cluster.tentative(0) == [id]


@pytest.mark.parametrize("strong", [False, True])
def test_every_request_is_rb_cast_to_everyone(strong: bool) -> None:
    """Line 23: "RB-cast(r)"."""
    cluster = Cluster(4)
    id = cluster.invoke(1, "append", "a", strong=strong)

    assert sorted(each.receiver for each in cluster.pending(Cast, carrying=id)) == [0, 2, 3]


def test_a_weak_request_is_known_from_then_on() -> None:
    """Line 22: "causalCtx = causalCtx ∪ {r.id}"."""
    cluster = Cluster()
    weak = cluster.weak(2, "append", "a")

    assert cluster.context(cluster.strong(2, "append", "b")) == {weak}


def test_a_request_takes_its_place_on_tentative_without_waiting_for_anyone() -> None:
    """Lines 22 and 24: "we simulate immediate local RB-delivery" (Section 4.2)."""
    cluster = Cluster(led=False)
    weak = cluster.weak(0, "append", "a")
    strong = cluster.strong(0, "append", "b")

    assert cluster.tentative(0) == [weak, strong]
    assert cluster.listed(0) == ["a", "b"]


def test_the_client_of_the_replica_that_was_asked_is_answered_and_nobody_else() -> None:
    """Line 25: "reqsAwaitingResp.put(r, ⊥)", at the replica that was invoked."""
    cluster = Cluster()
    id = cluster.invoke(2, "append", "a", strong=True, session=41)
    cluster.settle()

    answers = [(replica, each.session, each.kind) for replica, each in cluster.responses]

    assert cluster.done[0] == cluster.done[1] == cluster.done[2]
    assert answers == [(2, 41, TENTATIVE), (2, 41, STABLE)]
    assert {each.id for _, each in cluster.responses} == {id}
