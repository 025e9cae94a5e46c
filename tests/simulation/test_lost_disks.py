"""Disk loss: a replica that restarts with an empty disk recovers from all other members."""

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
from tests.simulation.checked_run import run_checked
from tests.simulation.idle_watch import build_watched_simulation

REGRESSIONS = {
    31074: "a lost snapshot was not sent again to a replica that had all decisions",
    15602: "a checker expected a lost ballot of a replica that no other replica had received",
}
SHARDS = 4
SEEDS = 6
"""Number of seeds in each shard."""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_seed_with_disk_losses_fails(shard: int) -> None:
    first = DISK_LOSS_OFFSET + shard * SEEDS * DISK_LOSS_EVERY
    joined = 0
    for result in run_campaign(
        range(first, first + SEEDS * DISK_LOSS_EVERY, DISK_LOSS_EVERY), "differential"
    ):
        assert not result.has_failed, f"seed {result.seed}: {result.describe()}"
        joined += result.probes.get(Probe.JOINED_AFTER_DISK_LOSS, 0)
    assert joined


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_regression_seeds_pass(seed: int) -> None:
    result = run_seed(seed, "creek", twice=True)

    assert not result.has_failed, f"{REGRESSIONS[seed]}\n{result.describe()}"


def restarted_empty(run: SimulationRun) -> list[int]:
    """Return the replicas that restarted with an empty disk."""
    return [log.replica for log in run.history.logs if log.has_empty_disk]


def response_count(run: SimulationRun, replica: int, after_us: int) -> int:
    return sum(
        each.replica == replica and each.invoked_us > after_us and bool(each.responses)
        for each in run.history.operations
    )


@pytest.mark.parametrize("lost", [0, 1])
def test_a_replica_joins_again_after_a_disk_loss(lost: int) -> None:
    """The disk is that of the leader, or of another replica."""
    _, run = run_checked(f"lose-disk {lost} for 50ms at 200ms", checkpoint_every=10)
    assert restarted_empty(run) == [lost]
    assert response_count(run, lost, after_us=500_000)
    assert run.probes[Probe.SNAPSHOT_INSTALLED]


def test_recovery_waits_for_a_crashed_member_while_the_others_continue() -> None:
    _, run = run_checked(
        "crash 2 at 190ms; lose-disk 1 for 10ms at 200ms; restart 2 at 600ms", replicas=5
    )
    assert restarted_empty(run) == [1]
    logs = [log for log in run.history.logs if log.replica == 1]
    joined = min(
        each.invoked_us
        for each in run.history.operations
        if each.replica == 1 and each.incarnation == logs[-1].incarnation
    )
    assert joined > 600_000
    assert any(
        each.strong and each.stable and 300_000 < each.invoked_us < 600_000
        for each in run.history.operations
    )


def test_disks_can_be_lost_one_after_the_other() -> None:
    _, run = run_checked("; ".join(f"lose-disk {each} for 20ms at 200ms" for each in range(3)))
    assert sorted(restarted_empty(run)) == [0, 1, 2]
    for each in range(3):
        assert response_count(run, each, after_us=500_000)


LOSS_REGRESSIONS = {
    400690: "requests of a replica were blocked by its earlier requests, which were lost",
}


@pytest.mark.parametrize("seed", LOSS_REGRESSIONS)
def test_requests_lost_with_a_disk_block_no_other_requests(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lost disk may be the only one that holds some requests."""
    monkeypatch.setattr(
        injector,
        "can_lose_disk",
        lambda node, nodes: node.replica and all(_has_joined(each.disk) for each in nodes),
    )
    run = build_watched_simulation(scenario_from_seed(seed, "basic")).run(FUZZ_EVENTS_MAX)
    assert run.quiescence_failure is None, LOSS_REGRESSIONS[seed]
    first, *others = run.history.final_states
    assert all(each.committed == first.committed for each in others)
    assert all(each.state == first.state for each in others)


def test_seeds_with_disk_losses_have_no_deaths_or_member_changes() -> None:
    for seed in range(DISK_LOSS_OFFSET, 400, DISK_LOSS_EVERY):
        faults = scenario_from_seed(seed, "creek").faults
        kinds = {type(fault).__name__ for fault in faults}
        assert "LoseDisk" not in kinds or not kinds & {"Die", "Add", "Remove"}
