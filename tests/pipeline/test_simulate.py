"""Grids on Spark: every cell is simulated once, regardless of failures of other cells."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from creekdb.errors import StorageFault
from creekdb.evaluation import build_simulation
from creekdb.history import load_run, save_run
from creekdb.pipeline.schemas import RUN_SCHEMAS
from creekdb.pipeline.stages import output_dir, simulate
from creekdb.pipeline.stages.grid import Cell, Grid, cell_name, parse_grid
from creekdb.pipeline.stages.live_import import StoredRun, remove_earlier_imports
from creekdb.pipeline.stages.simulate import Batch, GridProgress, RunFailure
from creekdb.pipeline.storage import Location


def grid_of(*loads: int, **fields: object) -> Grid:
    block = {"load_tps": list(loads), "duration": "60ms", "warehouses": 1, **fields}
    return parse_grid("test", {"block": [block]})


@pytest.fixture
def out(tmp_path: Path) -> Location:
    return Location.parse(tmp_path / "out")


def contents(out: Location) -> dict[str, bytes]:
    """Return the files of all tables of runs, and of histories."""
    files = (
        file
        for table in (*RUN_SCHEMAS, "histories", "failed")
        for file in sorted((out / table).local_path.rglob("*"))
        if file.is_file()
    )
    return {str(file.relative_to(out.local_path)): file.read_bytes() for file in files}


def simulated(spark: SparkSession, out: Location, grid: Grid) -> list[RunFailure]:
    output_dir.prepare_output_dir(out, grid)
    return simulate.simulate(spark, grid.cells, out)


def test_each_cell_yields_rows_of_all_tables(spark: SparkSession, out: Location) -> None:
    grid = grid_of(500, 1000, scheme=["creek", "smr"])
    output_dir.prepare_output_dir(out, grid)
    reports: list[GridProgress] = []
    assert simulate.simulate(spark, grid.cells, out, reports.append) == []
    assert reports[-1].done == reports[-1].total == 4
    rows = {row["run"]: row for row in (out / "runs").read_table().to_pylist()}
    assert rows.keys() == {cell.name for cell in grid.cells}
    for cell in grid.cells:
        run = build_simulation(cell.experiment.to_scenario()).run()
        assert rows[cell.name]["trace_hash"] == run.trace_hash
        filters = [("run", "=", cell.name)]
        operations = (out / "operations").read_table(filters=filters)
        assert operations.num_rows == len(run.history.operations) > 0
        for table in ("orders", "samples", "final_states", "run_verdicts"):
            assert (out / table).read_table(filters=filters).num_rows > 0
    assert (out / "failed").names() == []
    assert (out / "histories").names() == []


def test_a_recorded_run_keeps_its_history(spark: SparkSession, out: Location) -> None:
    grid = grid_of(500, recorded=True)
    assert simulated(spark, out, grid) == []
    (cell,) = grid.cells
    run = build_simulation(cell.experiment.to_scenario()).run()
    assert load_run(out.local_path / "histories" / cell.name) == run.history


def test_cheap_cells_share_a_batch_and_expensive_ones_do_not() -> None:
    grid = grid_of(500, 600, 50_000, 700, 60_000)
    groups = simulate.group_by_cost(grid.cells)
    loads = [[each.experiment.load_tps for each in group] for group in groups]
    assert loads == [[60_000], [50_000], [700, 600, 500]]
    many = grid_of(*range(1000, 4000), seed=[0, 1])
    groups = simulate.group_by_cost(many.cells)
    assert len(groups) <= 2 * simulate.BATCHES_MAX
    assert sum(map(len, groups)) == len(many.cells)


def test_an_interrupted_grid_resumes_with_missing_batches(
    spark: SparkSession, out: Location
) -> None:
    grid = grid_of(500, 600, 20_000, 21_000, recorded=True)
    assert simulated(spark, out, grid) == []
    before = contents(out)
    largest, second, cheap = ((out / "runs" / name) for name in sorted_by_cost(out, grid))
    modified_ns = largest.local_path.stat().st_mtime_ns
    second.remove()
    truncated = out / "operations" / cheap.name
    truncated.write_bytes(truncated.read_bytes()[:-10])
    output_dir.prepare_output_dir(out, grid)
    warnings: list[str] = []
    assert simulate.simulate(spark, grid.cells, out, warn=warnings.append) == []
    assert [str(truncated) in line for line in warnings] == [True]
    assert contents(out) == before
    assert largest.local_path.stat().st_mtime_ns == modified_ns


def sorted_by_cost(out: Location, grid: Grid) -> list[str]:
    names = [
        output_dir.part_file(simulate.batch(group).name)
        for group in simulate.group_by_cost(grid.cells)
    ]
    assert sorted(names) == (out / "runs").names()
    return names


def test_additional_cells_leave_completed_runs_unchanged(
    spark: SparkSession, out: Location
) -> None:
    assert simulated(spark, out, grid_of(500, 600)) == []
    before = contents(out)
    assert simulated(spark, out, grid_of(500, 600, 700, seed=[0, 1])) == []
    assert before.items() <= contents(out).items()
    assert (out / "runs").read_table().num_rows == 6


def failing_scheme(directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a scheme that raises while a file named `raise` exists."""
    (directory / "failing.py").write_text(
        "from pathlib import Path\n"
        "from creekdb.schemes.creek import CreekReplica\n"
        "class FailingReplica(CreekReplica):\n"
        "    def __init__(self, index, settings, datatype):\n"
        "        super().__init__(index, settings, datatype)\n"
        "        if (Path(__file__).parent / 'raise').exists():\n"
        "            raise RuntimeError('planted')\n"
    )
    monkeypatch.syspath_prepend(directory)
    monkeypatch.setenv("PYTHONPATH", str(directory), prepend=":")
    return "failing:FailingReplica"


def test_a_failed_cell_is_reported_with_its_command_and_other_cells_finish(
    out: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process, since a running Spark session does not see the module of the scheme."""
    scheme = failing_scheme(tmp_path, monkeypatch)
    grid = grid_of(500, 600, scheme=["creek", scheme])
    output_dir.prepare_output_dir(out, grid)
    (tmp_path / "raise").touch()
    batch = simulate.batch(grid.cells)
    results = simulate.run_batch(batch, out)
    failing = [cell for cell in grid.cells if cell.experiment.scheme == scheme]
    assert [name for name, reason, _ in results if reason] == [each.name for each in failing]
    assert {reason for _, reason, _ in results} == {"", "RuntimeError: planted"}
    for cell in failing:
        report = (out / "failed" / f"{cell.name}.txt").read_bytes().decode()
        assert report.startswith(cell.experiment.to_command())
        assert "Traceback" in report
    assert (out / "runs").read_table().num_rows == 2


def test_a_failed_cell_is_simulated_again(spark: SparkSession, out: Location) -> None:
    grid = grid_of(500, 600)
    output_dir.prepare_output_dir(out, grid)
    obstacle = out / "failed" / f"{grid.cells[0].name}.txt"
    obstacle.write_bytes(b"an earlier failure")
    assert simulate.simulate(spark, grid.cells, out) == []
    assert not obstacle.exists()


def test_a_full_disk_fails_the_batch_with_one_line(
    out: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = grid_of(500)
    output_dir.prepare_output_dir(out, grid)

    def fail(location: Location, content: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Location, "write_bytes", fail)
    batch = simulate.batch(grid.cells)
    results = simulate.run_batch(batch, out)
    assert results == [(batch.name, f"cannot write to {out}: No space left on device", True)]
    with pytest.raises(StorageFault, match=r"No space left on device; .* repeat the command"):
        simulate._failures(results, [batch], out)
    assert (out / "runs").names() == []


def test_other_cells_finish_if_the_process_of_a_cell_is_lost(
    spark: SparkSession, out: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = grid_of(500, 600, 700)
    output_dir.prepare_output_dir(out, grid)
    lost = grid.cells[0].name

    def run_batch(batch: Batch, out: Location) -> list[tuple[str, str, bool]]:
        from creekdb.pipeline.stages.simulate import run_batch as original  # noqa: PLC0415

        if lost in [each.name for each in batch.sources]:
            os._exit(1)
        return original(batch, out)

    monkeypatch.setattr(simulate, "run_batch", run_batch)
    (failure,) = simulate.simulate(spark, grid.cells, out)
    assert failure.source.name == lost
    assert "process was lost" in failure.reason
    runs = (out / "runs").read_table()["run"].to_pylist()
    assert sorted(runs) == sorted(each.name for each in grid.cells[1:])


def test_runs_that_are_not_visible_to_the_driver_are_reported(out: Location) -> None:
    batch = simulate.batch(grid_of(500).cells)
    with pytest.raises(StorageFault, match="name a directory that all executors share"):
        simulate._failures([(batch.name, "", False)], [batch], out)


def test_a_stored_run_becomes_rows_of_the_tables(
    spark: SparkSession, out: Location, tmp_path: Path
) -> None:
    grid = grid_of(500)
    (cell,) = grid.cells
    run = build_simulation(cell.experiment.to_scenario(record_all=True)).run()
    save_run(run.history, tmp_path / "live")
    output_dir.prepare_output_dir(out, grid)
    stored = StoredRun("live", tmp_path / "live", is_copied=True)
    assert simulate.simulate(spark, [cell], out, additional=[stored]) == []
    assert (out / "runs").read_table()["run"].to_pylist() == [cell.name, "live"]
    assert load_run(out.local_path / "histories" / "live") == run.history
    remove_earlier_imports(out, grid, [cell])
    assert (out / "runs").read_table()["run"].to_pylist() == [cell.name]
    assert (out / "histories").names() == []


def test_a_damaged_stored_run_is_a_failure_by_name(out: Location, tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    batch = simulate.batch([StoredRun("live", tmp_path / "live")])
    ((name, reason, is_storage_fault),) = simulate.run_batch(batch, out)
    assert (name, is_storage_fault) == ("live", False)
    assert "is not a run directory" in reason


def test_cell_names_are_those_of_their_experiments() -> None:
    for cell in grid_of(500, 1000, seed=[0, 1]).cells:
        assert isinstance(cell, Cell)
        assert cell.name == cell_name(cell.experiment)
