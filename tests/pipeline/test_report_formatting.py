"""Numbers and names as text."""

from math import inf
from typing import Any

import pytest

from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.quantities import Band, Unit


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (32_512.0, Unit.PER_SECOND, "32.5k tx/s"),
        (2_690.0, Unit.PER_SECOND, "2.69k tx/s"),
        (512.0, Unit.PER_SECOND, "512 tx/s"),
        (1_204.0, Unit.MICROSECONDS, "1.20 ms"),
        (0.9812, Unit.SHARE, "98.1 %"),
        (1.0, Unit.SHARE, "100.0 %"),
        (0.99999, Unit.SHARE, "99.99 %"),
        (-0.25, Unit.RATIO, "−0.25"),
        (12_345.0, Unit.COUNT, "12 345"),
    ],
)
def test_a_number_has_its_unit(value: float, unit: Unit, expected: str) -> None:
    assert formatting.format_number(value, unit).replace(formatting.NO_BREAK_SPACE, " ") == expected


@pytest.mark.parametrize(
    ("value_us", "expected"),
    [(361.0, "0.36 ms"), (25_540.0, "25.5 ms"), (170_160.0, "170 ms"), (2_807_850.0, "2 808 ms")],
)
def test_a_single_observation_has_digits_by_magnitude(value_us: float, expected: str) -> None:
    assert formatting.format_ms(value_us).replace(formatting.NO_BREAK_SPACE, " ") == expected


@pytest.mark.parametrize(
    ("low", "high", "unit", "expected"),
    [
        (541.0, 602.0, Unit.MICROSECONDS, "0.54–0.60 ms"),
        (541.0, 541.4, Unit.MICROSECONDS, "0.54 ms"),
        (900.0, 2_000.0, Unit.PER_SECOND, "900–2.00k tx/s"),
        (1_500.0, 2_500.0, Unit.COUNT, "1 500–2 500"),
    ],
)
def test_a_range_has_one_unit(low: float, high: float, unit: Unit, expected: str) -> None:
    assert (
        formatting.format_span(low, high, unit).replace(formatting.NO_BREAK_SPACE, " ") == expected
    )


def test_a_band_may_have_an_open_end() -> None:
    assert (
        formatting.format_band(Band(-inf, 1.1), Unit.RATIO).replace(formatting.NO_BREAK_SPACE, " ")
        == "≤ 1.10"
    )
    assert (
        formatting.format_band(Band(0.9, inf), Unit.SHARE).replace(formatting.NO_BREAK_SPACE, " ")
        == "≥ 90.0 %"
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("strong_share", None, "Payment"),
        ("strong_share", 0.1, "10 %"),
        ("exec_scale", 5.0, "× 5"),
        ("local_reads", True, "yes"),
        ("warehouses", 20, "20"),
    ],
)
def test_a_parameter_has_a_short_label(name: str, value: Any, expected: str) -> None:
    assert (
        formatting.format_parameter(name, value).replace(formatting.NO_BREAK_SPACE, " ") == expected
    )
