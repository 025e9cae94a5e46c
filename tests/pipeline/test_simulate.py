"""Grids on Spark: every cell is simulated once, regardless of failures of other cells."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from creekdb.evaluation import build_simulation
from creekdb.history import load_run
from creekdb.pipeline.stages import output_dir, run_tables
from creekdb.pipeline.stages.grid import Cell, Grid, cell_name, parse_grid
from creekdb.pipeline.stages.simulate import GridProgress, simulate


def grid_of(*loads: int, **fields: object) -> Grid:
    block = {"load_tps": list(loads), "duration": "60ms", "warehouses": 1, **fields}
    return parse_grid("test", {"block": [block]})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


def test_each_cell_yields_a_run_directory(spark: SparkSession, out: Path) -> None:
    grid = grid_of(500, 1000, scheme=["creek", "smr"])
    output_dir.prepare_output_dir(out, grid)
    reports: list[GridProgress] = []
    assert simulate(spark, grid.cells, out, reports.append) == []
    assert reports[-1].done == reports[-1].total == 4
    for cell in grid.cells:
        directory = out / "runs" / cell.name
        output_dir.check_run_directory(directory)
        run = build_simulation(cell.experiment.to_scenario()).run()
        assert load_run(directory) == run.history
        row = pq.read_table(directory / run_tables.TABLE_FILES["runs"]).to_pylist()[0]
        assert row["trace_hash"] == run.trace_hash
        assert row["run"] == cell.name
    assert contents(out / "failed") == contents(out / ".attempts") == {}


def test_an_interrupted_grid_resumes_with_missing_cells(spark: SparkSession, out: Path) -> None:
    grid = grid_of(500, 600, 700)
    output_dir.prepare_output_dir(out, grid)
    assert simulate(spark, grid.cells, out) == []
    before = contents(out / "runs")
    first, second, third = (out / "runs" / cell.name for cell in grid.cells)
    modified_ns = (first / "config.json").stat().st_mtime_ns
    shutil.rmtree(second)
    truncated = third / run_tables.TABLE_FILES["operations"]
    truncated.write_bytes(truncated.read_bytes()[:-10])
    output_dir.prepare_output_dir(out, grid)
    warnings: list[str] = []
    assert simulate(spark, grid.cells, out, warn=warnings.append) == []
    assert [str(truncated) in line for line in warnings] == [True]
    assert contents(out / "runs") == before
    assert (first / "config.json").stat().st_mtime_ns == modified_ns


def test_a_failed_cell_is_reported_with_its_command_and_other_cells_finish(
    spark: SparkSession, out: Path
) -> None:
    grid = grid_of(500, 600, 700)
    output_dir.prepare_output_dir(out, grid)
    obstacle = out / "runs" / grid.cells[1].name
    obstacle.write_text("a file in place of the run directory")
    for _ in range(2):  # The second time, only the failed cell is simulated.
        (failure,) = simulate(spark, grid.cells, out)
        assert failure.cell == grid.cells[1]
        assert failure.reason.startswith("NotADirectoryError: ")
        assert failure.command == grid.cells[1].experiment.to_command()
        report = (out / "failed" / f"{failure.cell.name}.txt").read_text()
        assert report.startswith(failure.command)
        assert "Traceback" in report
    for cell in (grid.cells[0], grid.cells[2]):
        output_dir.check_run_directory(out / "runs" / cell.name)
    obstacle.unlink()
    assert simulate(spark, grid.cells, out) == []
    assert contents(out / "failed") == {}


def test_other_cells_finish_if_the_process_of_a_cell_is_lost(
    spark: SparkSession, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = grid_of(500, 600)
    output_dir.prepare_output_dir(out, grid)
    lost = grid.cells[0].name

    def run_cell(task: tuple[Cell, str]) -> tuple[str, str]:
        import os  # noqa: PLC0415 - runs in another process

        from creekdb.pipeline.stages.simulate import run_cell as original  # noqa: PLC0415

        if task[0].name == lost:
            os._exit(1)
        return original(task)

    monkeypatch.setattr("creekdb.pipeline.stages.simulate.run_cell", run_cell)
    (failure,) = simulate(spark, grid.cells, out)
    assert failure.cell.name == lost
    assert "process was lost" in failure.reason
    assert [each.name for each in (out / "runs").iterdir()] == [grid.cells[1].name]


def test_cell_names_are_those_of_their_experiments() -> None:
    for cell in grid_of(500, 1000, seed=[0, 1]).cells:
        assert cell.name == cell_name(cell.experiment)
