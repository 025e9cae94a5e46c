"""Student's t distribution, compared with its closed forms."""

from math import atan, pi, sqrt
from random import Random
from statistics import NormalDist, mean, stdev

import pytest

from creekdb.pipeline.stages import measure
from creekdb.pipeline.stages.measure import t_quantile

CONFIDENCE_LEVEL = 0.95
"""Level that the report states."""
DEGREES = [1, 2, 3, 4, 5, 9, 10, 30, 99, 100]


def central_probability(t: float, degrees: int) -> float:
    return measure.central_probability(atan(t / sqrt(degrees)), degrees)


@pytest.mark.parametrize("t", [0.1, 1.0, 2.5, 40.0])
def test_low_degrees_of_freedom_match_closed_forms(t: float) -> None:
    assert central_probability(t, 1) == pytest.approx(2 * atan(t) / pi)
    assert central_probability(t, 2) == pytest.approx(t / sqrt(2 + t * t))
    angle = t / sqrt(3)
    assert central_probability(t, 3) == pytest.approx(
        2 / pi * (atan(angle) + angle / (1 + angle * angle))
    )


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042)]
)
def test_quantiles_are_those_of_printed_tables(degrees: int, quantile: float) -> None:
    assert t_quantile(degrees) == pytest.approx(quantile, abs=0.0006)


@pytest.mark.parametrize("degrees", DEGREES)
def test_quantiles_have_the_confidence_level(degrees: int) -> None:
    assert central_probability(t_quantile(degrees), degrees) == pytest.approx(
        CONFIDENCE_LEVEL, abs=1e-12
    )


def test_quantiles_decrease_towards_those_of_the_normal_distribution() -> None:
    quantiles = [t_quantile(degrees) for degrees in DEGREES]
    normal = NormalDist().inv_cdf((1 + CONFIDENCE_LEVEL) / 2)

    assert quantiles == sorted(quantiles, reverse=True)
    assert normal < t_quantile(1000) < normal * 1.002


def test_intervals_contain_the_mean_at_the_confidence_level() -> None:
    random, samples, repeats = Random(7), 4, 4000
    hits = 0
    for _ in range(repeats):
        drawn = [random.gauss(0, 1) for _ in range(samples)]
        hits += abs(mean(drawn)) <= t_quantile(samples - 1) * stdev(drawn) / sqrt(samples)

    assert hits / repeats == pytest.approx(CONFIDENCE_LEVEL, abs=0.015)


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 12.706), (2, 4.303), (9, 2.262)])
def test_intervals_are_those_of_published_tables_for_95_percent(
    degrees: int, quantile: float
) -> None:
    assert t_quantile(degrees) == pytest.approx(quantile, abs=0.001)
