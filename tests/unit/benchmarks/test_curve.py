"""Latency over load: who stops when, what the figures say, and that they become a picture. No
cluster is started."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks import curve
from benchmarks.beside import Turns
from benchmarks.curve_figures import Figures, FloorFigures, Point, climb, loads, point
from benchmarks.curve_picture import FLOOR, spec, spread, svg
from benchmarks.scale import Scale
from creekdb.load.measurement import STRONG_STABLE, CpuClock, LoadMeter

MS = 1_000_000
SECOND = 1_000 * MS


def a_point(system: str, load: float, answered: float = 1.0, p50_ms: float = 1.0) -> Point:
    """`answered` is a share."""
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
            a_point(system, load, answered, medians[system] * (300 if answered < 1 else 1))
            for load, answered in ((100.0, 1.0), (1_000.0, 1.0), (10_000.0, 0.6))
            for system in systems
        ],
    )


# --- when a system stops --------------------------------------------------------------------------


def test_the_load_rises_by_a_factor() -> None:
    assert list(islice(loads(100, 2**0.5), 6)) == [100, 141, 200, 283, 400, 566]


def test_each_system_stops_where_it_does_not_keep_up() -> None:
    most = {"weak": 500.0, "strong": 150.0, "etcd": 300.0}
    asked: list[tuple[float, list[str]]] = []

    def measure(names: list[str], load: float) -> list[Point]:
        asked.append((load, names))
        return [a_point(name, load, min(1.0, most[name] / load)) for name in names]

    points = [each for found in climb(most, loads(100, 2), measure) for each in found]

    assert asked == [
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


def test_95_of_100_are_enough() -> None:
    assert a_point("weak", 100, 0.95).keeps_up
    assert not a_point("weak", 100, 0.949).keeps_up


# --- what the figures say -------------------------------------------------------------------------


def a_turn(took_ms: list[int], late_ms: list[int], offered: int | None = None) -> LoadMeter:
    """Of one second. So many calls are made as `offered` says, or as were answered."""
    meter = LoadMeter(0, SECOND)
    for each in took_ms:
        meter.record_response(STRONG_STABLE, 0, each * MS)
    made = offered or len(took_ms)
    first, last = late_ms
    meter.send_delays_ns.extend([first * MS] * (made - 1) + [last * MS])
    return meter


def figures_of(meters: list[LoadMeter], load: float) -> Point:
    clock = CpuClock({})
    clock.used_s = {"replica 0": 0.003}
    return point("strong", STRONG_STABLE, load, Turns(meters, [clock] * len(meters)))


def test_percentiles_are_of_all_turns_together_and_of_each() -> None:
    found = figures_of([a_turn(list(range(1, 101)), [1, 1]), a_turn([500] * 100, [2, 2])], 100)

    assert found.p50_ms == 100  # of 200, the 100th
    assert found.p99_ms == 500
    assert found.p50_turns_ms == [50, 500]
    assert found.p99_turns_ms == [99, 500]
    assert found.late_p99_ms == 2
    assert (found.offered, found.answered) == (100, 100)
    assert found.cpu_us == pytest.approx(30)


def test_that_fewer_calls_came_by_chance_is_nobodys_fault() -> None:
    found = figures_of([a_turn([1] * 80, [0, 0])], 100)

    assert (found.offered, found.answered) == (80, 80)
    assert found.keeps_up


def test_calls_without_an_answer_were_offered() -> None:
    assert not figures_of([a_turn([1] * 80, [0, 0], offered=100)], 100).keeps_up


def test_calls_that_were_due_and_never_made_were_offered() -> None:
    """The load itself was 200 ms behind at the end, and not at the begin."""
    found = figures_of([a_turn([1] * 80, [0, 200])], 100)

    assert found.offered == pytest.approx(100)
    assert not found.keeps_up


def test_calls_that_were_refused_or_found_no_room_were_offered() -> None:
    meter = a_turn([1] * 80, [0, 0])
    for _ in range(20):
        meter.record_failure("not called: too many under way", 1)
    found = figures_of([meter], 100)

    assert found.offered == 100
    assert found.errors == {"not called: too many under way": 20}


# --- the picture ----------------------------------------------------------------------------------


def texts(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_figures_become_a_picture_with_a_name_at_each_line() -> None:
    said = texts(svg(figures("weak", "strong", "etcd")))

    for name in ("Creek, weak put", "Creek, strong put", "etcd put", FLOOR):
        assert said.count(name) == 4  # in both panels, on a rim each
    assert {"Median, ms", "99th percentile, ms", "puts offered in a second", "10k"} <= set(said)


def test_without_etcd_and_floor_the_picture_has_neither() -> None:
    alone = figures("weak", "strong")
    alone.floor = None
    said = texts(svg(alone))

    assert "Creek, weak put" in said
    assert "etcd put" not in said
    assert FLOOR not in said


def test_the_picture_is_as_high_as_who_keeps_up() -> None:
    (scale, *_) = _scales(spec(figures("weak", "strong", "etcd")), "y")
    low, high = scale["domain"]

    assert scale["type"] == "log"
    assert 0.1 < low < 0.25  # the machine alone
    assert 5.6 < high < 60  # the 99th percentile of strong puts, but not of those too many


def test_one_load_is_enough_for_a_picture() -> None:
    only = figures("weak")
    only.points = only.points[:1]

    assert "Creek, weak put" in texts(svg(only))


def _scales(drawn: dict[str, Any], channel: str) -> Iterator[dict[str, Any]]:
    """Of all layers, the first first."""
    encoded = drawn.get("encoding", {}).get(channel, {})
    if "scale" in encoded:
        yield encoded["scale"]
    for each in drawn.get("vconcat", []) + drawn.get("layer", []):
        yield from _scales(each, channel)


def test_names_that_are_too_close_move_apart_and_keep_their_order() -> None:
    assert spread({"a": 10.0, "b": 100.0}, 15) == {"a": 10.0, "b": 100.0}
    assert spread({"b": 52.0, "a": 50.0}, 15) == {"a": 43.5, "b": 58.5}
    # The two that are close push the third.
    assert spread({"a": 50.0, "b": 52.0, "c": 60.0}, 15) == {"a": 39.0, "b": 54.0, "c": 69.0}


# --- the command ----------------------------------------------------------------------------------


def test_the_command_measures_writes_and_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = figures("weak", "strong", "etcd")

    def measured(found: Figures, _scale: Scale, _step: float) -> Iterator[None]:
        found.floor = whole.floor
        for each in whole.points:
            found.points.append(each)
            yield

    monkeypatch.setattr(curve, "measured", measured)
    done = CliRunner().invoke(curve.main, ["--quick", "--out", str(tmp_path / "out")])

    assert done.exit_code == 0, done.output
    assert "only 6,000/s" in done.output
    assert "There is no line of etcd" not in done.output
    assert curve.read(tmp_path / "out" / curve.FIGURES).points == whole.points
    assert "etcd put" in texts((tmp_path / "out" / curve.PICTURE).read_text())


def test_figures_of_an_earlier_run_are_drawn_again(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_bytes(msgspec.json.encode(figures("weak", "strong")))
    done = CliRunner().invoke(curve.main, ["--from", str(earlier), "--out", str(tmp_path)])

    assert done.exit_code == 0, done.output
    assert "There is no line of etcd" in done.output
    assert "Creek, strong put" in texts((tmp_path / curve.PICTURE).read_text())


@pytest.mark.parametrize("content", [b"", b"[]", b'{"cores": 2}', None])
def test_a_file_without_figures_is_the_callers_mistake(
    content: bytes | None, tmp_path: Path
) -> None:
    empty = figures()
    earlier = tmp_path / "earlier.json"
    earlier.write_bytes(msgspec.json.encode(empty) if content is None else content)
    done = CliRunner().invoke(curve.main, ["--from", str(earlier), "--out", str(tmp_path / "out")])

    assert done.exit_code == 1
    assert "earlier.json holds no figures" in done.output
    assert not (tmp_path / "out").exists()


def test_nothing_is_measured_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curve, "measured", lambda *_: pytest.fail("it was measured"))
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(curve.main, ["--out", str(tmp_path / "file" / "out")])

    assert done.exit_code == 1
    assert "cannot write to" in done.output
    assert "--out" in done.output
