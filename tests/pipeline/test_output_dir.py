"""Output directories: one grid each, and foreign files untouched."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import Experiment, build_simulation
from creekdb.history import save_run
from creekdb.pipeline.stages import output_dir, run_tables
from creekdb.pipeline.stages.grid import Cell, Grid, cell_name

EXPERIMENT = Experiment(load_tps=500, duration_us=40_000, warehouses=1)
GRID = Grid("mine", (Cell(cell_name(EXPERIMENT), EXPERIMENT),))
OTHER = Grid("other", (Cell("other", Experiment(seed=1)),))


@pytest.fixture(scope="module")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run directory with its tables."""
    scenario = EXPERIMENT.to_scenario()
    run = build_simulation(scenario).run()
    tables = run_tables.tables_of_simulation("one", scenario, run, command=EXPERIMENT.to_command())
    directory = tmp_path_factory.mktemp("stored") / "one"
    save_run(run.history, directory, lambda path: run_tables.write_run_tables(tables, path))
    return directory


@pytest.fixture
def runs(stored_run: Path, tmp_path: Path) -> Path:
    """Directory with two runs."""
    for name in ("one", "two"):
        shutil.copytree(stored_run, tmp_path / "runs" / name)
    return tmp_path / "runs"


def test_the_same_grid_resumes_its_directory(tmp_path: Path) -> None:
    output_dir.prepare_output_dir(tmp_path, GRID)
    (tmp_path / "runs" / "one").mkdir()
    (tmp_path / ".attempts" / "half").mkdir()
    output_dir.prepare_output_dir(tmp_path, GRID)
    assert (tmp_path / "runs" / "one").exists()
    assert not any((tmp_path / ".attempts").iterdir())


def test_additional_cells_resume_a_directory_and_fewer_do_not(tmp_path: Path) -> None:
    more = Grid("more", (*GRID.cells, *OTHER.cells))
    output_dir.prepare_output_dir(tmp_path, GRID)
    (tmp_path / "runs" / "one").mkdir()
    output_dir.prepare_output_dir(tmp_path, more)
    assert (tmp_path / "runs" / "one").exists()
    with pytest.raises(UsageError, match=r"holds another grid \(more\)"):
        output_dir.prepare_output_dir(tmp_path, GRID)


def test_another_grid_is_rejected_and_replaced_only_with_force(tmp_path: Path) -> None:
    output_dir.prepare_output_dir(tmp_path, GRID)
    (tmp_path / "runs" / "one").mkdir()
    with pytest.raises(UsageError, match=r"holds another grid \(mine\); .* --force"):
        output_dir.prepare_output_dir(tmp_path, OTHER)
    assert (tmp_path / "runs" / "one").exists()
    output_dir.prepare_output_dir(tmp_path, OTHER, force=True)
    assert not (tmp_path / "runs" / "one").exists()


def test_runs_of_other_code_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output_dir.prepare_output_dir(tmp_path, GRID)
    monkeypatch.setattr(output_dir, "code_hash", lambda: "another")
    with pytest.raises(UsageError, match="simulated by another version of Creek"):
        output_dir.prepare_output_dir(tmp_path, GRID)


@pytest.mark.parametrize("force", [False, True])
def test_foreign_files_are_never_removed(tmp_path: Path, force: bool) -> None:
    (tmp_path / "foreign").write_text("text")
    with pytest.raises(UsageError, match="files that are not of a pipeline"):
        output_dir.prepare_output_dir(tmp_path, GRID, force)
    assert [each.name for each in tmp_path.iterdir()] == ["foreign"]


def test_a_file_instead_of_a_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is not a directory"):
        output_dir.prepare_output_dir(tmp_path / "file", GRID)
    with pytest.raises(StorageFault, match="cannot write"):
        output_dir.prepare_output_dir(tmp_path / "file" / "below", GRID)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema_version": 1}'])
def test_a_damaged_manifest_is_reported_by_name(tmp_path: Path, text: str) -> None:
    output_dir.prepare_output_dir(tmp_path, GRID)
    (tmp_path / "pipeline.json").write_text(text)
    with pytest.raises(UsageError, match=r"pipeline.json is damaged"):
        output_dir.prepare_output_dir(tmp_path, GRID)


def test_another_schema_version_is_rejected(tmp_path: Path) -> None:
    output_dir.prepare_output_dir(tmp_path, GRID)
    manifest = json.loads((tmp_path / "pipeline.json").read_text())
    (tmp_path / "pipeline.json").write_text(json.dumps({**manifest, "schema_version": 0}))
    with pytest.raises(UsageError, match="another schema version"):
        output_dir.prepare_output_dir(tmp_path, GRID)


def test_runs_are_found_in_an_output_directory_in_a_directory_of_runs_and_alone(
    runs: Path, tmp_path: Path
) -> None:
    both = [runs / "one", runs / "two"]
    assert output_dir.run_directories(runs) == both
    assert output_dir.run_directories(runs / "one") == [runs / "one"]
    (tmp_path / "pipeline.json").write_text("{}")
    assert output_dir.run_directories(tmp_path) == both
    with pytest.raises(UsageError, match="holds no runs"):
        output_dir.run_directories(tmp_path / "nowhere")


@pytest.mark.parametrize("table", run_tables.TABLE_FILES)
def test_a_truncated_table_is_reported_by_name(runs: Path, table: str) -> None:
    file = runs / "one" / run_tables.TABLE_FILES[table]
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(StorageFault, match=f"{file} is damaged: "):
        output_dir.check_run_directory(runs / "one")
    output_dir.check_run_directory(runs / "two")


def test_a_missing_or_different_table_is_reported_by_name(runs: Path) -> None:
    file = runs / "one" / run_tables.TABLE_FILES["samples"]
    file.unlink()
    with pytest.raises(StorageFault, match=r"one has no replicas/samples.parquet"):
        output_dir.check_run_directory(runs / "one")
    pq.write_table(pa.table({"run": ["one"]}), file)
    with pytest.raises(StorageFault, match="its columns differ from those of samples"):
        output_dir.check_run_directory(runs / "one")


def test_a_run_of_another_schema_version_is_rejected(runs: Path) -> None:
    config = runs / "one" / "config.json"
    config.write_text(config.read_text().replace('"schema_version": ', '"schema_version": 9'))
    with pytest.raises(UsageError, match="one was written in schema version 9"):
        output_dir.check_run_directory(runs / "one")


def test_tables_of_all_runs_conform_to_their_schemas(spark: SparkSession, runs: Path) -> None:
    directories = output_dir.run_directories(runs)
    for name, schema in run_tables.RUN_TABLE_SCHEMAS.items():
        frame = output_dir.read_run_table(spark, directories, name)
        assert frame.columns == schema.names
        rows = pq.read_table(runs / "one" / run_tables.TABLE_FILES[name]).num_rows
        assert frame.count() == 2 * rows > 0


def test_missing_tables_are_derived_from_the_history(runs: Path) -> None:
    original = {
        name: pq.read_table(runs / "one" / file) for name, file in run_tables.TABLE_FILES.items()
    }
    for file in run_tables.TABLE_FILES.values():
        (runs / "one" / file).unlink()
    for directory in output_dir.run_directories(runs):
        run_tables.ensure_run_tables(directory)
    output_dir.check_run_directory(runs / "one")
    columns = ("run", "invoked_us", "tentative_us", "stable_us", "final_us", "accurate", "failed")
    derived = pq.read_table(runs / "one" / run_tables.TABLE_FILES["operations"])
    assert derived.select(columns).equals(original["operations"].select(columns))
