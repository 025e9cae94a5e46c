"""Handover from a removed replica: no request with a response is lost."""

from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import PullResponse
from tests.unit.schemes.replica_harness import ReplicaHarness

REMOVED = 2


def remove(harness: ReplicaHarness, replica: int, at: int = 0) -> None:
    removal = harness[at].view.configuration().remove_operation(replica)
    harness.invoke(at, removal.name, *removal.arguments, strong=True)
    harness.tick(40)
    assert replica in harness[at].view.configuration().former


def invoke_weak_put(harness: ReplicaHarness, replica: int, key: str) -> Dot:
    """Make a weak call and check its tentative response."""
    issued = harness.invoke(replica, "put", key, 1)
    assert [each.kind for each in harness.responses if each.id == issued] == [
        ResponseKind.TENTATIVE
    ]
    return issued


def removed_while_issuing() -> tuple[ReplicaHarness, Dot]:
    """Return a replica that has not learned of its removal and has responded to a weak call."""
    harness = ReplicaHarness()
    harness.tick(40)
    harness.isolate(REMOVED)
    remove(harness, REMOVED)
    assert (
        harness[0].view.configuration().replica_ids
        == harness[1].view.configuration().replica_ids
        == (0, 1)
    )
    return harness, invoke_weak_put(harness, REMOVED, "a")


def run_until_shutdown(harness: ReplicaHarness, replica: int) -> None:
    """Tick until the removed replica can shut down, and stop it."""
    for _ in range(400):
        harness.tick()
        if harness[replica].view.can_shut_down():
            break
    assert harness[replica].view.can_shut_down()
    harness.crash(replica)


def test_requests_issued_after_the_removal_are_handed_over_before_shutdown() -> None:
    harness, issued = removed_while_issuing()
    harness.cut_links.clear()
    run_until_shutdown(harness, REMOVED)
    harness.tick(100)
    for each in (0, 1):
        assert harness[each]._ordering.is_committed(issued)
        assert harness[each].view.state()["a"] == 1


def test_a_removed_replica_does_not_shut_down_before_its_requests_arrive() -> None:
    harness, issued = removed_while_issuing()
    harness.cut_links.clear()
    for _ in range(400):
        harness.tick_without_delivery()
        for _ in range(len(harness.network)):
            sender, receiver, message = harness.network.popleft()
            if not (sender == REMOVED and isinstance(message, PullResponse)):
                harness.network.append((sender, receiver, message))
        harness.deliver()
    assert REMOVED in harness[REMOVED].view.configuration().former
    assert not harness[REMOVED].view.can_shut_down()
    assert not harness[0].view.has_request(issued)
    harness.tick(20)
    assert harness[REMOVED].view.can_shut_down()
    assert harness[0].view.has_request(issued)


def test_a_removed_replica_does_not_shut_down_while_one_of_two_members_has_its_requests() -> None:
    harness, issued = removed_while_issuing()
    harness.cut_links = {(REMOVED, 1), (0, 1), (1, 0)}
    harness.tick(100)
    assert harness[0].view.has_request(issued)
    assert not harness[1].view.has_request(issued)
    assert not harness[REMOVED].view.can_shut_down()
    harness.cut_links.clear()
    run_until_shutdown(harness, REMOVED)


def test_a_removed_replica_does_not_shut_down_while_one_member_alone_has_confirmed() -> None:
    """If that member lost its disk, no replica would report the removal any more."""
    harness = ReplicaHarness(4)
    harness.tick(40)
    harness.cut_links = {(1, 3), (2, 3)}
    remove(harness, 3)
    harness.tick(100)
    assert 3 in harness[3].view.configuration().former
    assert not harness[3].view.can_shut_down()
    harness.cut_links.clear()
    run_until_shutdown(harness, 3)


def test_causal_predecessors_are_handed_over_with_a_removed_replicas_requests() -> None:
    """Two replicas are isolated together. The one whose request the other's depends on never
    returns."""
    harness = ReplicaHarness(5)
    harness.tick(40)
    harness.isolate(3, 4)
    before = invoke_weak_put(harness, 4, "a")
    harness.tick(5)
    strong = harness.invoke(3, "put", "b", 1, strong=True)
    after = invoke_weak_put(harness, 3, "c")
    harness.crash(4)
    remove(harness, 4)
    remove(harness, 3)
    harness.cut_links.clear()
    run_until_shutdown(harness, 3)
    harness.tick(100)
    for each in (before, strong, after):
        assert harness[0]._ordering.is_committed(each)
