"""Output directories: one grid each, and foreign files untouched."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import Experiment, build_simulation
from creekdb.history import save_run
from creekdb.pipeline.schemas import RUN_SCHEMAS
from creekdb.pipeline.stages import output_dir, run_tables
from creekdb.pipeline.stages.grid import Cell, Grid, cell_name
from creekdb.pipeline.storage import Location

EXPERIMENT = Experiment(load_tps=500, duration_us=40_000, warehouses=1)
GRID = Grid("mine", (Cell(cell_name(EXPERIMENT), EXPERIMENT),))
OTHER = Grid("other", (Cell("other", Experiment(seed=1)),))


@pytest.fixture
def out(tmp_path: Path) -> Location:
    return Location.parse(tmp_path / "out")


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    """Tables of one run."""
    scenario = EXPERIMENT.to_scenario()
    run = build_simulation(scenario).run()
    verdict = {"checker": "replay", "verdict": "ok", "detail": "", "command": ""}
    return run_tables.tables_of_simulation("one", scenario, run, verdicts=[verdict])._asdict()


def test_the_same_grid_resumes_its_directory(out: Location) -> None:
    output_dir.prepare_output_dir(out, GRID)
    (out / "measures" / "part-0.parquet").write_bytes(b"")
    output_dir.prepare_output_dir(out, GRID)
    assert (out / "measures" / "part-0.parquet").exists()


def test_additional_cells_resume_a_directory_and_fewer_do_not(out: Location) -> None:
    more = Grid("more", (*GRID.cells, *OTHER.cells))
    output_dir.prepare_output_dir(out, GRID)
    (out / "measures" / "part-0.parquet").write_bytes(b"")
    output_dir.prepare_output_dir(out, more)
    assert (out / "measures" / "part-0.parquet").exists()
    with pytest.raises(UsageError, match=r"holds another grid \(more\)"):
        output_dir.prepare_output_dir(out, GRID)


def test_another_grid_is_rejected_and_replaced_only_with_force(out: Location) -> None:
    output_dir.prepare_output_dir(out, GRID)
    (out / "measures" / "part-0.parquet").write_bytes(b"")
    with pytest.raises(UsageError, match=r"holds another grid \(mine\); .* --force"):
        output_dir.prepare_output_dir(out, OTHER)
    assert (out / "measures" / "part-0.parquet").exists()
    output_dir.prepare_output_dir(out, OTHER, force=True)
    assert not (out / "measures").exists()


def test_runs_of_other_code_are_rejected(out: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    output_dir.prepare_output_dir(out, GRID)
    monkeypatch.setattr(output_dir, "code_hash", lambda: "another")
    with pytest.raises(UsageError, match="simulated by another version of Creek"):
        output_dir.prepare_output_dir(out, GRID)


@pytest.mark.parametrize("force", [False, True])
def test_foreign_files_are_never_removed(out: Location, force: bool) -> None:
    (out / "foreign").write_bytes(b"text")
    with pytest.raises(UsageError, match="files that are not of a pipeline"):
        output_dir.prepare_output_dir(out, GRID, force)
    assert out.names() == ["foreign"]


def test_a_file_instead_of_a_directory_is_rejected(out: Location) -> None:
    out.write_bytes(b"")
    with pytest.raises(UsageError, match="is not a directory"):
        output_dir.prepare_output_dir(out, GRID)
    with pytest.raises(StorageFault, match="cannot write"):
        output_dir.prepare_output_dir(out / "below", GRID)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema_version": 2}'])
def test_a_damaged_manifest_is_reported_by_name(out: Location, text: str) -> None:
    output_dir.prepare_output_dir(out, GRID)
    (out / "pipeline.json").write_bytes(text.encode())
    with pytest.raises(UsageError, match=r"pipeline.json is damaged"):
        output_dir.prepare_output_dir(out, GRID)


def test_another_schema_version_is_rejected(out: Location) -> None:
    output_dir.prepare_output_dir(out, GRID)
    manifest = json.loads((out / "pipeline.json").read_bytes())
    text = json.dumps({**manifest, "schema_version": 0})
    (out / "pipeline.json").write_bytes(text.encode())
    with pytest.raises(UsageError, match="another schema version"):
        output_dir.prepare_output_dir(out, GRID)


def test_run_directories_are_found_in_a_directory_and_alone(tmp_path: Path) -> None:
    history = build_simulation(EXPERIMENT.to_scenario()).run().history
    for name in ("two", "one"):
        save_run(history, tmp_path / name)
    (tmp_path / "other").mkdir()
    assert output_dir.run_directories(tmp_path) == [tmp_path / "one", tmp_path / "two"]
    assert output_dir.run_directories(tmp_path / "one") == [tmp_path / "one"]


def test_a_batch_is_committed_by_its_last_file(out: Location, tables: dict[str, pa.Table]) -> None:
    output_dir.prepare_output_dir(out, GRID)
    output_dir.write_batch(out, "first", tables)
    output_dir.write_batch(out, "second", tables)
    assert output_dir.committed_batches(out) == {
        "part-first.parquet": ["one"],
        "part-second.parquet": ["one"],
    }
    (out / "runs" / "part-second.parquet").remove()
    output_dir.prepare_output_dir(out, GRID)
    for table, rows in tables.items():
        assert (out / table).names() == ["part-first.parquet"]
        assert (out / table).read_table().equals(rows)
    output_dir.remove_batch(out, "part-first.parquet")
    assert [(out / table).names() for table in tables] == [[]] * len(tables)


def test_an_interrupted_batch_is_not_committed(
    out: Location, tables: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    output_dir.prepare_output_dir(out, GRID)
    write_table = Location.write_table

    def fail_at_orders(location: Location, table: pa.Table) -> None:
        if "orders" in str(location):
            raise OSError(28, "No space left on device")
        write_table(location, table)

    monkeypatch.setattr(Location, "write_table", fail_at_orders)
    with pytest.raises(OSError, match="No space left"):
        output_dir.write_batch(out, "first", tables)
    assert output_dir.committed_batches(out) == {}


@pytest.mark.parametrize("table", RUN_SCHEMAS)
def test_a_truncated_file_of_a_batch_is_reported_by_name(
    out: Location, tables: dict[str, pa.Table], table: str
) -> None:
    output_dir.write_batch(out, "first", tables)
    output_dir.check_batch(out, "part-first.parquet")
    file = out / table / "part-first.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(StorageFault, match=f"{file} is damaged: "):
        output_dir.check_batch(out, "part-first.parquet")


def test_a_missing_or_different_file_of_a_batch_is_reported_by_name(
    out: Location, tables: dict[str, pa.Table]
) -> None:
    output_dir.write_batch(out, "first", tables)
    file = out / "samples" / "part-first.parquet"
    file.remove()
    with pytest.raises(StorageFault, match=f"{file} is missing"):
        output_dir.check_batch(out, "part-first.parquet")
    file.write_table(pa.table({"run": ["one"]}))
    with pytest.raises(StorageFault, match="its columns differ from those of samples"):
        output_dir.check_batch(out, "part-first.parquet")


@pytest.mark.parametrize("force", [False, True])
def test_a_directory_of_imported_runs_is_never_replaced(out: Location, force: bool) -> None:
    history = build_simulation(EXPERIMENT.to_scenario()).run().history
    save_run(history, out.local_path / "one")
    assert output_dir.prepare_import_dir(out)
    assert output_dir.prepare_import_dir(out), "prepared twice"
    with pytest.raises(UsageError, match="holds the tables of imported runs"):
        output_dir.prepare_output_dir(out, GRID, force)
    assert output_dir.run_directories(out.local_path) == [out.local_path / "one"]


def test_the_output_of_a_grid_is_no_directory_of_imported_runs(out: Location) -> None:
    output_dir.prepare_output_dir(out, GRID)
    assert not output_dir.prepare_import_dir(out)
    with pytest.raises(UsageError, match="holds no runs"):
        output_dir.prepare_import_dir(out / "runs")
