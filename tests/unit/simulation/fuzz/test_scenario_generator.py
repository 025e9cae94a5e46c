"""Scenarios from seeds: repeatable, of every kind, and small."""

from collections import Counter
from typing import get_args

import msgspec

from creekdb.protocol.probes import Probe
from creekdb.simulation.faults.fault_types import (
    Add,
    Crash,
    Die,
    Fault,
    Heal,
    LoseDisk,
    Partition,
    Remove,
)
from creekdb.simulation.fuzz.campaign import run_seed
from creekdb.simulation.fuzz.scenario_generator import (
    LAG_EVERY,
    LAG_OFFSET,
    MEMBER_CHANGE_EVERY,
    MEMBER_CHANGE_OFFSET,
    scenario_from_seed,
)
from creekdb.simulation.kernel.simulated_time import DAY_US
from tests.unit.simulation.toy_replica import run

SCENARIOS = [scenario_from_seed(seed) for seed in range(400)]
FIXED_MEMBERSHIP = [
    each for each in SCENARIOS if each.seed % MEMBER_CHANGE_EVERY != MEMBER_CHANGE_OFFSET
]
"""Scenarios without membership changes."""


def test_a_seed_always_gives_the_same_scenario() -> None:
    assert [scenario_from_seed(seed) for seed in range(400)] == SCENARIOS


def test_seeds_cover_all_cluster_sizes_data_types_and_limits() -> None:
    assert {each.replicas for each in SCENARIOS} == set(range(1, 8))
    assert len({each.datatype for each in SCENARIOS}) >= 5
    assert {"window", "batch_limit", "pull_limit", "catch_up_limit", "checkpoint_every"} <= {
        name for each in SCENARIOS for name in each.settings
    }
    assert any(max(each.clock.skews_us) >= DAY_US // 2 for each in SCENARIOS)
    assert any(each.disk.fsync_us_max == 0 for each in SCENARIOS)
    assert any(each.clients.rate_per_second for each in SCENARIOS)
    assert any(not each.faults for each in SCENARIOS)


def test_every_fault_type_occurs_in_many_seeds() -> None:
    """A rolled-back disk may break the guarantees that are checked, so no seed has one."""
    seeds_by_type = Counter(
        kind for each in SCENARIOS for kind in {type(fault) for fault in each.faults}
    )
    rare = {
        kind.__name__: seeds_by_type[kind] for kind in get_args(Fault) if seeds_by_type[kind] < 10
    }
    assert rare.pop("RollbackDisk") == 0

    assert not rare
    assert sum(any(_is_triggered(fault) for fault in each.faults) for each in SCENARIOS) >= 10


def _is_triggered(fault: Fault) -> bool:
    """True if the fault waits for a write or a promise."""
    return (isinstance(fault, Crash) and fault.writing) or (
        isinstance(fault, Die) and fault.telling
    )


def test_members_change_in_every_eighth_seed_if_the_scheme_supports_it() -> None:
    changed = [
        each for each in SCENARIOS if each.seed % MEMBER_CHANGE_EVERY == MEMBER_CHANGE_OFFSET
    ]
    kinds = [{type(fault) for fault in each.faults} & {Add, Remove} for each in changed]

    assert all(each in kinds for each in ({Add}, {Remove}, {Add, Remove}))
    assert all(
        not {type(fault) for fault in each.faults} & {Add, Remove} for each in FIXED_MEMBERSHIP
    )
    for each in changed:
        assert scenario_from_seed(each.seed, "smr").node_count == each.replicas


def test_load_phases_are_short_and_small() -> None:
    for each in SCENARIOS:
        assert 500_000 <= each.duration_us <= 2_000_000
        clients = each.clients
        operations = clients.sessions * clients.operations_per_session * each.replicas
        assert clients.rate_per_second or 7 <= operations <= 80


def test_omitting_faults_changes_nothing_else() -> None:
    faulty = next(each for each in SCENARIOS if each.faults)
    fault_free = scenario_from_seed(faulty.seed, faults=False)
    assert fault_free == msgspec.structs.replace(faulty, faults=())


def test_scenarios_from_seeds_quiesce() -> None:
    for scenario in FIXED_MEMBERSHIP[:25]:
        assert run(scenario).quiescence_failure is None, f"seed {scenario.seed}"


def test_schemes_with_all_voters_have_equal_scenarios() -> None:
    for each in FIXED_MEMBERSHIP:
        assert scenario_from_seed(each.seed, "smr") == msgspec.structs.replace(each, scheme="smr")


def test_a_primary_restarts_at_the_end_while_other_replicas_may_die() -> None:
    dead = 0
    for each in FIXED_MEMBERSHIP:
        bayou_scenario = scenario_from_seed(each.seed, "bayou")
        if any(isinstance(fault, LoseDisk) for fault in each.faults):
            continue  # a primary never loses its disk, since no other voter has its state
        for before, after in zip(each.faults, bayou_scenario.faults, strict=True):
            if isinstance(before, Die) and before.replica == 0:
                assert after == Crash(before.at_us, 0)
            else:
                assert after == before
                dead += isinstance(after, Die)
    assert dead


def test_in_some_scenarios_a_lagging_replica_must_pull_repeatedly() -> None:
    scenario = scenario_from_seed(LAG_OFFSET + LAG_EVERY)
    assert scenario.settings["pull_limit"] == 1
    assert [type(fault) for fault in scenario.faults] == [Partition, Heal]
    result = run_seed(scenario.seed)
    assert not result.has_failed, result.describe()
    assert result.probes[Probe.CAST_SKIPPED]


def test_some_scenarios_extend_contexts_with_and_without_a_hold() -> None:
    holds = [
        each.settings.get("hold_us_max")
        for each in (scenario_from_seed(seed) for seed in range(100))
        if each.settings.get("late_contexts")
    ]
    assert 15 <= len(holds) <= 45
    assert {*holds} == {0, 1_000, 50_000}
