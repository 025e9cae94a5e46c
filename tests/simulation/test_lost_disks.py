"""Replicas whose disks are lost come back with nothing, and hear from all others what they knew."""

import pytest

from creekdb.protocol.probes import Probe
from creekdb.simulation.faults import injector
from creekdb.simulation.faults.injector import _has_joined
from creekdb.simulation.fuzz.campaign import FUZZ_EVENTS_MAX, run_campaign, run_seed
from creekdb.simulation.fuzz.scenario_generator import (
    DISK_LOSS_EVERY,
    DISK_LOSS_OFFSET,
    scenario_from_seed,
)
from creekdb.simulation.kernel.cluster import SimulationRun
from tests.simulation.judged import story
from tests.simulation.leisure import watched

FOUND = {
    31074: "a snapshot got lost, and nobody sent it again to one who knew all decisions",
    15602: "a checker held a replica to a ballot of its own that it had lost, and nobody had heard",
}
SHARDS = 4
SEEDS = 6
"""In each shard."""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_seed_with_lost_disks_breaks_creek(shard: int) -> None:
    first = DISK_LOSS_OFFSET + shard * SEEDS * DISK_LOSS_EVERY
    entered = 0
    for finding in run_campaign(
        range(first, first + SEEDS * DISK_LOSS_EVERY, DISK_LOSS_EVERY), "both"
    ):
        assert not finding.has_failed, f"seed {finding.seed}: {finding.describe()}"
        entered += finding.probes.get(Probe.ENTERED_ANEW, 0)
    assert entered


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_once_failed_passes(seed: int) -> None:
    finding = run_seed(seed, "creek", twice=True)

    assert not finding.has_failed, f"{FOUND[seed]}\n{finding.describe()}"


def anew(run: SimulationRun) -> list[int]:
    """Who came back with an empty disk."""
    return [log.replica for log in run.history.logs if log.has_empty_disk]


def answered_at(run: SimulationRun, replica: int, after_us: int) -> int:
    return sum(
        each.replica == replica and each.invoked_us > after_us and bool(each.answers)
        for each in run.history.operations
    )


@pytest.mark.parametrize("lost", [0, 1])
def test_who_lost_its_disk_takes_part_again(lost: int) -> None:
    """The leader, or another one."""
    _, run = story(f"lose-disk {lost} for 50ms at 200ms", checkpoint_every=10)
    assert anew(run) == [lost]
    assert answered_at(run, lost, after_us=500_000)
    assert run.probes[Probe.SNAPSHOT_INSTALLED]


def test_it_waits_for_one_who_is_away_and_the_others_go_on() -> None:
    _, run = story(
        "crash 2 at 190ms; lose-disk 1 for 10ms at 200ms; restart 2 at 600ms", replicas=5
    )
    assert anew(run) == [1]
    logs = [log for log in run.history.logs if log.replica == 1]
    entered = min(
        each.invoked_us
        for each in run.history.operations
        if each.replica == 1 and each.incarnation == logs[-1].incarnation
    )
    assert entered > 600_000
    assert any(
        each.strong and each.stable and 300_000 < each.invoked_us < 600_000
        for each in run.history.operations
    )


def test_disks_are_lost_one_after_the_other() -> None:
    _, run = story("; ".join(f"lose-disk {each} for 20ms at 200ms" for each in range(3)))
    assert sorted(anew(run)) == [0, 1, 2]
    for each in range(3):
        assert answered_at(run, each, after_us=500_000)


FOUND_LOSING = {
    400690: "what a replica issued was held back by what it had issued before, and nobody had",
}


@pytest.mark.parametrize("seed", FOUND_LOSING)
def test_what_is_lost_with_a_disk_holds_up_nothing_else(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that disk alone had requests."""
    monkeypatch.setattr(
        injector,
        "loses_nothing",
        lambda node, nodes: node.replica and all(_has_joined(each.disk) for each in nodes),
    )
    run = watched(scenario_from_seed(seed, "basic")).run(FUZZ_EVENTS_MAX)
    assert run.quiescence_failure is None, FOUND_LOSING[seed]
    first, *others = run.history.final_states
    assert all(each.committed == first.committed for each in others)
    assert all(each.state == first.state for each in others)


def test_seeds_in_which_disks_are_lost_have_nobody_who_dies() -> None:
    for seed in range(DISK_LOSS_OFFSET, 400, DISK_LOSS_EVERY):
        faults = scenario_from_seed(seed, "creek").faults
        kinds = {type(fault).__name__ for fault in faults}
        assert "LoseDisk" not in kinds or not kinds & {"Die", "Add", "Remove"}
