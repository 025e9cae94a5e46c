"""`creek pipeline simulate`: what people see of it."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from creekdb.cli import main
from creekdb.cli.commands.pipeline.group import simulation_progress
from creekdb.pipeline.spark.session import spark_session
from creekdb.pipeline.stages.simulate import GridProgress

GRID = """
[[block]]
scheme = ["creek", "smr"]
warehouses = 1
load_tps = 500
duration = "40ms"
"""
SLOW_GRID = """
[[block]]
warehouses = 1
load_tps = 1000
duration = "200ms"
seed = [0, 1, 2, 3, 4, 5, 6, 7]
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(GRID)
    return file


def simulate(grid: Path | str, out: Path, *others: str) -> int:
    return main(["pipeline", "simulate", "--grid", str(grid), "--out", str(out), *others])


@pytest.mark.usefixtures("spark")
def test_a_grid_is_simulated_and_said_to_be(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(grid, tmp_path / "out") == 0
    assert capsys.readouterr().out == f"2 of 2 experiments simulated, in {tmp_path / 'out'}\n"
    runs = sorted(each.name for each in (tmp_path / "out" / "runs").iterdir())
    assert runs == ["creek-w1-500tps-40ms-s0", "smr-w1-500tps-40ms-s0"]


@pytest.mark.usefixtures("spark")
def test_a_cell_that_fails_is_shown_with_its_command(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert simulate(grid, out) == 0
    capsys.readouterr()
    for cell in (out / "runs").iterdir():
        if cell.name.startswith("smr"):
            os.rename(cell, tmp_path / "aside")
            cell.touch()
    assert simulate(grid, out) == 1
    told = capsys.readouterr().out
    assert "1 of 2 experiments simulated" in told
    assert "smr-w1-500tps-40ms-s0 failed: NotADirectoryError" in told
    assert "replay it with: creek simulate --workload tpcc --scheme smr --warehouses 1" in told


def test_a_mistake_in_a_grid_is_told_before_spark_starts(
    grid: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def started(*arguments: object) -> None:
        raise AssertionError("Spark starts")

    monkeypatch.setattr("creekdb.pipeline.spark.session.session", started)
    grid.write_text(GRID.replace("load_tps", "load"))
    assert simulate(grid, tmp_path / "out") == 2
    told = capsys.readouterr().err
    assert told.startswith(f"creek: {grid}, block 1, key 'load': unknown key 'load'")
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_refused(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(grid, tmp_path) == 2
    assert "files that are not of a pipeline: name another folder" in capsys.readouterr().err


def test_without_its_packages_it_says_what_to_install(
    grid: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("creekdb.pipeline.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert simulate(grid, tmp_path / "out") == 2
    told = capsys.readouterr().err
    assert told == (
        "creek: the pipeline needs pyarrow, which is not installed: "
        "pip install 'creekdb[pipeline]'\n"
    )


def test_every_command_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ((), ("generate",), ("simulate",)):
        assert main(["pipeline", *command, "--help"]) == 0
        assert "Example" in capsys.readouterr().out


def test_where_nobody_watches_a_line_tells_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("creekdb.cli.commands.pipeline.group.TELL_EVERY_S", 0.0)
    with simulation_progress() as watch:
        watch(GridProgress(done=0, total=8, running=("a", "b"), remaining_s=None))
        watch(GridProgress(done=2, total=8, running=("c", "d"), remaining_s=75.0))
        watch(GridProgress(done=8, total=8, running=(), remaining_s=0.0))
    assert capsys.readouterr().err.splitlines() == [
        "0 of 8 experiments simulated",
        "2 of 8 experiments simulated, about 1:15 left",
    ]


def test_a_bar_shows_how_far_it_is_however_long_the_names_of_cells_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = io.StringIO()
    terminal = Console(file=seen, force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr("creekdb.cli.commands.pipeline.group.complaints", lambda: terminal)
    running = ("archie-w20-44000tps-100ms-s0", "creek-w20-44000tps-100ms-recorded-s0")
    with simulation_progress() as watch:
        watch(GridProgress(done=12, total=36, running=running, remaining_s=935.0))
    shown = seen.getvalue()
    assert "12/36 0:00:00 about 15:35 left" in shown
    assert "━" * 24 in shown
    assert f"{running[0]}, {running[1][:20]}" in shown


@pytest.mark.xdist_group("spark")
def test_an_interrupted_command_says_how_to_go_on(tmp_path: Path) -> None:
    """In a process group of its own, as a terminal would have it: all of it is interrupted."""
    (tmp_path / "slow.toml").write_text(SLOW_GRID)
    out = tmp_path / "out"
    arguments = ["--grid", tmp_path / "slow.toml", "--out", out, "--master", "local[1]"]
    command = subprocess.Popen(
        [sys.executable, "-m", "creekdb", "pipeline", "simulate", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while command.poll() is None and not any((out / "runs").glob("*")):
        time.sleep(0.05)
    os.killpg(command.pid, signal.SIGINT)
    _, told = command.communicate()
    assert command.returncode == 130
    assert [line for line in told.splitlines() if line][-2:] == [
        f"what is done stays in {out}: the same command goes on from there",
        "creek: interrupted",
    ]
    assert 0 < len(list((out / "runs").iterdir())) < 8


def test_a_session_that_is_there_is_used(spark: SparkSession) -> None:
    with spark_session("local[1]") as found:
        assert found is spark
    assert spark.range(2).count() == 2
