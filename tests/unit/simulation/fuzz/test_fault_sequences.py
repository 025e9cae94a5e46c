"""Fault sequences: valid schedules of every kind."""

from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.settings import Settings
from creekdb.simulation.faults.fault_types import (
    Crash,
    Cut,
    Die,
    Partition,
    Sever,
    SlowCpu,
    check_faults,
)
from creekdb.simulation.faults.language import format_fault, parse_faults
from creekdb.simulation.fuzz.fault_sequences import SEQUENCE_REPLICAS_MIN, draw_fault_sequence
from creekdb.simulation.fuzz.scenario_generator import SEQUENCE_EVERY, scenario_from_seed
from creekdb.simulation.kernel.seeds import derive_generator


@given(st.integers(0, 2**32), st.integers(SEQUENCE_REPLICAS_MIN, 7), st.integers(100, 240))
def test_fault_sequences_are_valid_schedules_with_valid_settings(
    seed: int, replicas: int, ticks: int
) -> None:
    sequence = draw_fault_sequence(derive_generator(seed, "play"), replicas, 5_000, 5_000 * ticks)

    check_faults(sequence.faults, replicas)
    assert [each.at_us for each in sequence.faults] == sorted(
        each.at_us for each in sequence.faults
    )
    assert parse_faults(";".join(map(format_fault, sequence.faults))) == sequence.faults
    Settings(members=tuple(range(replicas)), **sequence.settings)


def test_fault_sequences_of_every_kind_are_drawn() -> None:
    sequences = [
        draw_fault_sequence(derive_generator(seed, "play"), 5, 5_000, 1_000_000)
        for seed in range(100)
    ]
    kinds = {frozenset(type(fault) for fault in each.faults) for each in sequences}

    for kind in (Partition, Crash, Cut, Die, Sever, SlowCpu):
        assert any(kind in each for each in kinds)
    assert any(Sever in each and len(each) == 1 for each in kinds)


def test_majorities_alternate_and_their_common_replica_restarts() -> None:
    for seed in range(100):
        sequence = draw_fault_sequence(derive_generator(seed, "play"), 5, 5_000, 1_000_000)
        majorities = [
            set(each.groups[0]) for each in sequence.faults if isinstance(each, Partition)
        ]
        if all(len(side) == 3 for side in majorities) and len(majorities) > 2:
            (shared,) = majorities[0] & majorities[1]
            assert all(majorities[at] == majorities[at % 2] for at in range(len(majorities)))
            crashed = {each.replica for each in sequence.faults if isinstance(each, Crash)}
            assert crashed == {shared}
            return
    raise AssertionError("no seed has two majorities")


def test_every_fourth_seed_with_enough_replicas_has_a_fault_sequence() -> None:
    scenarios = [scenario_from_seed(seed) for seed in range(0, 200, SEQUENCE_EVERY)]

    for scenario in scenarios:
        assert scenario.replicas < SEQUENCE_REPLICAS_MIN or scenario.clients.strong_share >= 0.6
