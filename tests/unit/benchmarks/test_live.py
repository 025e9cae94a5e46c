"""Bars of the comparison with other systems."""

import pytest

from benchmarks import live
from benchmarks.comparison import Measurements
from creekdb.load.measurement import CpuClock, LoadMeter


def measurements(per_second: int) -> Measurements:
    meter = LoadMeter(0, 1_000_000_000)
    meter.strong_completed = per_second
    return Measurements([meter], [CpuClock({})])


@pytest.mark.parametrize(
    ("strong", "weak", "missed"),
    [(1000, 1500, []), (999, 1499, ["strong", "weak"]), (1000, 1499, ["weak"])],
)
def test_strong_puts_are_as_fast_as_etcd_and_weak_ones_half_again(
    strong: int, weak: int, missed: list[str]
) -> None:
    measured = {"strong": strong, "weak": weak, "etcd": 1000}
    results = live._throughputs({name: measurements(rate) for name, rate in measured.items()})

    assert [each.what.split()[-2] for each in results if each.missed] == missed


def test_without_etcd_no_comparison_with_it_is_measured() -> None:
    results = list(live._throughputs({name: measurements(1) for name in ("strong", "weak")}))

    assert [each.verdict for each in results] == ["not measured"] * 2
    assert all(each.bar is not None for each in results)
