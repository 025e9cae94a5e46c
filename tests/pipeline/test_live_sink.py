"""`format("creek")` for writing: batches, streams, tables, rejected rows and one-line errors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from creekdb.client import BlockingDatabase, connect
from creekdb.load.local_cluster import LocalCluster
from tests.pipeline.live_clusters import live_cluster, servers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with live_cluster(tmp_path_factory.mktemp("sink"), replicas=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with live_cluster(tmp_path_factory.mktemp("tables"), replicas=1, datatype="sql") as cluster:
        yield cluster


@pytest.fixture
def db(cluster: LocalCluster) -> Iterator[BlockingDatabase]:
    with connect(servers(cluster)) as db:
        yield db


def write(rows: DataFrame, cluster: LocalCluster, **options: Any) -> None:
    options = {"servers": servers(cluster), **options}
    rows.write.format("creek").options(**options).mode("append").save()


def last_line(error: Exception) -> str:
    return [line for line in str(error).splitlines() if line.startswith("creekdb.")][-1]


def test_a_repeated_batch_is_written_once(
    spark: SparkSession, cluster: LocalCluster, db: BlockingDatabase
) -> None:
    rows = spark.range(400).selectExpr("concat('sum', id % 4) AS key", "id AS amount")
    for _ in range(2):
        write(rows, cluster, operation="increment", sink="sums", batchId=1)
    assert sum(value for _, value in db.strong.scan("sum")) == sum(range(400))
    write(rows, cluster, operation="increment", sink="sums", batchId=2)
    assert sum(value for _, value in db.strong.scan("sum")) == 2 * sum(range(400))


def test_rows_replace_the_rows_of_a_table(spark: SparkSession, tables: LocalCluster) -> None:
    with connect(servers(tables)) as db:
        db.strong.sql("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT")
        names = spark.range(50).selectExpr("id", "concat('n', id) AS name")
        write(names, tables, table="item")
        write(names.selectExpr("id", "upper(name) AS name"), tables, table="item", mode="bulk")
        found = db.strong.query("SELECT id, name FROM item ORDER BY id")["rows"]
        assert found == tuple((number, f"N{number}") for number in range(50))

        with pytest.raises(PySparkException, match=r"UNIQUE.*\(row 1 of the batch: "):
            write(names.where("id = 3"), tables, table="item", mode="insert")
        with pytest.raises(PySparkException) as raised:
            write(names.withColumnRenamed("name", "nam"), tables, table="item")
        assert "unknown column of table 'item' 'nam'" in last_line(raised.value)


def test_rejected_rows_are_written_to_files(
    spark: SparkSession, cluster: LocalCluster, db: BlockingDatabase, tmp_path: Path
) -> None:
    db.strong.put("letter", "text")
    rows = spark.sql(
        "SELECT * FROM VALUES ('fine', 1L), ('letter', 2L), (CAST(NULL AS STRING), 3L) "
        "AS t(key, amount)"
    ).coalesce(1)
    with pytest.raises(PySparkException) as raised:
        write(rows, cluster, operation="increment")
    assert "must be a string, not null (row 3: (None, 3))" in last_line(raised.value)
    assert db.strong.get("fine") is None

    write(rows, cluster, operation="increment", deadLetter=tmp_path / "dead", sink="d", batchId=0)
    assert db.strong.get("fine") == 1
    (file,) = (tmp_path / "dead").glob("*.jsonl")
    letters = [json.loads(line) for line in file.read_text().splitlines()]
    assert file.name == "d-0-0.jsonl"
    assert [each["row"] for each in letters] == [
        {"key": None, "amount": 3},
        {"key": "letter", "amount": 2},
    ]
    assert "can only add to an int" in letters[1]["error"]


def test_a_stream_continues_after_a_rejected_row_and_keeps_to_its_query(
    spark: SparkSession, cluster: LocalCluster, db: BlockingDatabase, tmp_path: Path
) -> None:
    rows = spark.range(10).selectExpr("concat('stream', id) AS key", "1L AS amount").coalesce(1)
    rows.write.parquet(str(tmp_path / "files"))

    def run(checkpoint: str) -> None:
        files = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "files"))
        query = files.writeStream.format("creek").options(
            servers=servers(cluster), operation="increment", sink="stream"
        )
        query = query.option("checkpointLocation", str(tmp_path / checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()

    db.strong.put("stream7", "text")
    with pytest.raises(StreamingQueryException, match=r"row 8 of the batch: \('stream7', 1\)"):
        run("checkpoint")
    assert db.strong.get("stream0") is None
    db.strong.put("stream7", 0)
    run("checkpoint")
    run("checkpoint")
    assert dict(db.strong.scan("stream")) == {f"stream{number}": 1 for number in range(10)}
    with pytest.raises(StreamingQueryException, match="choose another name for the sink"):
        run("another")
