"""Algorithm 1, lines 62-76: execution and responses."""

from creekdb.protocol.effects import Response
from creekdb.protocol.messages import Accept, Cast
from tests.paper.harness import EXECUTE, FINAL, ROLLBACK, STABLE, TENTATIVE, Cluster


def test_requests_are_executed_one_by_one_from_the_head() -> None:
    """Line 63: "[head] · tail = toBeExecuted"; line 76: "toBeExecuted = tail"."""
    cluster = Cluster()
    cluster.pause(2)
    ids = [cluster.weak(2, "append", each) for each in range(3)]

    for count, id in enumerate(ids, 1):
        assert len(cluster.tasks[2]) == 1
        assert cluster.step(2) == (EXECUTE, id)
        assert cluster.state_values(2) == list(range(count))
    assert not cluster.tasks[2]


def test_an_operation_sees_the_effects_of_all_earlier_ones() -> None:
    """Line 64: "response = state.execute(head)"."""
    cluster = Cluster()
    cluster.weak(0, "append", "a")
    cluster.flush()
    cluster.weak(1, "append", "b")

    assert cluster.responses_to(cluster.weak(1, "get_all")) == [(TENTATIVE, ("a", "b"))]


def test_a_weak_response_is_sent_on_execution() -> None:
    """Lines 66-67: "if ¬head.strongOp then return response to client"."""
    cluster = Cluster()
    cluster.pause(1)
    id = cluster.weak(1, "append", "a")
    assert cluster.responses_to(id) == []

    cluster.step(1)

    assert cluster.responses_to(id) == [(TENTATIVE, 1)]


def test_a_weak_request_executed_twice_gets_one_tentative_response() -> None:
    """Line 68: "reqsAwaitingResp.remove(head)"."""
    cluster = Cluster()
    id = cluster.weak(1, "append", "late", at=20)
    cluster.weak(2, "append", "early", at=10)
    cluster.flush()
    cluster.strong(0, "append", "s")
    cluster.settle()

    assert cluster.done[1].count((EXECUTE, id)) == 2
    assert cluster.committed(1).index(id) == 1
    assert cluster.responses_to(id) == [(TENTATIVE, 1), (FINAL, 2)]


def test_a_tentative_strong_request_gets_a_tentative_response() -> None:
    """Lines 69-71: "return response to client (as tentative response)"."""
    cluster = Cluster(with_leader=False)

    assert cluster.responses_to(cluster.strong(1, "append", "a")) == [(TENTATIVE, 1)]


def test_each_execution_of_a_tentative_strong_request_sends_a_response() -> None:
    """Section 4.2: "it may receive multiple tentative responses, one for each time"."""
    cluster = Cluster(4)
    cluster.hold(sender=3)
    id = cluster.strong(3, "append", "s", at=40)
    for replica, at in ((0, 30), (1, 20), (2, 10)):
        cluster.weak(replica, "append", at, at=at)
        cluster.deliver(Cast, sender=replica, to=3)
    assert cluster.responses_to(id) == [(TENTATIVE, each) for each in (1, 2, 3, 4)]

    cluster.release()
    cluster.settle()

    assert cluster.committed(3) == [id]
    assert cluster.responses_to(id)[4:] == [(STABLE, 1)]


def test_a_strong_request_committed_before_execution_gets_only_a_stable_response() -> None:
    """Lines 72-74: "else // head.strongOp ∧ head ∈ committed: return … (as stable response)"."""
    cluster = Cluster()
    cluster.pause(1)
    id = cluster.strong(1, "append", "s")
    cluster.flush()
    assert cluster.committed(1) == [id]
    assert cluster.responses_to(id) == []

    cluster.resume(1)

    assert cluster.responses_to(id) == [(STABLE, 1)]


def test_a_strong_request_reexecuted_after_its_commit_gets_its_stable_response() -> None:
    """Lines 72-74, after an out-of-order tentative execution."""
    cluster = Cluster()
    weak = cluster.weak(2, "append", "w", at=10)
    cluster.deliver(Cast, to=1)
    cluster.hold(Cast, carrying=weak)
    other = cluster.strong(0, "append", "other", at=5)
    mine = cluster.strong(1, "append", "mine", at=20)
    assert cluster.responses_to(mine) == [(TENTATIVE, 2)]

    cluster.release()
    cluster.flush()

    assert cluster.committed(1) == [other, weak, mine]
    assert cluster.responses_to(mine) == [(TENTATIVE, 2), (TENTATIVE, 3), (STABLE, 3)]


def test_the_stable_response_reflects_the_final_order() -> None:
    """Section 1: a stable response is "consistent with the final execution order"."""
    cluster = Cluster()
    cluster.weak(2, "append", "w", at=10)
    id = cluster.strong(1, "get_all", at=20)
    cluster.deliver(Cast, to=1)
    assert cluster.responses_to(id) == [(TENTATIVE, ()), (TENTATIVE, ("w",))]

    cluster.flush()

    assert cluster.committed(1) == [id]
    assert cluster.responses_to(id)[-1] == (STABLE, ())


def test_only_the_origin_sends_responses() -> None:
    """Line 65: "if reqsAwaitingResp.contains(head)"."""
    cluster = Cluster()
    cluster.strong(1, "append", "a")
    cluster.weak(1, "append", "b")
    cluster.settle()

    assert cluster.state_values(0) == ["a", "b"]
    assert {replica for replica, _ in cluster.responses} == {1}


def test_executed_requests_are_not_executed_again_without_a_change() -> None:
    """Lines 75-76: "executed = executed · [head]", and `toBeExecuted` loses the request."""
    cluster = Cluster()
    ids = [cluster.weak(1, "append", each) for each in range(3)]
    cluster.settle()

    assert cluster.done[1] == [(EXECUTE, id) for id in ids]
    assert cluster.replicas[1].view.is_idle()


def test_an_overtaken_execution_sends_no_response() -> None:
    """Lines 62-64: the response is that of the head of the list, on the state before it."""
    cluster = Cluster()
    cluster.pause(1)
    id = cluster.weak(1, "append", "late", at=20)
    task, execution = cluster.begin(1)
    cluster.weak(2, "append", "early", at=10)
    cluster.deliver(Cast, to=1)

    cluster.finish(1, task, execution)
    assert cluster.responses_to(id) == []
    cluster.resume(1)

    assert cluster.responses_to(id) == [(TENTATIVE, 2)]


def test_the_response_of_a_failed_operation_is_its_error() -> None:
    """Line 64 yields a response for every operation; this one fails on an empty list."""
    cluster = Cluster()
    id = cluster.strong(1, "pop_first")
    cluster.flush()

    error = "IndexError: the list is empty"
    assert cluster.responses_to(id) == [(TENTATIVE, error), (STABLE, error)]


def test_committed_requests_are_executed_before_tentative_ones() -> None:
    """Section 4.1: "in the order determined by the concatenation … committed·tentative"."""
    cluster = Cluster()
    cluster.pause(0)
    weak = cluster.weak(0, "append", "w", at=10)
    strong = cluster.strong(1, "append", "s", at=20)
    cluster.flush()
    assert cluster.committed(0) == [strong]

    cluster.resume(0)

    assert cluster.state_values(0) == ["s", "w"]
    assert cluster.responses_to(weak) == [(TENTATIVE, 2)]
    assert ROLLBACK not in [kind for kind, _ in cluster.done[0]]


def test_a_tentative_strong_request_never_gets_a_stable_response() -> None:
    """Lines 69-74 depend on the current list of `head`, not on the commits of other requests."""
    cluster = Cluster()
    first = cluster.strong(1, "append", "a")
    cluster.flush()
    cluster.hold(Accept)
    second = cluster.strong(1, "append", "b")
    cluster.flush()

    assert cluster.committed(1) == [first]
    assert cluster.responses_to(second) == [(TENTATIVE, 2)]
    responses: list[Response] = [response for _, response in cluster.responses]
    assert [each.id for each in responses if each.kind is STABLE] == [first]
