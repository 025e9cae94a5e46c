"""Failures of Spark as errors of one line: real ones, and texts of those that need a cluster."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from creekdb.errors import CreekError, DiskFull, HelperEnded, StorageFault, UsageError
from creekdb.pipeline.spark.failures import explain_failure, explained_failures

TASK_FAILURE = "Job aborted: Lost task 7.3 in stage 3.0 (TID 9) (10.0.0.7 executor 2): "


def one_line(work: Callable[[], object]) -> CreekError:
    """Return the error that the work ends with."""
    with pytest.raises(CreekError) as raised, explained_failures():
        work()
    assert "\n" not in str(raised.value)
    return raised.value


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Parquet file with page checksums, whose second column is not compressed."""
    file = tmp_path / "part-0.parquet"
    content = pa.table({"a": list(range(1000)), "b": [float(each) for each in range(1000)]})
    pq.write_table(
        content, file, write_page_checksum=True, compression="none", use_dictionary=False
    )
    return file


def flip_bit(file: Path, column: int) -> None:
    """Flip a bit in the middle of a column's only page."""
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(column)
    content = bytearray(file.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 4
    file.write_bytes(content)


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_a_flipped_bit_in_a_page_is_reported_with_the_file(
    spark: SparkSession, table: Path, vectorized: str
) -> None:
    flip_bit(table, 1)
    reader = "spark.sql.parquet.enableVectorizedReader"
    before = spark.conf.get(reader)
    spark.conf.set(reader, vectorized)
    try:
        frame = spark.read.parquet(str(table.parent))
        assert frame.selectExpr("sum(a)").collect()[0][0] == sum(range(1000)), "an intact column"
        error = one_line(frame.selectExpr("sum(b)").collect)
    finally:
        spark.conf.set(reader, before or "true")
    assert isinstance(error, StorageFault)
    assert str(error).startswith(
        f"{table} is damaged: a page does not match its checksum; delete it"
    )


def test_a_truncated_file_is_reported_by_name(spark: SparkSession, table: Path) -> None:
    table.write_bytes(table.read_bytes()[:-50])
    error = one_line(spark.read.schema("a long").parquet(str(table)).collect)
    assert isinstance(error, StorageFault)
    assert str(error).startswith(f"{table} is damaged: ")


def test_a_missing_column_is_reported_without_other_output(
    spark: SparkSession, table: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    error = one_line(lambda: spark.read.parquet(str(table)).select("response").collect())
    assert isinstance(error, StorageFault)
    assert str(error).startswith("a table has no column `response`: another version")
    assert capfd.readouterr().err == ""


def test_a_missing_directory_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    error = one_line(lambda: spark.read.parquet(str(tmp_path / "runs")).collect())
    assert isinstance(error, UsageError)
    assert str(error).startswith(f"{tmp_path / 'runs'} does not exist")


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("nosuch://host/x", "Spark has no file system for nosuch:// paths; "),
        ("s3a://bucket/x", "Spark has no file system for s3a:// paths: the class org.apache."),
    ],
)
def test_a_path_without_a_file_system_is_reported(
    spark: SparkSession, path: str, cause: str
) -> None:
    error = one_line(lambda: spark.range(1).write.parquet(path))
    assert isinstance(error, UsageError)
    assert str(error).startswith(cause)


def test_a_full_disk_of_a_task_is_reported(spark: SparkSession) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("requires /dev/full")

    def write(batches: Iterable[Any]) -> Iterator[Any]:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")
        yield from batches

    error = one_line(spark.range(1).mapInArrow(write, "id long").collect)
    assert isinstance(error, DiskFull)
    assert "no space left on device; free some, then run the same command" in str(error)


def test_a_task_whose_process_dies_repeatedly_is_reported(spark: SparkSession) -> None:

    def exit_process(batches: Iterable[Any]) -> Iterator[Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    error = one_line(spark.range(1).mapInArrow(exit_process, "id long").collect)
    assert isinstance(error, HelperEnded)
    assert "the process of a task was lost repeatedly on " in str(error)


def test_a_module_that_executors_lack_is_reported(spark: SparkSession) -> None:

    def load(batches: Iterable[Any]) -> Iterator[Any]:
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401, PLC0415

        yield from batches

    error = one_line(spark.range(1).mapInArrow(load, "id long").collect)
    assert str(error).startswith("executors cannot import no_such_module; send it with --py-files")


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        (
            "[TASK_WRITE_FAILED] Task failed while writing rows to file:/data/out. SQLSTATE\n"
            "Caused by: java.io.IOException: No space left on device",
            DiskFull,
            "cannot write /data/out: no space left on device; ",
        ),
        (
            f"{TASK_FAILURE}ExecutorLostFailure (executor 2 exited caused by one of the running",
            HelperEnded,
            "the process of a task was lost repeatedly on 10.0.0.7, often for lack of memory; ",
        ),
        (
            "Job aborted due to stage failure: Master removed our application: FAILED",
            HelperEnded,
            "Spark ended the application: Master removed our application: FAILED; check",
        ),
        (
            "Job 3 cancelled because SparkContext was shut down",
            HelperEnded,
            "Spark ended the application: SparkContext was shut down; check that the master",
        ),
        (
            f"{TASK_FAILURE}java.lang.OutOfMemoryError: Java heap space",
            HelperEnded,
            "Spark has too little memory on 10.0.0.7; raise --driver-memory",
        ),
        (
            "java.net.ConnectException: Call From a/10.0.0.1 to namenode:8020 failed on connection "
            "exception: java.net.ConnectException: Connection refused",
            StorageFault,
            "cannot connect to the file system at namenode:8020; ",
        ),
        (
            "java.io.IOException: Mkdirs failed to create file:/proc/x/_temporary/0 (exists=false",
            StorageFault,
            "cannot write /proc/x/_temporary/0: permission denied",
        ),
        (
            "PermissionError: [Errno 13] Permission denied: '/data/out/runs/part-0.parquet'",
            StorageFault,
            "cannot write /data/out/runs/part-0.parquet: permission denied",
        ),
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
            "file:///data/my%20runs/x.parquet.  SQLSTATE: KD001",
            StorageFault,
            "/data/my runs/x.parquet is damaged: Spark cannot read it; delete it",
        ),
        (
            "<_MultiThreadedRendezvous: status = StatusCode.UNAVAILABLE",
            HelperEnded,
            "the connection to the Spark Connect server was lost: StatusCode.UNAVAILABLE; ",
        ),
    ],
)
def test_known_texts_are_explained(text: str, kind: type[CreekError], line: str) -> None:
    error = explain_failure(Py4JError(text))
    assert type(error) is kind
    assert str(error).startswith(line)


def test_other_exceptions_are_not_explained() -> None:
    assert explain_failure(Py4JError("something else")) is None
    assert explain_failure(OSError("No space left on device")) is None
    with pytest.raises(ZeroDivisionError), explained_failures():
        1 / 0  # noqa: B018 - raises
