"""`creek pipeline run`: from a grid to a page, in one go; and on from there, with a live run beside
what is simulated already, and its own twin."""

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


class Grid(NamedTuple):
    """One that became a page."""

    out: Path
    command: list[str]
    told: str
    page: str
    statements: str

    def simulated(self) -> dict[Path, int]:
        """What is simulated, and when it was."""
        return {path: path.stat().st_mtime_ns for path in (self.out / "runs").glob("*/config.json")}


class Made(NamedTuple):
    """The same folder, with a live run."""

    live: Path
    out: Path
    shown: str


@pytest.fixture(scope="module", autouse=True)
def shared(spark: SparkSession) -> Iterator[None]:
    """Commands start a session and stop it; here they get the one that all tests share."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("creekdb.pipeline.spark.session.session", lambda *_: nullcontext(spark))
        yield


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    folder = tmp_path_factory.mktemp("made")
    (folder / "mine.toml").write_text(GRID)
    out = folder / "out"
    command = ["pipeline", "run", "--grid", str(folder / "mine.toml"), "--out", str(out)]
    told = io.StringIO()
    with redirect_stdout(told):
        assert main(command) == 0
    page, statements = (out / "report.html").read_text(), (out / "statements.md").read_text()
    return Grid(out, command, told.getvalue(), page, statements)


@pytest.fixture(scope="module")
def made(grid: Grid) -> Made:
    folder = grid.out.parent
    live = folder / "live"
    asked = ["--duration", "2500ms", "--load", "40", "--warehouses", "1", "--faults", FAULTS]
    assert main(["live-run", "--out", str(live), *asked]) == 0
    before = grid.simulated()
    assert main([*grid.command, "--live", str(live)]) == 0
    after = grid.simulated()
    assert len(before) == CELLS
    assert before.items() <= after.items(), "nothing is simulated again"
    assert sorted(each.name for each in folder.iterdir()) == ["live", "mine.toml", "out"]
    return Made(live, grid.out, (grid.out / "report.html").read_text())


def test_a_grid_becomes_a_page(grid: Grid) -> None:
    for part in (
        "4 experiments, on Spark at local[*]",
        "4 of 4 experiments simulated",
        "4 runs measured",
        "nothing illegal",
        "statements of the paper",
        f"the report is {grid.out / 'report.html'}",
    ):
        assert part in grid.told
    assert "Figure 1a" in grid.page
    assert grid.statements.startswith("**Section 6.2**")


def test_a_grid_that_cannot_be_read_is_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('[[block]]\nscheme = "creek"\nlod_tps = 5\n')
    assert main(["pipeline", "run", "--grid", str(path), "--out", str(tmp_path / "out")]) == 2

    assert "lod_tps" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_every_checker_finds_a_live_run_fine(made: Made) -> None:
    rows = pq.read_table(made.out / "verdicts").to_pylist()
    live = {row["checker"]: row["verdict"] for row in rows if row["run"] == "live"}

    assert live == dict.fromkeys(live, "ok")
    assert len(live) == CHECKERS
    assert f"all {CHECKERS} checkers say ok" in made.shown
    assert '<th scope="col">Creek, live</th>' in made.shown


def test_a_live_run_is_measured_like_the_others_and_beside_its_twin(made: Made) -> None:
    rows = pq.read_table(made.out / "measures").to_pylist()
    (live,) = (row for row in rows if row["source"] == "live")
    (twin,) = (row for row in rows if row["source"] == "simulated" and row["faults"])

    assert len(rows) == CELLS + 2
    assert live["throughput_tps"] > 0
    for name in ("scheme", "warehouses", "load_tps", "replicas", "seed", "layout"):
        assert live[name] == twin[name]
    happened, planned = parse_faults(live["faults"]), parse_faults(twin["faults"])
    assert list(map(type, happened)) == list(map(type, planned))
    at_us = [each.at_us - COUNTERPART_WARM_UP_US for each in planned]
    assert at_us == [300_000, 700_000, 1_200_000, 1_700_000]


def test_what_was_done_over_time_is_what_was_done(made: Made) -> None:
    history = load_run(made.live)
    begin_us, end_us = history.config["begin_us"], history.config["end_us"]
    answers = [each.stable if each.strong else each.tentative for each in history.operations]
    done = [each for each in answers if each is not None and begin_us <= each.at_us < end_us]
    rows = pq.read_table(made.out / "over_time").to_pylist()

    assert sum(row["done"] for row in rows if row["run"] == "live") == len(done) > 0


def test_the_page_draws_it_with_its_faults_in_light_and_dark_and_on_a_phone(made: Made) -> None:
    with browsing() as browser:
        for width, colours in ((1280, "light"), (1280, "dark"), (390, "light")):
            page = browser.new_page(
                viewport={"width": width, "height": 844},
                color_scheme="dark" if colours == "dark" else "light",
            )
            page.goto((made.out / "report.html").as_uri())
            page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=60_000)
            charts = page.locator("#live .chart")
            assert charts.count() == 6, "three of the live run, and three of its twin"
            for each in charts.all():
                lines = each.locator(".mark-line.role-mark path")
                assert lines.count() > 0
                widths = [line.bounding_box() for line in lines.all()]
                assert any(box is not None and box["width"] > 40 for box in widths)
                told = each.locator("svg text").all_text_contents()
                assert {"kill 2", "restart 2", "cut 0|1,2", "heal"} <= set(told)
            beside = page.locator("#live .beside")
            assert beside.locator("thead th").all_text_contents() == [
                *("measured", "live", "simulated"),
            ]
            assert "–" not in beside.locator("tbody tr").first.inner_text()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            page.close()


def test_the_statements_of_the_paper_are_not_told_from_it(made: Made) -> None:
    stated = (made.out / "statements.md").read_text()
    partition = stated[stated.index("**Section 6.4**") :]
    assert "holds" not in partition.splitlines()[4]


def test_a_run_without_a_steady_load_or_of_something_else_has_no_twin(made: Made) -> None:
    config = msgspec.json.decode((made.live / "config.json").read_bytes())["config"]

    assert len(simulated_counterparts([config])) == 1
    assert len(simulated_counterparts([config, config])) == 1, "equal ones are simulated once"
    for other in ({"load_tps": None}, {"imported": "kv"}, {"scheme": "mine"}):
        assert simulated_counterparts([config | other]) == ()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("nowhere", "does not exist"), ("twin", "it was simulated"), ("out", "is not a run folder")],
)
def test_what_is_no_live_run_is_refused_before_anything_starts(
    made: Made, name: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twin = next((made.out / "runs").glob("*-n3-*"))
    given = twin if name == "twin" else made.live.parent / name
    out = tmp_path / "out"
    assert main(["pipeline", "run", "--out", str(out), "--live", str(given)]) == 2

    assert complaint in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "replace it with --force"),
        (["--faults", "loss 10% at 1s"], "crash, restart, partition and heal"),
        (["--faults", "crash 7 at 1s"], "does not exist"),
    ],
)
def test_what_cannot_be_run_live_is_refused(
    made: Made, options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (made.live / "config.json").read_bytes()
    assert main(["live-run", "--out", str(made.live), *options]) == 2

    assert complaint in capsys.readouterr().err
    assert (made.live / "config.json").read_bytes() == before


def test_a_folder_that_is_no_live_run_is_never_replaced(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["live-run", "--out", str(made.out), "--force"]) == 2
    assert "is no live run" in capsys.readouterr().err
    assert (made.out / "report.html").is_file()
