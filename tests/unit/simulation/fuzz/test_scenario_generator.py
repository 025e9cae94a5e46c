"""Scenarios from seeds: the same ones each time, of every kind, small enough to try thousands."""

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
FIXED = [each for each in SCENARIOS if each.seed % MEMBER_CHANGE_EVERY != MEMBER_CHANGE_OFFSET]
"""Those whose members stay the same."""


def test_a_seed_always_means_the_same_scenario() -> None:
    assert [scenario_from_seed(seed) for seed in range(400)] == SCENARIOS


def test_seeds_cover_all_sizes_data_types_and_kinds_of_limits() -> None:
    assert {each.replicas for each in SCENARIOS} == set(range(1, 8))
    assert len({each.datatype for each in SCENARIOS}) >= 5
    assert {"window", "batch_limit", "pull_limit", "catch_up_limit", "checkpoint_every"} <= {
        name for each in SCENARIOS for name in each.settings
    }
    assert any(max(each.clock.skews_us) >= DAY_US // 2 for each in SCENARIOS)
    assert any(each.disk.fsync_us_max == 0 for each in SCENARIOS)
    assert any(each.clients.rate_per_second for each in SCENARIOS)
    assert any(not each.faults for each in SCENARIOS)


def test_every_kind_of_fault_is_tried_in_many_seeds() -> None:
    tried = Counter(kind for each in SCENARIOS for kind in {type(fault) for fault in each.faults})
    rare = {kind.__name__: tried[kind] for kind in get_args(Fault) if tried[kind] < 10}

    assert not rare
    assert sum(any(_strikes_late(fault) for fault in each.faults) for each in SCENARIOS) >= 10


def _strikes_late(fault: Fault) -> bool:
    """In the middle of a write, or after a promise."""
    return (isinstance(fault, Crash) and fault.writing) or (
        isinstance(fault, Die) and fault.telling
    )


def test_members_change_in_every_so_many_seeds_where_the_scheme_lets_them() -> None:
    changed = [
        each for each in SCENARIOS if each.seed % MEMBER_CHANGE_EVERY == MEMBER_CHANGE_OFFSET
    ]
    kinds = [{type(fault) for fault in each.faults} & {Add, Remove} for each in changed]

    assert all(each in kinds for each in ({Add}, {Remove}, {Add, Remove}))
    assert all(not {type(fault) for fault in each.faults} & {Add, Remove} for each in FIXED)
    for each in changed:
        assert scenario_from_seed(each.seed, "smr").node_count == each.replicas


def test_loads_are_short_and_small() -> None:
    for each in SCENARIOS:
        assert 500_000 <= each.duration_us <= 2_000_000
        clients = each.clients
        operations = clients.sessions * clients.operations_per_session * each.replicas
        assert clients.rate_per_second or 7 <= operations <= 80


def test_without_faults_a_seed_means_the_same_scenario_on_a_good_day() -> None:
    troubled = next(each for each in SCENARIOS if each.faults)
    calm = scenario_from_seed(troubled.seed, faults=False)
    assert calm == msgspec.structs.replace(troubled, faults=())


def test_scenarios_of_seeds_run_to_rest() -> None:
    for scenario in FIXED[:25]:
        assert run(scenario).quiescence_failure is None, f"seed {scenario.seed}"


def test_a_scheme_changes_nothing_but_its_name_where_everybody_votes() -> None:
    for each in FIXED:
        assert scenario_from_seed(each.seed, "smr") == msgspec.structs.replace(each, scheme="smr")


def test_a_primary_comes_back_in_the_end_and_others_still_die() -> None:
    dead = 0
    for each in FIXED:
        planned = scenario_from_seed(each.seed, "bayou")
        if any(isinstance(fault, LoseDisk) for fault in each.faults):
            continue  # that of a primary is not lost: nobody could tell what it held
        for before, after in zip(each.faults, planned.faults, strict=True):
            if isinstance(before, Die) and before.replica == 0:
                assert after == Crash(before.at_us, 0)
            else:
                assert after == before
                dead += isinstance(after, Die)
    assert dead


def test_in_some_scenarios_one_misses_more_than_is_cast_to_it() -> None:
    scenario = scenario_from_seed(LAG_OFFSET + LAG_EVERY)
    assert scenario.settings["pull_limit"] == 1
    assert [type(fault) for fault in scenario.faults] == [Partition, Heal]
    finding = run_seed(scenario.seed)
    assert not finding.has_failed, finding.describe()
    assert finding.probes[Probe.CAST_SPARED]
