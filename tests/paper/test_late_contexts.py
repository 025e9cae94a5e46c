"""Section 1, point 5: "at least all weak operations that would be visible".

Contexts that the leader extends by a cut, with the setting `late_contexts`.
"""

import pytest

from creekdb.protocol.messages import Accept, Cast, Decisions, Vote
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.creek import CreekReplica
from creekdb.schemes.differential import create_replica
from tests.paper.harness import STABLE, Cluster, Scheme


def late_cluster(
    scheme: Scheme = BasicReplica, *, hold_us_max: int = 0, window: int = 32
) -> Cluster:
    return Cluster(scheme=scheme, late_contexts=1, hold_us_max=hold_us_max, window=window)


@pytest.mark.parametrize("scheme", [BasicReplica, CreekReplica, create_replica])
def test_a_decision_extends_the_context_in_the_order_of_timestamps(scheme: Scheme) -> None:
    """Line 49 for context and cut together: their "relative order" is that of `tentative`."""
    cluster = late_cluster(scheme)
    unknown = cluster.weak(0, "append", "unknown", at=10)
    known = cluster.weak(1, "append", "known", at=20)
    strong = cluster.strong(1, "get_all", at=30)
    assert cluster.context(strong) == {known}

    cluster.flush()

    assert [cluster.committed(each) for each in cluster.members] == [[unknown, known, strong]] * 3
    assert cluster.responses_to(strong)[-1] == (STABLE, ("unknown", "known"))


def test_a_cut_has_no_later_requests() -> None:
    cluster = late_cluster()
    earlier = cluster.weak(0, "append", "earlier", at=10)
    later = cluster.weak(0, "append", "later", at=50)
    strong = cluster.strong(1, "append", "s", at=30)

    cluster.flush()

    assert [cluster.committed(each) for each in cluster.members] == [[earlier, strong]] * 3
    assert [cluster.tentative(each) for each in cluster.members] == [[later]] * 3


def test_a_cut_has_no_strong_requests() -> None:
    """A strong request is committed when its own identifier is CAB-delivered, and not before."""
    cluster = late_cluster()
    cluster.hold(Accept)
    strong = cluster.strong(2, "append", "first", at=10)
    cluster.deliver(Cast, to=0)
    weak = cluster.weak(2, "append", "weak", at=20)
    cluster.flush()
    later = cluster.strong(1, "append", "later", at=30)
    cluster.flush()
    proposed = [each.message for each in cluster.pending(Accept, to=2)]
    batches = [each.batch for each in proposed if isinstance(each, Accept)]
    assert batches == [(strong,), (weak, later)]
    cluster.release()
    cluster.flush()

    assert cluster.committed(2) == [strong, weak, later]


def test_strong_requests_are_proposed_in_the_order_of_their_timestamps() -> None:
    cluster = late_cluster(window=1)
    cluster.hold(Vote)
    blocking = cluster.strong(0, "append", "blocking", at=10)
    cluster.flush()
    later = cluster.strong(1, "append", "later", at=60)
    cluster.deliver(Cast, sender=1, to=0)
    earlier = cluster.strong(2, "append", "earlier", at=50)
    cluster.deliver(Cast, sender=2, to=0)
    cluster.release()
    cluster.flush()

    assert cluster.committed(0) == [blocking, earlier, later]


def test_a_vote_waits_for_the_cut() -> None:
    """Section 5: the predicate `rcv(v) ∧ q(m)`, extended by the requests that the batch names."""
    cluster = late_cluster()
    cluster.hold(Cast, sender=0)
    weak = cluster.weak(0, "append", "weak", at=10)
    strong = cluster.strong(1, "append", "s", at=30)

    cluster.flush()

    assert not cluster.cab_delivered(0)
    cluster.deliver(Cast, sender=0, to=2)
    cluster.flush()
    assert cluster.cab_delivered(0) == [strong]
    assert cluster.committed(2) == [weak, strong]


def test_a_delivery_waits_for_the_cut() -> None:
    """Section 3.3: "uniform integrity"; the predicate is tested again before the delivery."""
    cluster = late_cluster()
    cluster.hold(Cast, sender=0, to=1)
    weak = cluster.weak(0, "append", "weak", at=10)
    strong = cluster.strong(1, "append", "s", at=30)

    cluster.flush()

    assert [cluster.cab_delivered(each) for each in (0, 1, 2)] == [[strong], [], [strong]]
    cluster.release()
    cluster.flush()
    assert cluster.committed(1) == [weak, strong]


def test_a_cut_without_a_strong_request_commits_nothing() -> None:
    cluster = late_cluster()
    cluster.hold(Cast, sender=0)
    cluster.hold(Accept)
    weak = cluster.weak(0, "append", "weak", at=10)
    strong = cluster.strong(1, "append", "s", at=30)
    cluster.deliver(Cast, sender=1, to=2)
    cluster.inject(Decisions(0, ((weak,), (strong,))), sender=0, to=2)
    cluster.deliver(Cast, sender=0, to=2)

    assert (cluster.committed(2), cluster.tentative(2)) == ([strong], [weak])


def test_a_replica_without_the_setting_follows_decisions_with_cuts() -> None:
    cluster = late_cluster()
    weak = cluster.weak(0, "append", "weak", at=10)
    strong = cluster.strong(1, "append", "s", at=30)
    cluster.flush()
    cluster.settings = Cluster(with_leader=False).settings
    cluster.crash(2)
    cluster.restart(2)

    assert cluster.committed(2) == [weak, strong]


def test_a_restart_within_a_batch_repeats_its_cut() -> None:
    cluster = late_cluster()
    weak = cluster.weak(0, "append", "weak", at=10)
    strong = cluster.strong(1, "append", "s", at=30)
    cluster.flush()
    for replica in (1, 2):
        cluster.crash(replica)
        cluster.restart(replica)
    cluster.settle()

    assert [cluster.committed(each) for each in cluster.members] == [[weak, strong]] * 3


# --- the hold -------------------------------------------------------------------------------------


def held_cluster() -> tuple[Cluster, int]:
    """Return a cluster whose leader has measured a delay of 300 us, and its clock."""
    cluster = late_cluster(hold_us_max=1_000)
    now_us = cluster.now_us + 10_000
    cluster.weak(1, "append", "measured", at=now_us - 300)
    cluster.now_us = now_us
    cluster.flush()
    return cluster, now_us


def test_a_strong_request_is_held_until_earlier_requests_have_arrived() -> None:
    cluster, now_us = held_cluster()
    strong = cluster.strong(0, "append", "s", at=now_us + 1_000)
    late = cluster.weak(2, "append", "late", at=now_us + 900)
    cluster.now_us = now_us + 1_200
    cluster.flush()
    assert not cluster.pending(Accept)
    assert not cluster.cab_delivered(0)

    cluster.wake(now_us + 1_300)
    cluster.flush()

    assert cluster.committed(0)[-2:] == [late, strong]


def test_a_wake_is_not_repeated_after_the_leader_has_lost_its_office() -> None:
    cluster, now_us = held_cluster()
    cluster.strong(0, "append", "s", at=now_us + 1_000)
    assert cluster.wakes == {0: now_us + 1_300}
    cluster.partition([0], [1, 2])
    for _ in range(60):
        cluster.tick(1, 2)
        cluster.flush()
    cluster.heal()
    for _ in range(4):
        cluster.tick(1, 2)
        cluster.flush()
    assert cluster.leaders() != {0}

    cluster.wake(now_us + 1_300)

    assert cluster.wakes == {}


def test_ticks_replace_a_lost_wake() -> None:
    cluster, now_us = held_cluster()
    strong = cluster.strong(0, "append", "s", at=now_us + 1_000)
    cluster.wakes.clear()
    cluster.settle(3)

    assert cluster.committed(2)[-1] == strong
