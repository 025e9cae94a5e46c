"""Membership changes: replicas are added, removed and replaced under load."""

import pytest

from creekdb.history import MEMBERSHIP_OPERATION, History
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.probes import Probe
from creekdb.simulation.fuzz.campaign import run_campaign, run_seed
from creekdb.simulation.fuzz.scenario_generator import MEMBER_CHANGE_EVERY, MEMBER_CHANGE_OFFSET
from creekdb.simulation.kernel.cluster import Simulation
from tests.simulation.checked_run import run_checked

SHARDS = 5
SEEDS = 6
"""Number of seeds in each shard."""

REGRESSIONS = {
    407: "a removed replica stopped sending although no other replica had learned of its removal",
    511: "requests of a new member were not recovered from its disk",
    20119: "a replica that had been down had none of the remaining members in its configuration",
    2175: "requests on all old members were discarded and stayed missing at the new one",
}


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_seed_with_membership_changes_fails(shard: int) -> None:
    first = MEMBER_CHANGE_OFFSET + shard * SEEDS * MEMBER_CHANGE_EVERY
    seeds = range(first, first + SEEDS * MEMBER_CHANGE_EVERY, MEMBER_CHANGE_EVERY)
    changes = 0
    for result in run_campaign(seeds, "differential"):
        assert not result.has_failed, f"seed {result.seed}: {result.describe()}"
        changes += result.probes.get(Probe.MEMBERS_CHANGED, 0)
    assert changes


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_regression_seeds_pass(seed: int) -> None:
    result = run_seed(seed, twice=True)

    assert not result.has_failed, f"{REGRESSIONS[seed]}\n{result.describe()}"


def configurations(simulation: Simulation) -> dict[int, Configuration]:
    """Return the configurations of the replicas that are up at the end."""
    return {
        node.index: node.replica.view.configuration()
        for node in simulation.nodes
        if node.replica is not None
    }


def response_count(history: History, replica: int) -> int:
    return sum(each.replica == replica and bool(each.responses) for each in history.operations)


def test_an_added_replica_is_not_treated_as_one_with_a_lost_disk() -> None:
    simulation, run = run_checked(
        "add 3 at 200ms; crash 3 at 500ms; restart 3 at 550ms", begin_anew=1
    )

    assert configurations(simulation)[3].replica_ids == (0, 1, 2, 3)
    assert response_count(run.history, 3)


def test_an_added_replica_starts_from_a_snapshot_and_joins() -> None:
    simulation, run = run_checked("add 3 at 200ms", checkpoint_every=20)

    final_configurations = configurations(simulation)
    assert final_configurations[3].replica_ids == (0, 1, 2, 3)
    assert len(set(map(Configuration.register_value, final_configurations.values()))) == 1
    assert response_count(run.history, 3) > 5
    assert run.probes[Probe.SNAPSHOT_INSTALLED] >= 1
    assert run.probes[Probe.JOINED] == 1


def test_the_cluster_continues_after_the_leader_is_removed() -> None:
    simulation, run = run_checked("remove 0 at 200ms")

    final_configurations = configurations(simulation)
    assert final_configurations.keys() == {1, 2}
    assert final_configurations[1].replica_ids == (1, 2)
    assert run.probes[Probe.REMOVED] == 1
    later = [each for each in run.history.operations if each.invoked_us > 500_000]
    assert any(each.strong and each.stable for each in later)


def test_a_dead_replica_is_replaced() -> None:
    simulation, _ = run_checked("die 1 at 100ms; add 3 at 300ms; remove 1 at 300ms")

    final_configurations = configurations(simulation)
    assert final_configurations.keys() == {0, 2, 3}
    assert final_configurations[0].register_value() == (
        2,
        ((0, ""), (2, ""), (3, "address-3")),
        (1,),
    )


def test_a_single_replica_grows_to_three_and_shrinks_to_two() -> None:
    simulation, _ = run_checked(
        "add 1 at 100ms; add 2 at 200ms; crash 2 at 300ms; restart 2 at 350ms; remove 1 at 500ms",
        replicas=1,
    )

    final_configurations = configurations(simulation)
    assert final_configurations[0].replica_ids == final_configurations[2].replica_ids == (0, 2)


def test_a_replica_removed_while_down_learns_of_it_after_its_restart() -> None:
    _, run = run_checked("crash 2 at 100ms; remove 2 at 200ms; restart 2 at 500ms")

    assert run.probes[Probe.REMOVED_MEMBER_CAUGHT_UP] >= 1
    assert run.probes[Probe.REMOVED] >= 1


def test_no_change_is_made_without_a_majority_of_the_old_members() -> None:
    """Two of three replicas are unreachable until the end; the removal succeeds only then."""
    _, run = run_checked("partition 0|1|2 at 100ms; remove 2 at 200ms")

    changes_issued = [
        each for each in run.history.operations if each.operation.name == MEMBERSHIP_OPERATION
    ]
    stable = [each.stable for each in changes_issued if each.stable is not None]
    assert changes_issued[0].invoked_us < 300_000
    assert all(each.at_us >= 800_000 for each in stable)
