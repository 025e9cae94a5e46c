"""Due time of the strong no-op."""

from creekdb.protocol.ids.version_vector import Dot, DotSet
from creekdb.schemes.core.ordering import NOOP_FOLLOWER_FACTOR, Stabiliser


def after_ticks(ticks: int, stabiliser: Stabiliser) -> Stabiliser:
    for _ in range(ticks):
        stabiliser.tick()
    return stabiliser


def test_no_noop_is_due_without_weak_requests() -> None:
    stabiliser = after_ticks(100, Stabiliser(DotSet(), 5))
    assert not stabiliser.is_noop_due(is_leader=True)


def test_a_noop_is_due_on_the_leader_before_the_followers() -> None:
    stabiliser = Stabiliser(DotSet(), 5)
    stabiliser.add(Dot(1, 1))
    assert not after_ticks(4, stabiliser).is_noop_due(is_leader=True)
    assert after_ticks(1, stabiliser).is_noop_due(is_leader=True)
    assert not stabiliser.is_noop_due(is_leader=False)
    assert after_ticks(5 * NOOP_FOLLOWER_FACTOR - 5, stabiliser).is_noop_due(is_leader=False)


def test_the_oldest_unstable_request_determines_the_waiting_time() -> None:
    committed = DotSet()
    stabiliser = Stabiliser(committed, 5)
    stabiliser.add(Dot(1, 1))
    after_ticks(3, stabiliser).add(Dot(1, 2))
    committed.add(Dot(1, 1))
    assert not after_ticks(4, stabiliser).is_noop_due(is_leader=True)
    assert after_ticks(1, stabiliser).is_noop_due(is_leader=True)


def test_no_noop_is_due_while_another_is_uncommitted() -> None:
    committed = DotSet()
    stabiliser = Stabiliser(committed, 5)
    stabiliser.add(Dot(1, 1))
    after_ticks(5, stabiliser).last_noop = Dot(0, 1)
    assert not stabiliser.is_noop_due(is_leader=True)
    committed.add(Dot(0, 1))
    assert stabiliser.is_noop_due(is_leader=True), (
        "the committed no-op did not stabilise the request"
    )
