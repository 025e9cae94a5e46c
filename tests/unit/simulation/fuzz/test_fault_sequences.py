"""Plays: schedules that can be meant, of every kind, within the time there is."""

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
def test_a_play_is_a_valid_schedule_with_valid_settings(
    seed: int, replicas: int, ticks: int
) -> None:
    staged = draw_fault_sequence(derive_generator(seed, "play"), replicas, 5_000, 5_000 * ticks)

    check_faults(staged.faults, replicas)
    assert [each.at_us for each in staged.faults] == sorted(each.at_us for each in staged.faults)
    assert parse_faults(";".join(map(format_fault, staged.faults))) == staged.faults
    Settings(members=tuple(range(replicas)), **staged.settings)


def test_plays_are_of_every_kind() -> None:
    plays = [
        draw_fault_sequence(derive_generator(seed, "play"), 5, 5_000, 1_000_000)
        for seed in range(100)
    ]
    kinds = {frozenset(type(fault) for fault in each.faults) for each in plays}

    for kind in (Partition, Crash, Cut, Die, Sever, SlowCpu):
        assert any(kind in each for each in kinds)
    assert any(Sever in each and len(each) == 1 for each in kinds)


def test_two_majorities_take_turns_and_whoever_is_in_both_restarts() -> None:
    for seed in range(100):
        staged = draw_fault_sequence(derive_generator(seed, "play"), 5, 5_000, 1_000_000)
        sides = [set(each.groups[0]) for each in staged.faults if isinstance(each, Partition)]
        if all(len(side) == 3 for side in sides) and len(sides) > 2:
            (shared,) = sides[0] & sides[1]
            assert all(sides[at] == sides[at % 2] for at in range(len(sides)))
            crashed = {each.replica for each in staged.faults if isinstance(each, Crash)}
            assert crashed == {shared}
            return
    raise AssertionError("no seed has two majorities")


def test_every_fourth_seed_is_a_play_where_there_are_players_enough() -> None:
    staged = [scenario_from_seed(seed) for seed in range(0, 200, SEQUENCE_EVERY)]

    for scenario in staged:
        assert scenario.replicas < SEQUENCE_REPLICAS_MIN or scenario.clients.strong_share >= 0.6
