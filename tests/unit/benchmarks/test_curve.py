"""Latency over load: the end of each curve, its figures and its picture, without a cluster."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks import curve
from benchmarks.comparison import Measurements
from benchmarks.curve_figures import (
    Figures,
    FloorFigures,
    Point,
    loads,
    raise_load,
    summarise_point,
)
from benchmarks.curve_picture import FLOOR, spec, spread_rows, svg
from benchmarks.scale import Scale
from creekdb.load.measurement import STRONG_STABLE, CpuClock, LoadMeter

MS = 1_000_000
SECOND = 1_000 * MS


def make_point(system: str, load: float, answered: float = 1.0, p50_ms: float = 1.0) -> Point:
    """Return a point; `answered` is a share of the load."""
    return Point(
        system=system,
        load=load,
        offered=load,
        answered=load * answered,
        p50_ms=p50_ms,
        p99_ms=4 * p50_ms,
        p50_turns_ms=[p50_ms, 1.1 * p50_ms],
        p99_turns_ms=[3 * p50_ms, 5 * p50_ms],
        late_p99_ms=1.2,
        cpu_us=150.0,
        errors={},
    )


def figures(*systems: str) -> Figures:
    medians = {"weak": 0.5, "strong": 1.4, "etcd": 1.2}
    return Figures(
        how_it_ran="compiled",
        cores=2,
        turns=2,
        turn_s=5.0,
        value_bytes=256,
        floor=FloorFigures(write_ms=0.2, echo_ms=0.05, p50_ms=0.25, p99_ms=0.6),
        points=[
            make_point(system, load, answered, medians[system] * (300 if answered < 1 else 1))
            for load, answered in ((100.0, 1.0), (1_000.0, 1.0), (10_000.0, 0.6))
            for system in systems
        ],
    )


# --- end of a curve -------------------------------------------------------------------------------


def test_the_load_rises_by_a_factor() -> None:
    assert list(islice(loads(100, 2**0.5), 6)) == [100, 141, 200, 283, 400, 566]


def test_a_system_stops_at_the_load_that_it_cannot_keep_up_with() -> None:
    maximum = {"weak": 500.0, "strong": 150.0, "etcd": 300.0}
    measured_loads: list[tuple[float, list[str]]] = []

    def measure(names: list[str], load: float) -> list[Point]:
        measured_loads.append((load, names))
        return [make_point(name, load, min(1.0, maximum[name] / load)) for name in names]

    points = [each for at_load in raise_load(maximum, loads(100, 2), measure) for each in at_load]

    assert measured_loads == [
        (100, ["weak", "strong", "etcd"]),
        (200, ["weak", "strong", "etcd"]),
        (400, ["weak", "etcd"]),
        (800, ["weak"]),
    ]
    assert {each.system: each.load for each in points if not each.keeps_up} == {
        "strong": 200,
        "etcd": 400,
        "weak": 800,
    }


def test_a_system_keeps_up_if_it_answers_95_percent() -> None:
    assert make_point("weak", 100, 0.95).keeps_up
    assert not make_point("weak", 100, 0.949).keeps_up


# --- figures --------------------------------------------------------------------------------------


def make_round(
    latencies_ms: list[int], send_delays_ms: list[int], offered: int | None = None
) -> LoadMeter:
    """Return a round of one second with `offered` calls, by default all answered."""
    meter = LoadMeter(0, SECOND)
    for each in latencies_ms:
        meter.record_response(STRONG_STABLE, 0, each * MS)
    sent = offered or len(latencies_ms)
    first, last = send_delays_ms
    meter.send_delays_ns.extend([first * MS] * (sent - 1) + [last * MS])
    return meter


def summarise(meters: list[LoadMeter], load: float) -> Point:
    clock = CpuClock({})
    clock.used_s = {"replica 0": 0.003}
    return summarise_point(
        "strong", STRONG_STABLE, load, Measurements(meters, [clock] * len(meters))
    )


def test_percentiles_cover_all_rounds_and_each_round() -> None:
    point = summarise(
        [make_round(list(range(1, 101)), [1, 1]), make_round([500] * 100, [2, 2])], 100
    )

    assert point.p50_ms == 100  # the 100th of 200
    assert point.p99_ms == 500
    assert point.p50_turns_ms == [50, 500]
    assert point.p99_turns_ms == [99, 500]
    assert point.late_p99_ms == 2
    assert (point.offered, point.answered) == (100, 100)
    assert point.cpu_us == pytest.approx(30)


def test_a_random_shortfall_of_calls_reduces_the_offered_load() -> None:
    point = summarise([make_round([1] * 80, [0, 0])], 100)

    assert (point.offered, point.answered) == (80, 80)
    assert point.keeps_up


def test_unanswered_calls_count_as_offered() -> None:
    assert not summarise([make_round([1] * 80, [0, 0], offered=100)], 100).keeps_up


def test_due_but_unsent_calls_count_as_offered() -> None:
    """At its end, but not at its start, the load generator is 200 ms behind."""
    point = summarise([make_round([1] * 80, [0, 200])], 100)

    assert point.offered == pytest.approx(100)
    assert not point.keeps_up


def test_rejected_calls_count_as_offered() -> None:
    meter = make_round([1] * 80, [0, 0])
    for _ in range(20):
        meter.record_failure("not called: too many under way", 1)
    point = summarise([meter], 100)

    assert point.offered == 100
    assert point.errors == {"not called: too many under way": 20}


# --- picture --------------------------------------------------------------------------------------


def texts(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_names_each_line() -> None:
    labels = texts(svg(figures("weak", "strong", "etcd")))

    for name in ("Creek, weak put", "Creek, strong put", "etcd put", FLOOR):
        assert labels.count(name) == 4  # in both panels, with an outline each
    assert {"Median, ms", "99th percentile, ms", "offered puts per second", "10k"} <= set(labels)


def test_a_picture_without_etcd_and_floor_omits_both() -> None:
    creek_only = figures("weak", "strong")
    creek_only.floor = None
    labels = texts(svg(creek_only))

    assert "Creek, weak put" in labels
    assert "etcd put" not in labels
    assert FLOOR not in labels


def test_the_y_range_covers_the_systems_that_keep_up() -> None:
    (scale, *_) = _scales(spec(figures("weak", "strong", "etcd")), "y")
    low, high = scale["domain"]

    assert scale["type"] == "log"
    assert 0.1 < low < 0.25  # the machine alone
    assert 5.6 < high < 60  # the 99th percentile of strong puts, without the overloaded point


def test_one_load_suffices_for_a_picture() -> None:
    only = figures("weak")
    only.points = only.points[:1]

    assert "Creek, weak put" in texts(svg(only))


def _scales(chart_spec: dict[str, Any], channel: str) -> Iterator[dict[str, Any]]:
    """Yield the scales of all layers, in order."""
    encoded = chart_spec.get("encoding", {}).get(channel, {})
    if "scale" in encoded:
        yield encoded["scale"]
    for each in chart_spec.get("vconcat", []) + chart_spec.get("layer", []):
        yield from _scales(each, channel)


def test_close_names_are_spread_in_order() -> None:
    assert spread_rows({"a": 10.0, "b": 100.0}, 15) == {"a": 10.0, "b": 100.0}
    assert spread_rows({"b": 52.0, "a": 50.0}, 15) == {"a": 43.5, "b": 58.5}
    # The two close names push the third.
    assert spread_rows({"a": 50.0, "b": 52.0, "c": 60.0}, 15) == {"a": 39.0, "b": 54.0, "c": 69.0}


# --- command --------------------------------------------------------------------------------------


def test_the_command_measures_writes_and_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = figures("weak", "strong", "etcd")

    def measure_curve(figures_: Figures, _scale: Scale, _step: float) -> Iterator[None]:
        figures_.floor = full.floor
        for each in full.points:
            figures_.points.append(each)
            yield

    monkeypatch.setattr(curve, "measure_curve", measure_curve)
    result = CliRunner().invoke(curve.main, ["--quick", "--out", str(tmp_path / "out")])

    assert result.exit_code == 0, result.output
    assert "only 6,000/s" in result.output
    assert "etcd was not measured" not in result.output
    assert curve.read(tmp_path / "out" / curve.FIGURES).points == full.points
    assert "etcd put" in texts((tmp_path / "out" / curve.PICTURE).read_text())


def test_figures_of_an_earlier_run_can_be_drawn(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_bytes(msgspec.json.encode(figures("weak", "strong")))
    result = CliRunner().invoke(curve.main, ["--from", str(earlier), "--out", str(tmp_path)])

    assert result.exit_code == 0, result.output
    assert "etcd was not measured" in result.output
    assert "Creek, strong put" in texts((tmp_path / curve.PICTURE).read_text())


@pytest.mark.parametrize("content", [b"", b"[]", b'{"cores": 2}', None])
def test_a_file_without_figures_is_a_usage_error(content: bytes | None, tmp_path: Path) -> None:
    empty = figures()
    earlier = tmp_path / "earlier.json"
    earlier.write_bytes(msgspec.json.encode(empty) if content is None else content)
    result = CliRunner().invoke(
        curve.main, ["--from", str(earlier), "--out", str(tmp_path / "out")]
    )

    assert result.exit_code == 1
    assert f"cannot read figures from {earlier}: " in result.output
    assert not (tmp_path / "out").exists()


def test_an_unwritable_directory_prevents_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curve, "measure_curve", lambda *_: pytest.fail("the curve was measured"))
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(curve.main, ["--out", str(tmp_path / "file" / "out")])

    assert result.exit_code == 1
    assert "cannot write to" in result.output
    assert "--out" in result.output
