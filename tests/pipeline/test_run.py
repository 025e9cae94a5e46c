"""`creek pipeline run`: from a grid to a report, and resumed with a live run and its simulated
counterpart."""

import io
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from creekdb.cli import main
from creekdb.history import load_run
from creekdb.pipeline.stages.live_import import COUNTERPART_WARM_UP_US, simulated_counterparts
from creekdb.simulation.faults.language import parse_faults
from tests.pipeline.browser import browsing

GRID = """
[[block]]
scheme = ["creek", "smr"]
load_tps = [500, 1000]
duration = "60ms"
"""
CELLS = 4
FAULTS = "crash 2 at 300ms; restart 2 at 700ms; partition 0|1,2 at 1200ms; heal at 1700ms"
CHECKERS = 14


class GridRun(NamedTuple):
    """Completed run of a grid."""

    out: Path
    command: list[str]
    output: str
    page: str
    statements: str

    def modification_times(self) -> dict[Path, int]:
        """Return the modification time of each file of the table of runs."""
        return {path: path.stat().st_mtime_ns for path in (self.out / "runs").iterdir()}


class LiveReport(NamedTuple):
    """Output directory of the grid, extended by a live run."""

    live: Path
    out: Path
    page: str


@pytest.fixture(scope="module", autouse=True)
def shared_session(spark: SparkSession) -> Iterator[None]:
    """Replace the sessions of commands by the shared one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "creekdb.pipeline.spark.session.starting_session", lambda *_: nullcontext(lambda: spark)
        )
        yield


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> GridRun:
    directory = tmp_path_factory.mktemp("grid")
    (directory / "mine.toml").write_text(GRID)
    out = directory / "out"
    command = ["pipeline", "run", "--grid", str(directory / "mine.toml"), "--out", str(out)]
    output = io.StringIO()
    with redirect_stdout(output):
        assert main(command) == 0
    page, statements = (out / "report.html").read_text(), (out / "statements.md").read_text()
    return GridRun(out, command, output.getvalue(), page, statements)


@pytest.fixture(scope="module")
def live_report(grid: GridRun) -> LiveReport:
    directory = grid.out.parent
    live = directory / "live"
    options = ["--duration", "2500ms", "--load", "40", "--warehouses", "1", "--fault", FAULTS]
    assert main(["live-run", "--out", str(live), *options]) == 0
    before = grid.modification_times()
    assert main([*grid.command, "--live", str(live)]) == 0
    after = grid.modification_times()
    assert before
    assert before.items() <= after.items(), "completed cells are not simulated again"
    assert sorted(each.name for each in directory.iterdir()) == ["live", "mine.toml", "out"]
    return LiveReport(live, grid.out, (grid.out / "report.html").read_text())


def test_a_grid_becomes_a_report(grid: GridRun) -> None:
    for part in (
        "4 experiments, to ",
        "4 of 4 experiments simulated",
        "4 runs measured",
        "no violation",
        "statements of the paper",
        f"the report is {grid.out / 'report.html'}",
    ):
        assert part in grid.output
    assert "Figure 1a, simulated" in grid.page
    assert grid.statements.startswith("**Section 6.2**")
    assert "In simulation, a weak transaction gets its first response after" in grid.page
    assert "live cluster" not in grid.page


def test_a_grid_error_is_reported_before_the_run_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('[[block]]\nscheme = "creek"\nlod_tps = 5\n')
    assert main(["pipeline", "run", "--grid", str(path), "--out", str(tmp_path / "out")]) == 2

    assert "lod_tps" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_all_checkers_accept_the_live_run(live_report: LiveReport) -> None:
    rows = pq.read_table(live_report.out / "verdicts").to_pylist()
    live = {row["checker"]: row["verdict"] for row in rows if row["run"] == "live"}

    assert live == dict.fromkeys(live, "ok")
    assert len(live) == CHECKERS
    assert f"all {CHECKERS} checkers report ok" in live_report.page
    assert '<th scope="col">Creek, live</th>' in live_report.page


def test_the_headline_states_live_figures_beside_simulated_ones(live_report: LiveReport) -> None:
    assert "In simulation, a weak transaction gets its first response after" in live_report.page
    assert "; on the live cluster of this machine it took " in live_report.page
    assert "The live cluster ran 3 replicas as processes on one machine, through a crash, " in (
        live_report.page
    )


def test_a_live_run_is_measured_beside_its_counterpart(live_report: LiveReport) -> None:
    rows = pq.read_table(live_report.out / "measures").to_pylist()
    (live,) = (row for row in rows if row["source"] == "live")
    (counterpart,) = (row for row in rows if row["source"] == "simulated" and row["faults"])

    assert len(rows) == CELLS + 2
    assert live["throughput_tps"] > 0
    for name in ("scheme", "warehouses", "load_tps", "replicas", "seed", "layout"):
        assert live[name] == counterpart[name]
    injected, planned = parse_faults(live["faults"]), parse_faults(counterpart["faults"])
    assert list(map(type, injected)) == list(map(type, planned))
    at_us = [each.at_us - COUNTERPART_WARM_UP_US for each in planned]
    assert at_us == [300_000, 700_000, 1_200_000, 1_700_000]


def test_responses_over_time_add_up(live_report: LiveReport) -> None:
    history = load_run(live_report.live)
    begin_us, end_us = history.config["begin_us"], history.config["end_us"]
    responses = [each.stable if each.strong else each.tentative for each in history.operations]
    done = [each for each in responses if each is not None and begin_us <= each.at_us < end_us]
    rows = pq.read_table(live_report.out / "over_time").to_pylist()

    assert sum(row["done"] for row in rows if row["run"] == "live") == len(done) > 0


def test_the_page_draws_a_live_run_with_its_faults(live_report: LiveReport) -> None:
    """In light and dark colours, and on a phone."""
    with browsing() as browser:
        for width, colours in ((1280, "light"), (1280, "dark"), (390, "light")):
            page = browser.new_page(
                viewport={"width": width, "height": 844},
                color_scheme="dark" if colours == "dark" else "light",
            )
            page.goto((live_report.out / "report.html").as_uri())
            page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=60_000)
            charts = page.locator("#live .chart")
            assert charts.count() == 6, "three of the live run, and three of its counterpart"
            for each in charts.all():
                lines = each.locator(".mark-line.role-mark path")
                assert lines.count() > 0
                widths = [line.bounding_box() for line in lines.all()]
                assert any(box is not None and box["width"] > 40 for box in widths)
                texts = each.locator("svg text").all_text_contents()
                assert {"kill 2", "restart 2", "cut 0|1,2", "heal"} <= set(texts)
            beside = page.locator("#live .beside")
            assert beside.locator("thead th").all_text_contents() == [
                *("measure", "live", "simulated"),
            ]
            assert "–" not in beside.locator("tbody tr").first.inner_text()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            page.close()


def test_live_runs_do_not_affect_the_statements(live_report: LiveReport) -> None:
    statements = (live_report.out / "statements.md").read_text()
    partition = statements[statements.index("**Section 6.4**") :]
    assert "holds" not in partition.splitlines()[4]


def test_only_runs_of_tpcc_with_a_constant_load_have_a_counterpart(
    live_report: LiveReport,
) -> None:
    config = msgspec.json.decode((live_report.live / "config.json").read_bytes())["config"]

    assert len(simulated_counterparts([config])) == 1
    assert len(simulated_counterparts([config, config])) == 1, "equal cells are simulated once"
    for other in ({"load_tps": None}, {"imported": "kv"}, {"scheme": "mine"}):
        assert simulated_counterparts([config | other]) == ()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "does not exist"),
        ("counterpart", "it was simulated"),
        ("out", "is not a run directory"),
    ],
)
def test_a_directory_without_a_live_run_is_rejected_before_the_run_starts(
    live_report: LiveReport,
    name: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counterpart = next((live_report.out / "histories").glob("*-n3-*"))
    live = counterpart if name == "counterpart" else live_report.live.parent / name
    out = tmp_path / "out"
    assert main(["pipeline", "run", "--out", str(out), "--live", str(live)]) == 2

    assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "name another directory, or add --force"),
        (["--fault", "loss 10% at 1s"], "crash, restart, partition and heal"),
        (["--fault", "crash 7 at 1s"], "does not exist"),
    ],
)
def test_an_impossible_live_run_is_rejected(
    live_report: LiveReport, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (live_report.live / "config.json").read_bytes()
    assert main(["live-run", "--out", str(live_report.live), *options]) == 2

    assert message in capsys.readouterr().err
    assert (live_report.live / "config.json").read_bytes() == before


def test_a_directory_without_a_live_run_is_never_replaced(
    live_report: LiveReport, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["live-run", "--out", str(live_report.out), "--force"]) == 2
    assert "is not a live run" in capsys.readouterr().err
    assert (live_report.out / "report.html").is_file()
