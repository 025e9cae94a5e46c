"""Algorithm 1, lines 48-57: `commit`."""

from creekdb.protocol.effects import CheckpointInstalled
from creekdb.protocol.messages import Cast, Vote
from tests.paper.harness import EXECUTE, ROLLBACK, STABLE, TENTATIVE, Cluster


def test_the_causal_context_is_committed_first() -> None:
    """Line 49: "committedExt = [x | x ∈ tentative ∧ x.id ∈ r.causalCtx]"; line 51."""
    cluster = Cluster()
    weak = [cluster.weak(each, "append", each) for each in (0, 1)]
    cluster.flush()
    strong = cluster.strong(2, "append", "s")

    cluster.flush()

    assert [cluster.committed(each) for each in cluster.members] == [[*weak, strong]] * 3
    assert [cluster.tentative(each) for each in cluster.members] == [[]] * 3


def test_the_context_keeps_its_tentative_order() -> None:
    """Section 4.2: it "preserves the relative order in which weak operations … appear"."""
    cluster = Cluster()
    late = cluster.weak(0, "append", "late", at=30)
    early = cluster.weak(1, "append", "early", at=10)
    middle = cluster.weak(2, "append", "middle", at=20)
    cluster.flush()
    strong = cluster.strong(0, "append", "s")

    cluster.flush()

    expected = [early, middle, late, strong]
    assert [cluster.committed(each) for each in cluster.members] == [expected] * 3


def test_requests_outside_the_context_stay_tentative() -> None:
    """Line 50: "newTentative = [x | x ∈ tentative ∧ x ∉ committedExt ∧ x ≠ r]"."""
    cluster = Cluster()
    known = cluster.weak(1, "append", "known", at=20)
    cluster.flush()
    unknown = cluster.weak(0, "append", "unknown", at=10)
    strong = cluster.strong(1, "append", "s", at=30)

    cluster.flush()

    assert [cluster.committed(each) for each in cluster.members] == [[known, strong]] * 3
    assert [cluster.tentative(each) for each in cluster.members] == [[unknown]] * 3
    assert cluster.state_values(0) == ["known", "s", "unknown"]


def test_another_strong_request_stays_tentative_until_its_own_commit() -> None:
    """Lines 49-50: no context contains an uncommitted strong request, so none is moved."""
    cluster = Cluster()
    cluster.hold(Cast, sender=1)
    earlier = cluster.strong(1, "append", "earlier", at=10)
    cluster.deliver(Cast, to=2)
    later = cluster.strong(2, "append", "later", at=20)
    cluster.flush()

    assert cluster.committed(2) == [later]
    assert cluster.tentative(2) == [earlier]
    cluster.release()
    cluster.settle()
    assert [cluster.committed(each) for each in cluster.members] == [[later, earlier]] * 3


def test_commits_append_to_committed() -> None:
    """Line 51: "committed = committed · committedExt · [r]"."""
    cluster = Cluster()
    expected = []
    for replica in (2, 0, 1):
        expected += [cluster.weak(replica, "append", "w"), cluster.strong(replica, "append", "s")]
        cluster.flush()

    assert [cluster.committed(each) for each in cluster.members] == [expected] * 3


def test_a_request_in_two_contexts_is_committed_once() -> None:
    """Line 49 selects from `tentative` only, from which the earlier commit removed the request."""
    cluster = Cluster()
    weak = cluster.weak(0, "append", "w")
    cluster.flush()
    first = cluster.strong(1, "append", "a")
    second = cluster.strong(2, "append", "b")
    assert cluster.context(first) == cluster.context(second) == {weak}

    cluster.flush()

    assert [cluster.committed(each) for each in cluster.members] == [[weak, first, second]] * 3


def test_a_commit_in_tentative_order_causes_no_rollback() -> None:
    """Section 4.2: moved to committed "without causing any rollbacks or reexecutions"."""
    cluster = Cluster()
    weak = cluster.weak(1, "append", "w")
    cluster.flush()
    strong = cluster.strong(1, "append", "s")

    cluster.flush()

    for each in cluster.members:
        assert cluster.committed(each) == [weak, strong]
        assert cluster.done[each] == [(EXECUTE, weak), (EXECUTE, strong)]


def test_a_request_executed_in_between_is_rolled_back() -> None:
    """Line 54; Section 4.2: a weak one "ordered in-between … rollbacks cannot be avoided"."""
    cluster = Cluster()
    between = cluster.weak(0, "append", "between", at=20)
    strong = cluster.strong(1, "append", "s", at=30)

    cluster.flush()

    assert cluster.committed(0) == [strong]
    assert cluster.tentative(0) == [between]
    assert cluster.done[0] == [
        (EXECUTE, between),
        (EXECUTE, strong),
        (ROLLBACK, strong),
        (ROLLBACK, between),
        (EXECUTE, strong),
        (EXECUTE, between),
    ]


def test_only_requests_after_the_first_change_are_executed_again() -> None:
    """Lines 43 and 54: the part of the context that is in order stays executed."""
    cluster = Cluster()
    kept = cluster.weak(1, "append", "kept", at=10)
    cluster.flush()
    cluster.weak(0, "append", "between", at=20)
    strong = cluster.strong(1, "append", "s", at=30)

    cluster.flush()

    assert cluster.committed(0) == [kept, strong]
    assert cluster.done[0].count((EXECUTE, kept)) == 1
    assert cluster.done[0].count((EXECUTE, strong)) == 2


def test_a_commit_in_tentative_order_sends_the_stable_response() -> None:
    """Lines 55-56: "r ∈ executed … return reqsAwaitingResp.get(r) to client (as stable …)"."""
    cluster = Cluster()
    id = cluster.strong(1, "append", "a")
    assert cluster.responses_to(id) == [(TENTATIVE, 1)]
    cluster.pause(1)

    cluster.flush()

    assert cluster.committed(1) == [id]
    assert cluster.responses_to(id) == [(TENTATIVE, 1), (STABLE, 1)]
    assert cluster.done[1] == [(EXECUTE, id)]


def test_the_stable_response_is_the_last_tentative_one() -> None:
    """Lines 56 and 70: `reqsAwaitingResp` holds the response of the latest execution."""
    cluster = Cluster()
    mine = cluster.strong(1, "append", "mine", at=20)
    other = cluster.strong(2, "append", "other", at=10)
    cluster.deliver(Cast, carrying=other)
    cluster.pause(1)

    cluster.flush()

    assert cluster.committed(1) == [other, mine]
    assert cluster.responses_to(mine) == [(TENTATIVE, 1), (TENTATIVE, 2), (STABLE, 2)]


def test_a_commit_in_another_order_sends_no_stable_response() -> None:
    """Lines 54-55: after `adjustExecution` the request is not in `executed`."""
    cluster = Cluster()
    cluster.weak(2, "append", "w", at=10)
    strong = cluster.strong(1, "append", "s", at=20)
    cluster.deliver(Cast, to=1)
    assert cluster.responses_to(strong) == [(TENTATIVE, 1), (TENTATIVE, 2)]
    cluster.pause(1)
    cluster.flush()
    assert cluster.committed(1) == [strong]
    assert cluster.responses_to(strong) == [(TENTATIVE, 1), (TENTATIVE, 2)]

    cluster.resume(1)

    assert cluster.responses_to(strong) == [(TENTATIVE, 1), (TENTATIVE, 2), (STABLE, 1)]


def test_no_stable_response_is_sent_before_the_commit() -> None:
    """Section 3.4: a stable response "only after the replicas synchronize"."""
    cluster = Cluster()
    cluster.hold(Vote)
    id = cluster.strong(1, "append", "a")
    cluster.settle()

    assert cluster.responses_to(id) == [(TENTATIVE, 1)]


def test_the_stable_response_is_sent_once() -> None:
    """Line 57: "reqsAwaitingResp.remove(r)"."""
    cluster = Cluster()
    id = cluster.strong(1, "append", "a")
    cluster.flush()
    cluster.weak(2, "append", "b", at=1)
    cluster.strong(0, "append", "c")
    cluster.settle()

    assert [kind for kind, _ in cluster.responses_to(id)].count(STABLE) == 1


def test_a_snapshot_does_not_repeat_a_stable_response() -> None:
    """Line 57: the request no longer awaits a response, so the snapshot's response is not sent."""
    cluster = Cluster(checkpoint_every=4)
    id = cluster.strong(2, "append", "a")
    cluster.flush()
    cluster.partition({0, 1}, {2})
    for _ in range(16):
        cluster.strong(0, "length")
        cluster.flush()
    cluster.heal()

    cluster.settle()

    assert [type(each) for each in cluster.events[2]].count(CheckpointInstalled) == 1
    assert cluster.responses_to(id) == [(TENTATIVE, 1), (STABLE, 1)]


def test_a_strong_request_with_an_empty_context_is_committed_alone() -> None:
    """Line 49: with an empty context `committedExt` is empty."""
    cluster = Cluster()
    weak = cluster.weak(0, "append", "w")
    strong = cluster.strong(1, "append", "s")

    cluster.flush()

    assert [cluster.committed(each) for each in cluster.members] == [[strong]] * 3
    assert [cluster.tentative(each) for each in cluster.members] == [[weak]] * 3
