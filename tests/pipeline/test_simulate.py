"""A grid on Spark: every cell once, whatever happens to the others."""

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


def grid_of(*loads: int, **others: object) -> Grid:
    block = {"load_tps": list(loads), "duration": "60ms", "warehouses": 1, **others}
    return parse_grid("test", {"block": [block]})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_each_cell_leaves_a_run_folder(spark: SparkSession, out: Path) -> None:
    grid = grid_of(500, 1000, scheme=["creek", "smr"])
    output_dir.prepare_output_dir(out, grid)
    told: list[GridProgress] = []
    assert simulate(spark, grid.cells, out, told.append) == []
    assert told[-1].done == told[-1].total == 4
    for cell in grid.cells:
        folder = out / "runs" / cell.name
        output_dir.check_run_directory(folder)
        run = build_simulation(cell.experiment.to_scenario()).run()
        assert load_run(folder) == run.history
        row = pq.read_table(folder / run_tables.TABLE_FILES["runs"]).to_pylist()[0]
        assert row["trace_hash"] == run.trace_hash
        assert row["run"] == cell.name
    assert contents(out / "failed") == contents(out / ".attempts") == {}


def test_an_interrupted_grid_goes_on_with_what_is_missing(spark: SparkSession, out: Path) -> None:
    grid = grid_of(500, 600, 700)
    output_dir.prepare_output_dir(out, grid)
    assert simulate(spark, grid.cells, out) == []
    before = contents(out / "runs")
    first, second, third = (out / "runs" / cell.name for cell in grid.cells)
    kept = (first / "config.json").stat().st_mtime_ns
    shutil.rmtree(second)
    truncated = third / run_tables.TABLE_FILES["operations"]
    truncated.write_bytes(truncated.read_bytes()[:-10])
    output_dir.prepare_output_dir(out, grid)
    told: list[str] = []
    assert simulate(spark, grid.cells, out, tell=told.append) == []
    assert [str(truncated) in line for line in told] == [True]
    assert contents(out / "runs") == before
    assert (first / "config.json").stat().st_mtime_ns == kept


def test_a_cell_that_fails_is_told_with_its_command_and_the_others_finish(
    spark: SparkSession, out: Path
) -> None:
    grid = grid_of(500, 600, 700)
    output_dir.prepare_output_dir(out, grid)
    in_the_way = out / "runs" / grid.cells[1].name
    in_the_way.write_text("no folder can take this place")
    for _ in range(2):  # the second time, it is the only one that is tried
        (failure,) = simulate(spark, grid.cells, out)
        assert failure.cell == grid.cells[1]
        assert failure.reason.startswith("NotADirectoryError: ")
        assert failure.command == grid.cells[1].experiment.to_command()
        told = (out / "failed" / f"{failure.cell.name}.txt").read_text()
        assert told.startswith(failure.command)
        assert "Traceback" in told
    for cell in (grid.cells[0], grid.cells[2]):
        output_dir.check_run_directory(out / "runs" / cell.name)
    in_the_way.unlink()
    assert simulate(spark, grid.cells, out) == []
    assert contents(out / "failed") == {}


def test_a_cell_whose_process_is_lost_does_not_keep_others_from_finishing(
    spark: SparkSession, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = grid_of(500, 600)
    output_dir.prepare_output_dir(out, grid)
    doomed = grid.cells[0].name

    def run_cell(work: tuple[Cell, str]) -> tuple[str, str]:
        import os  # noqa: PLC0415 - it runs in another process

        from creekdb.pipeline.stages.simulate import run_cell as really  # noqa: PLC0415

        if work[0].name == doomed:
            os._exit(1)
        return really(work)

    monkeypatch.setattr("creekdb.pipeline.stages.simulate.run_cell", run_cell)
    (failure,) = simulate(spark, grid.cells, out)
    assert failure.cell.name == doomed
    assert "process was lost" in failure.reason
    assert [each.name for each in (out / "runs").iterdir()] == [grid.cells[1].name]


def test_names_of_cells_are_those_of_their_experiments() -> None:
    for cell in grid_of(500, 1000, seed=[0, 1]).cells:
        assert cell.name == cell_name(cell.experiment)
