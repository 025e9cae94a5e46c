"""Result tables on disk: conforming, complete and reproducible."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from creekdb.errors import StorageFault, UsageError
from creekdb.pipeline.schemas import VERDICTS
from creekdb.pipeline.stages import results
from tests.pipeline.spark_tables import Row, table


def verdict(run: str, detail: str = "") -> Row:
    return {"run": run, "checker": "real_time", "verdict": "ok", "detail": detail, "command": "-"}


def verdict_file(out: Path) -> Path:
    (file,) = (out / "verdicts").glob("*.parquet")
    return file


def test_a_written_table_is_read_in_order(spark: SparkSession, tmp_path: Path) -> None:
    rows = [verdict(f"run-{number}") for number in range(5)]
    for written in (rows[:2], rows[::-1]):  # The second table replaces the first.
        results.write_result(table(spark, written, VERDICTS).repartition(3), tmp_path, "verdicts")

    assert [
        row.asDict() for row in results.read_result(spark, tmp_path, "verdicts").collect()
    ] == rows
    assert pq.read_table(verdict_file(tmp_path)).to_pylist() == rows


def test_a_truncated_file_is_reported_by_name(spark: SparkSession, tmp_path: Path) -> None:
    results.write_result(table(spark, [verdict("run")], VERDICTS), tmp_path, "verdicts")
    file = verdict_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-20])

    with pytest.raises(StorageFault, match=f"{file} is damaged: "):
        results.check_result(tmp_path, "verdicts")


def test_a_table_with_other_columns_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "verdicts").mkdir()
    file = tmp_path / "verdicts" / "part.parquet"
    pq.write_table(pa.table({"run": ["one"]}), file)

    with pytest.raises(StorageFault, match="its columns differ from those of verdicts"):
        results.check_result(tmp_path, "verdicts")


@pytest.mark.parametrize(("name", "stage"), [("peaks", "measure"), ("verdicts", "verify")])
def test_a_missing_table_is_reported_with_its_stage(tmp_path: Path, name: str, stage: str) -> None:
    with pytest.raises(UsageError, match=f"has no {name}; run 'creek pipeline {stage} "):
        results.check_result(tmp_path, name)


def test_an_unwritable_table_is_reported_by_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StorageFault, match="cannot write"):
        results.write_result(
            table(spark, [verdict("run")], VERDICTS), tmp_path / "file", "verdicts"
        )
