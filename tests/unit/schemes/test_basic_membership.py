"""Membership changes during the execution of earlier requests."""

from creekdb.protocol.membership.configuration import find_configuration
from creekdb.protocol.messages import CatchUp, Snapshot
from tests.unit.schemes.replica_harness import ReplicaHarness


def test_no_snapshot_with_outdated_members_is_sent() -> None:
    """The change is delivered but not executed. A later snapshot will contain it."""
    harness = ReplicaHarness()
    harness.tick(40)
    harness.invoke(1, "put", "a", 1, strong=True)
    harness.tick(5)
    harness.held_tasks[0] = []
    removal = harness[1].view.configuration().remove_operation(2)
    harness.invoke(1, removal.name, *removal.arguments, strong=True)
    harness.tick(40)
    assert harness[0].view.configuration().replica_ids == (0, 1)

    def snapshots() -> list[Snapshot]:
        harness.sent.clear()
        harness.receive(0, 1, CatchUp(0))
        return [each for _, _, each in harness.sent if isinstance(each, Snapshot)]

    assert snapshots() == []
    harness.run_held_tasks(0)
    (snapshot,) = snapshots()
    configuration = find_configuration(snapshot.checkpoint.state)
    assert configuration is not None
    assert configuration.replica_ids == (0, 1)
