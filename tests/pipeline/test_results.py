"""Result tables on disk: conforming, complete and reproducible."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import Experiment, build_simulation
from creekdb.pipeline.schemas import RESULT_SCHEMAS, VERDICTS
from creekdb.pipeline.stages import results
from creekdb.pipeline.stages.output_dir import write_batch
from creekdb.pipeline.stages.run_tables import tables_of_simulation
from creekdb.pipeline.storage import Location
from tests.pipeline.spark_tables import Row, table


def verdict(run: str, detail: str = "") -> Row:
    return {"run": run, "checker": "real_time", "verdict": "ok", "detail": detail, "command": "-"}


def verdict_files(out: Path) -> list[Path]:
    return sorted((out / "verdicts").glob("*.parquet"))


def test_a_written_table_is_read_in_order(spark: SparkSession, tmp_path: Path) -> None:
    rows = [verdict(f"run-{number}") for number in range(5)]
    for written in (rows[:2], rows[::-1]):  # The second table replaces the first.
        results.write_result(table(spark, written, VERDICTS).repartition(3), tmp_path, "verdicts")

    assert [
        row.asDict() for row in results.read_result(spark, tmp_path, "verdicts").collect()
    ] == rows
    (file,) = verdict_files(tmp_path)
    assert pq.read_table(file).to_pylist() == rows


def test_many_runs_are_written_in_several_files(spark: SparkSession, tmp_path: Path) -> None:
    rows = [verdict(f"run-{number}") for number in range(20)]
    contents = []
    for order in (1, -1):
        frame = table(spark, rows[::order], VERDICTS)
        results.write_result(frame, tmp_path, "verdicts", run_count=2 * results.RUNS_PER_FILE)
        contents.append([pq.read_table(file).to_pylist() for file in verdict_files(tmp_path)])

    assert contents[0] == contents[1]
    assert len(contents[0]) == 3
    assert sorted(row["run"] for file in contents[0] for row in file) == sorted(
        row["run"] for row in rows
    )


def test_a_truncated_file_is_reported_by_name(spark: SparkSession, tmp_path: Path) -> None:
    results.write_result(table(spark, [verdict("run")], VERDICTS), tmp_path, "verdicts")
    (file,) = verdict_files(tmp_path)
    file.write_bytes(file.read_bytes()[:-20])

    with pytest.raises(StorageFault, match=f"{file} is damaged: "):
        results.check_result(tmp_path, "verdicts")


def test_a_table_with_other_columns_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "verdicts").mkdir()
    (tmp_path / "verdicts" / results.SUCCESS_FILE).touch()
    pq.write_table(pa.table({"run": ["one"]}), tmp_path / "verdicts" / "part.parquet")

    with pytest.raises(StorageFault, match="its columns differ from those of verdicts"):
        results.check_result(tmp_path, "verdicts")


@pytest.mark.parametrize(("name", "stage"), [("peaks", "measure"), ("verdicts", "verify")])
def test_a_missing_table_is_reported_with_its_stage(tmp_path: Path, name: str, stage: str) -> None:
    with pytest.raises(UsageError, match=f"has no complete {name}; run 'creek pipeline {stage} "):
        results.check_result(tmp_path, name)


def test_a_table_without_the_mark_of_success_is_incomplete(
    spark: SparkSession, tmp_path: Path
) -> None:
    results.write_result(table(spark, [verdict("run")], VERDICTS), tmp_path, "verdicts")
    (tmp_path / "verdicts" / results.SUCCESS_FILE).unlink()

    with pytest.raises(UsageError, match="has no complete verdicts"):
        results.read_result(spark, tmp_path, "verdicts")


def test_an_unwritable_table_is_reported_by_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StorageFault, match="cannot write"):
        results.write_result(
            table(spark, [verdict("run")], VERDICTS), tmp_path / "file", "verdicts"
        )


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("out")
    for seed in (0, 1):
        experiment = Experiment(
            warehouses=1, replicas=3, load_tps=2000.0, duration_us=40_000, seed=seed
        )
        scenario = experiment.to_scenario()
        run = build_simulation(scenario).run()
        tables = tables_of_simulation(f"run-{seed}", scenario, run)
        write_batch(Location.parse(directory), f"{seed}", tables._asdict())
    return directory


def test_measured_runs_give_tables_and_aggregates(spark: SparkSession, out: Path) -> None:
    measured = results.measure_runs(spark, out)

    for name in RESULT_SCHEMAS:
        if name != "verdicts":
            results.check_result(out, name)
    rows = measured.measures.collect()
    operations = sum(row["asked"] for row in rows)
    assert measured.runs == len(rows) == 2
    assert [row.asDict() for row in measured.schemes] == [
        {"scheme": "creek", "runs": 2, "saturated": 0, "operations": operations}
    ]
    (peak,) = measured.peaks
    throughputs = [row["throughput_tps"] for row in rows]
    assert peak["seeds"] == 2
    assert peak["peak_tps"] == pytest.approx(sum(throughputs) / 2)
    assert not {"seed", "load_tps"} & {*peak.asDict()}


def test_a_directory_without_runs_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no runs; run 'creek pipeline simulate"):
        results.measure_runs(spark, tmp_path)


def test_a_damaged_table_of_runs_is_reported_by_name(
    spark: SparkSession, out: Path, tmp_path: Path
) -> None:
    for file in out.rglob("*.parquet"):
        copy = tmp_path / file.relative_to(out)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    damaged = tmp_path / "operations" / "part-1.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-100])

    with pytest.raises(StorageFault, match=f"{damaged} is damaged") as raised:
        results.verify_runs(spark, tmp_path)
    assert len(str(raised.value).splitlines()) == 1
