"""`creek pipeline run`: from a grid to a page, in one go, and on from where it was interrupted."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from creek.cli import main

GRID = """
[[block]]
scheme = ["creek", "smr"]
load_tps = [500, 1000]
duration = "60ms"
"""


@pytest.fixture(autouse=True)
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("creek.pipeline.spark.session", lambda *_: nullcontext(spark))


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(GRID)
    return path


def test_a_grid_becomes_a_page(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["pipeline", "run", "--grid", str(grid), "--out", str(out)]
    assert main(command) == 0

    shown = capsys.readouterr().out
    for part in (
        "4 experiments, on Spark at local[*]",
        "4 of 4 cells simulated",
        "4 runs measured",
        "nothing illegal",
        "statements of the paper",
        f"the report is {out / 'report.html'}",
    ):
        assert part in shown
    assert "Figure 1a" in (out / "report.html").read_text()
    assert (out / "statements.md").read_text().startswith("**Section 6.2**")

    made = {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*/config.json")}
    assert main(command) == 0
    assert {path: path.stat().st_mtime_ns for path in made} == made, "nothing is simulated again"


def test_a_grid_that_cannot_be_read_is_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('[[block]]\nscheme = "creek"\nlod_tps = 5\n')
    assert main(["pipeline", "run", "--grid", str(path), "--out", str(tmp_path / "out")]) == 2

    assert "lod_tps" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
