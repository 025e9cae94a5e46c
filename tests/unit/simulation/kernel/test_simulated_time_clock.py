"""Skew, drift and jumps of clocks relative to true time."""

import pytest

from creekdb.errors import BadValue
from creekdb.simulation.kernel.simulated_time import DAY_US, EPOCH_US, SkewedClock
from creekdb.simulation.models.parameters import ClockModel


def test_a_clock_without_skew_shows_true_time() -> None:
    assert SkewedClock().read(1_234) == EPOCH_US + 1_234


def test_drift_accumulates_and_skew_is_constant() -> None:
    clock = SkewedClock(skew_us=-500, drift_ppm=100)
    assert clock.read(0) == EPOCH_US - 500
    assert clock.read(1_000_000) == EPOCH_US + 1_000_000 - 500 + 100


def test_clocks_jump_forward_and_backward() -> None:
    clock = SkewedClock()
    clock.jump(DAY_US)
    assert clock.read(0) == EPOCH_US + DAY_US
    clock.jump(-2 * DAY_US)
    assert clock.read(0) == EPOCH_US - DAY_US


def test_replicas_beyond_the_end_of_the_model_have_correct_clocks() -> None:
    model = ClockModel(skews_us=(5,), drifts_ppm=(0, 7))
    assert model.make_clock(0).skew_us == 5
    assert model.make_clock(1).drift_ppm == 7
    assert model.make_clock(2).read(3) == EPOCH_US + 3


def test_excessive_skew_and_drift_are_rejected() -> None:
    with pytest.raises(BadValue, match="at most a year"):
        ClockModel(skews_us=(400 * DAY_US,))
    with pytest.raises(BadValue, match="ppm"):
        ClockModel(drifts_ppm=(-1_000_000,))
