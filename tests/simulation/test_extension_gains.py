"""Every extension lowers what it is for, beside the paper's Creek. Simulated time is exact."""

from functools import cache

import pytest
from msgspec.structs import replace

from creekdb.evaluation import Experiment, Measures, build_simulation, measure
from creekdb.protocol.extensions import EXTENSIONS

GAIN_MIN = 0.05
"""Share by which the measure of an extension decreases."""
GAINS = {
    "estimates": "execution_ratio",
    "footprints": "strong_stable_ms",
    "late_contexts": "execution_ratio",
    "fast_path": "strong_stable_ms",
}


@cache
def measures(*extensions: str) -> Measures:
    paper = Experiment(load_tps=10_000, duration_us=40_000)
    scenario = replace(paper, **dict.fromkeys(extensions, True)).to_scenario()
    return measure(scenario, build_simulation(scenario).run(), ())


def value(name: str, of: Measures) -> float:
    measured = getattr(of, name)
    return float(measured if name == "execution_ratio" else measured.mean)


def test_every_extension_has_a_gain() -> None:
    assert set(GAINS) == set(EXTENSIONS)


@pytest.mark.parametrize(("extension", "name"), GAINS.items())
def test_an_extension_lowers_its_measure(extension: str, name: str) -> None:
    paper, extended = measures(), measures(extension)

    assert (paper.extensions, extended.extensions) == ((), (extension,))
    assert value(name, extended) < (1 - GAIN_MIN) * value(name, paper)


def test_estimates_are_counted_by_their_probe() -> None:
    assert measures("estimates").probes["execution_delayed"] > 0
    assert "execution_delayed" not in measures().probes


def test_footprints_are_counted_by_their_probe() -> None:
    assert measures("footprints").probes["stable_before_predecessor"] > 0
    assert "stable_before_predecessor" not in measures().probes
