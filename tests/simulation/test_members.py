"""Replicas are added, removed and replaced while clients go on asking."""

import pytest

from creekdb.history import MEMBERSHIP_OPERATION, History
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.probes import Probe
from creekdb.simulation.fuzz.campaign import run_campaign, run_seed
from creekdb.simulation.fuzz.scenario_generator import MEMBER_CHANGE_EVERY, MEMBER_CHANGE_OFFSET
from creekdb.simulation.kernel.cluster import Simulation
from tests.simulation.judged import story

SHARDS = 5
SEEDS = 6
"""In each shard."""

FOUND = {
    407: "a replica that was removed fell silent, and was the only one who knew",
    511: "what a new member had sent was not found on the disk again",
    20119: "one that was away knew none of those who were left",
    2175: "what all old members had was forgotten, and missing at the new one for ever",
}


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_seed_with_changes_breaks_creek(shard: int) -> None:
    first = MEMBER_CHANGE_OFFSET + shard * SEEDS * MEMBER_CHANGE_EVERY
    seeds = range(first, first + SEEDS * MEMBER_CHANGE_EVERY, MEMBER_CHANGE_EVERY)
    changes = 0
    for finding in run_campaign(seeds, "both"):
        assert not finding.has_failed, f"seed {finding.seed}: {finding.describe()}"
        changes += finding.probes.get(Probe.MEMBERS_CHANGED, 0)
    assert changes


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_once_failed_passes(seed: int) -> None:
    finding = run_seed(seed, twice=True)

    assert not finding.has_failed, f"{FOUND[seed]}\n{finding.describe()}"


def configurations(simulation: Simulation) -> dict[int, Configuration]:
    """Of the replicas that are up at the end."""
    return {
        node.index: node.replica.configuration()
        for node in simulation.nodes
        if node.replica is not None
    }


def answered_at(history: History, replica: int) -> int:
    return sum(each.replica == replica and bool(each.answers) for each in history.operations)


def test_who_is_added_is_not_taken_for_one_that_lost_its_disk() -> None:
    simulation, run = story("add 3 at 200ms; crash 3 at 500ms; restart 3 at 550ms", begin_anew=1)

    assert configurations(simulation)[3].replica_ids == (0, 1, 2, 3)
    assert answered_at(run.history, 3)


def test_a_new_replica_starts_with_a_snapshot_and_then_takes_part() -> None:
    simulation, run = story("add 3 at 200ms", checkpoint_every=20)

    known = configurations(simulation)
    assert known[3].replica_ids == (0, 1, 2, 3)
    assert len(set(map(Configuration.register_value, known.values()))) == 1
    assert answered_at(run.history, 3) > 5
    assert run.probes[Probe.SNAPSHOT_INSTALLED] >= 1
    assert run.probes[Probe.JOINED] == 1


def test_the_leader_is_removed_and_the_others_go_on() -> None:
    simulation, run = story("remove 0 at 200ms")

    known = configurations(simulation)
    assert known.keys() == {1, 2}
    assert known[1].replica_ids == (1, 2)
    assert run.probes[Probe.REMOVED] == 1
    later = [each for each in run.history.operations if each.invoked_us > 500_000]
    assert any(each.strong and each.stable for each in later)


def test_a_replica_that_lost_its_disk_is_replaced() -> None:
    simulation, _ = story("die 1 at 100ms; add 3 at 300ms; remove 1 at 300ms")

    known = configurations(simulation)
    assert known.keys() == {0, 2, 3}
    assert known[0].register_value() == (2, ((0, ""), (2, ""), (3, "address-3")), (1,))


def test_one_grows_to_three_and_another_one_is_left_of_them() -> None:
    simulation, _ = story(
        "add 1 at 100ms; add 2 at 200ms; crash 2 at 300ms; restart 2 at 350ms; remove 1 at 500ms",
        replicas=1,
    )

    known = configurations(simulation)
    assert known[0].replica_ids == known[2].replica_ids == (0, 2)


def test_one_that_is_away_while_it_is_removed_learns_of_it_when_it_is_back() -> None:
    _, run = story("crash 2 at 100ms; remove 2 at 200ms; restart 2 at 500ms")

    assert run.probes[Probe.FORMER_MEMBER_TOLD] >= 1
    assert run.probes[Probe.REMOVED] >= 1


def test_nothing_is_changed_without_a_majority_of_the_old_members() -> None:
    """Two of three are out of reach until the end: only then can one of them be removed."""
    _, run = story("partition 0|1|2 at 100ms; remove 2 at 200ms")

    asked = [each for each in run.history.operations if each.operation.name == MEMBERSHIP_OPERATION]
    stable = [each.stable for each in asked if each.stable is not None]
    assert asked[0].invoked_us < 300_000
    assert all(each.at_us >= 800_000 for each in stable)
