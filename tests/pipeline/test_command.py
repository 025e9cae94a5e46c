"""Output and exit codes of `creek pipeline simulate`."""

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from creekdb.cli import main
from creekdb.cli.commands.pipeline.group import simulation_progress
from creekdb.pipeline.schemas import RUN_SCHEMAS
from creekdb.pipeline.spark.session import spark_session
from creekdb.pipeline.stages.grid import load_grid
from creekdb.pipeline.stages.simulate import GridProgress, batch, group_by_cost, run_batch
from creekdb.pipeline.storage import Location

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
load_tps = 10000
duration = "45ms"
seed = [0, 1, 2, 3]
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(GRID)
    return file


def simulate(grid: Path | str, out: Path, *options: str) -> int:
    return main(["pipeline", "simulate", "--grid", str(grid), "--out", str(out), *options])


@pytest.mark.usefixtures("spark")
def test_a_simulated_grid_is_reported(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(grid, tmp_path / "out") == 0
    assert capsys.readouterr().out == f"2 of 2 experiments simulated, in {tmp_path / 'out'}\n"
    runs = pq.read_table(tmp_path / "out" / "runs")["run"].to_pylist()
    assert sorted(runs) == ["creek-w1-500tps-40ms-s0", "smr-w1-500tps-40ms-s0"]


@pytest.mark.usefixtures("spark")
def test_a_failed_cell_is_reported_with_its_command(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    grid.write_text(f"{GRID}recorded = true\n")
    assert simulate(grid, out) == 0
    capsys.readouterr()
    for file in (out / "runs").iterdir():
        file.unlink()
    history = next((out / "histories").glob("smr*"))
    shutil.rmtree(history)
    history.touch()  # A file in place of the directory.
    assert simulate(grid, out) == 1
    output = capsys.readouterr().out
    assert "1 of 2 experiments simulated" in output
    assert "smr-w1-500tps-recorded-40ms-s0 failed: " in output
    assert "replay it with: creek simulate --workload tpcc --scheme smr --warehouses 1" in output


def test_a_grid_error_is_reported_before_spark_starts(
    grid: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(*arguments: object) -> None:
        raise AssertionError("Spark starts")

    monkeypatch.setattr("creekdb.pipeline.spark.session.starting_session", start)
    grid.write_text(GRID.replace("load_tps", "load"))
    assert simulate(grid, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"creek: {grid}, block 1, key 'load': unknown key 'load'")
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_foreign_directory_is_rejected(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(grid, tmp_path) == 2
    assert "files that are not of a pipeline; name another directory" in capsys.readouterr().err


def test_missing_packages_are_reported_with_the_install_command(
    grid: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("creekdb.pipeline.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert simulate(grid, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error == ("creek: the pipeline requires pyarrow: pip install 'creekdb[spark]'\n")


def test_every_command_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ((), ("generate",), ("simulate",)):
        assert main(["pipeline", *command, "--help"]) == 0
        assert "Example" in capsys.readouterr().out


def test_progress_is_reported_in_lines_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report_progress()
    assert capsys.readouterr().err.splitlines() == [
        "0 of 8 experiments simulated",
        "2 of 8 experiments simulated, about 1:15 remaining",
    ]


def report_progress(console: Console | None = None) -> None:
    with simulation_progress(console, report_interval_s=0.0) as report:
        report(GridProgress(done=0, total=8, running=("a", "b"), remaining_s=None))
        report(GridProgress(done=2, total=8, running=("c", "d"), remaining_s=75.0))
        report(GridProgress(done=8, total=8, running=(), remaining_s=0.0))


def terminal(output: io.StringIO, term: str) -> Console:
    """Return a terminal of that type, independent of the environment of the test."""
    return Console(
        file=output, force_terminal=True, width=80, color_system=None, _environ={"TERM": term}
    )


def test_progress_is_reported_in_lines_on_a_dumb_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = io.StringIO()
    report_progress(terminal(output, "dumb"))
    assert output.getvalue() == ""
    assert capsys.readouterr().err.splitlines() == [
        "0 of 8 experiments simulated",
        "2 of 8 experiments simulated, about 1:15 remaining",
    ]


def test_a_progress_bar_fits_the_terminal_with_long_cell_names() -> None:
    output = io.StringIO()
    running = ("archie-w20-44000tps-100ms-s0", "creek-w20-44000tps-100ms-recorded-s0")
    with simulation_progress(terminal(output, "xterm")) as report:
        report(GridProgress(done=12, total=36, running=running, remaining_s=935.0))
    shown = output.getvalue()
    assert "12/36 0:00:00 about 15:35 remaining" in shown
    assert "━" * 24 in shown
    assert f"{running[0]}, {running[1][:20]}" in shown


@pytest.mark.xdist_group("spark processes")
def test_an_interrupted_command_resumes_with_equal_tables(tmp_path: Path) -> None:
    """The command has its own process group, as in a terminal, and the whole group is signalled."""
    (tmp_path / "slow.toml").write_text(SLOW_GRID)
    out, expected = tmp_path / "out", Location.parse(tmp_path / "expected")
    arguments = ["--grid", tmp_path / "slow.toml", "--out", out, "--master", "local[1]"]
    line = [sys.executable, "-m", "creekdb", "pipeline", "simulate", *map(str, arguments)]
    command = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while command.poll() is None and not any((out / "runs").glob("*")):
        time.sleep(0.05)
    os.killpg(command.pid, signal.SIGINT)
    _, errors = command.communicate()
    assert command.returncode == 130
    assert [line for line in errors.splitlines() if line][-2:] == [
        f"completed runs are in {out}: run the same command to continue",
        "creek: interrupted",
    ]
    cells = load_grid(str(tmp_path / "slow.toml")).cells
    assert 0 < len(list((out / "runs").iterdir())) < len(cells)
    resumed = subprocess.run(line, capture_output=True, text=True, check=True)
    assert resumed.stdout == f"{len(cells)} of {len(cells)} experiments simulated, in {out}\n"
    for group in group_by_cost(cells):
        run_batch(batch(group), expected)
    for table in RUN_SCHEMAS:
        assert (Location.parse(out) / table).names() == (expected / table).names()
        for name in (expected / table).names():
            assert (out / table / name).read_bytes() == (expected / table / name).read_bytes()


def test_an_active_session_is_reused(spark: SparkSession) -> None:
    with spark_session("local[1]") as session:
        assert session is spark
    assert spark.range(2).count() == 2
