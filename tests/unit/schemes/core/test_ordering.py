"""When a strong no-op is due."""

from creekdb.protocol.ids.version_vector import Dot, DotSet
from creekdb.schemes.core.ordering import NOOP_FOLLOWER_FACTOR, Stabiliser


def after(ticks: int, unstable: Stabiliser) -> Stabiliser:
    for _ in range(ticks):
        unstable.tick()
    return unstable


def test_without_weak_requests_none_is_due() -> None:
    unstable = after(100, Stabiliser(DotSet(), 5))
    assert not unstable.is_noop_due(leads=True)


def test_the_leader_is_the_first_to_lose_patience() -> None:
    unstable = Stabiliser(DotSet(), 5)
    unstable.add(Dot(1, 1))
    assert not after(4, unstable).is_noop_due(leads=True)
    assert after(1, unstable).is_noop_due(leads=True)
    assert not unstable.is_noop_due(leads=False)
    assert after(5 * NOOP_FOLLOWER_FACTOR - 5, unstable).is_noop_due(leads=False)


def test_the_oldest_that_is_not_stable_counts() -> None:
    committed = DotSet()
    unstable = Stabiliser(committed, 5)
    unstable.add(Dot(1, 1))
    after(3, unstable).add(Dot(1, 2))
    committed.add(Dot(1, 1))
    assert not after(4, unstable).is_noop_due(leads=True)
    assert after(1, unstable).is_noop_due(leads=True)


def test_there_is_one_at_a_time() -> None:
    committed = DotSet()
    unstable = Stabiliser(committed, 5)
    unstable.add(Dot(1, 1))
    after(5, unstable).last_noop = Dot(0, 1)
    assert not unstable.is_noop_due(leads=True)
    committed.add(Dot(0, 1))
    assert unstable.is_noop_due(leads=True), "it did not take along what waits"
