"""Due time of the strong no-op, and events."""

import pytest

from creekdb.protocol.effects import CabDelivered, Committed, RbCast, RbDelivered
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.settings import Settings
from creekdb.schemes.core.execution import ReplicaVariables
from creekdb.schemes.core.ordering import NOOP_FOLLOWER_FACTOR, Stabiliser
from tests.unit.schemes.single_replica import SingleReplica, dots


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


class _ObservedReplica(SingleReplica):
    """Replica that records the types of its events."""

    def __init__(self, emit_events: int) -> None:
        self.events: list[type[object]] = []
        super().__init__(emit_events=emit_events)

    def take_effects(self) -> None:
        self.events += map(type, self.replica.outbox.events)
        super().take_effects()


@pytest.mark.parametrize(
    ("emit_events", "events"),
    [(0, [RbDelivered]), (1, [RbCast, RbDelivered, CabDelivered, Committed, Committed])],
)
def test_events_that_only_recordings_need_can_be_omitted(
    emit_events: int, events: list[type[object]]
) -> None:
    replica = _ObservedReplica(emit_events)
    weak = replica.invoke("put", "a", 1)
    strong = replica.receive_request(5_000, "noop", context=dots(weak))
    replica.decide(strong)

    assert replica.replica.view.committed_ids() == (weak, strong)
    assert replica.events == events
