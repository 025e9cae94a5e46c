"""`creek simulate --find-peak`: the highest load that a system sustains."""

import json

import pytest
from msgspec.structs import replace

from creekdb.cli import main
from creekdb.errors import UsageError
from creekdb.evaluation.experiment import build_simulation
from creekdb.evaluation.measures import Measures, measure
from creekdb.evaluation.peak import PEAK_PRECISION, find_peak
from creekdb.simulation.kernel.scenario import ClientModel, Scenario

SMALL = Scenario(duration_us=10_000, clients=ClientModel(sessions=0, rate_per_second=100))


@pytest.fixture(scope="module")
def any_measures() -> Measures:
    return measure(SMALL, build_simulation(SMALL).run(), [])


class LimitedSystem:
    """System whose throughput is limited to `peak_tps`."""

    def __init__(self, measures: Measures, peak_tps: float) -> None:
        self.measures = measures
        self.peak_tps = peak_tps
        self.tried: list[float] = []

    def __call__(self, load_tps: float) -> Measures:
        self.tried.append(load_tps)
        return replace(
            self.measures,
            load_tps=load_tps,
            throughput_tps=min(load_tps, self.peak_tps),
            saturated=load_tps > self.peak_tps,
        )


@pytest.mark.parametrize("peak_tps", [11.0, 999.0, 1001.0, 32_500.0, 400_000.0])
def test_the_peak_is_found_from_below_and_from_above(
    any_measures: Measures, peak_tps: float
) -> None:
    system = LimitedSystem(any_measures, peak_tps)
    peak = find_peak(system, 1000.0)

    assert peak_tps / (1 + PEAK_PRECISION) <= peak.peak_tps <= peak_tps < peak.saturating_tps
    assert [each.load_tps for each in peak.tried] == sorted(system.tried)
    assert len(set(system.tried)) == len(system.tried) < 25


def test_the_peak_is_not_the_throughput_of_an_overloaded_system(any_measures: Measures) -> None:
    """An overloaded system may lose throughput, or complete work that was queued before."""
    system = LimitedSystem(any_measures, 1000.0)

    def measure_load(load_tps: float) -> Measures:
        measures = system(load_tps)
        return replace(measures, throughput_tps=load_tps * (3 if measures.saturated else 1))

    peak = find_peak(measure_load, 500.0)
    assert peak.peak_tps == peak.load_tps <= 1000.0


@pytest.mark.parametrize("peak_tps", [0.0, 1e9])
def test_an_endless_search_is_abandoned(any_measures: Measures, peak_tps: float) -> None:
    with pytest.raises(UsageError, match="no peak"):
        find_peak(LimitedSystem(any_measures, peak_tps), 1000.0)


FIND = ["simulate", "--workload", "tpcc", "--find-peak", "--scheme", "smr", "--exec-scale", "5"]


def test_the_command_reports_the_peak_and_all_loads_tried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [*FIND, "--warehouses", "1", "--load", "400", "--duration", "200ms"]
    assert main([*arguments, "--json"]) == 0
    peak = json.loads(capsys.readouterr().out)

    assert 350 < peak["peak_tps"] < 700, "2,700 per second, with executions five times as long"
    assert peak["load_tps"] < peak["saturating_tps"]
    assert len(peak["tried"]) > 2

    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert f"peak: {peak['peak_tps']:.0f} operations per second" in shown


def test_a_search_cannot_be_stored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIND, "--out", "nowhere"]) == 2
    assert "--find-peak makes many runs" in capsys.readouterr().err
