"""Due time of the strong no-op."""

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.settings import Settings
from creekdb.schemes.core.execution import ReplicaVariables
from creekdb.schemes.core.ordering import NOOP_FOLLOWER_FACTOR, Stabiliser


def new_stabiliser() -> Stabiliser:
    return Stabiliser(ReplicaVariables(0, Settings(members=(0, 1), noop_ticks=5)))


def after_ticks(ticks: int, stabiliser: Stabiliser) -> Stabiliser:
    stabiliser._variables.ticks += ticks
    return stabiliser


def test_no_noop_is_due_without_weak_requests() -> None:
    stabiliser = after_ticks(100, new_stabiliser())
    assert not stabiliser.is_noop_due(is_leader=True)


def test_a_noop_is_due_on_the_leader_before_the_followers() -> None:
    stabiliser = new_stabiliser()
    stabiliser.add(Dot(1, 1))
    assert not after_ticks(4, stabiliser).is_noop_due(is_leader=True)
    assert after_ticks(1, stabiliser).is_noop_due(is_leader=True)
    assert not stabiliser.is_noop_due(is_leader=False)
    assert after_ticks(5 * NOOP_FOLLOWER_FACTOR - 5, stabiliser).is_noop_due(is_leader=False)


def test_the_oldest_unstable_request_determines_the_waiting_time() -> None:
    stabiliser = new_stabiliser()
    committed = stabiliser._committed
    stabiliser.add(Dot(1, 1))
    after_ticks(3, stabiliser).add(Dot(1, 2))
    committed.add(Dot(1, 1))
    assert not after_ticks(4, stabiliser).is_noop_due(is_leader=True)
    assert after_ticks(1, stabiliser).is_noop_due(is_leader=True)


def test_no_noop_is_due_while_another_is_uncommitted() -> None:
    stabiliser = new_stabiliser()
    committed = stabiliser._committed
    stabiliser.add(Dot(1, 1))
    after_ticks(5, stabiliser).last_noop = Dot(0, 1)
    assert not stabiliser.is_noop_due(is_leader=True)
    committed.add(Dot(0, 1))
    assert stabiliser.is_noop_due(is_leader=True), (
        "the committed no-op did not stabilise the request"
    )
