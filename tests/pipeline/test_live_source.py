"""`format("creek")` on a live cluster: batches, streams, restarts, and the loss of a replica."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from creekdb.cli import main
from creekdb.client import BlockingDatabase, connect
from creekdb.load.local_cluster import LocalCluster
from tests.docs.pages import files
from tests.pipeline.live_clusters import live_cluster, servers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with live_cluster(tmp_path_factory.mktemp("live"), "--before-images") as cluster:
        yield cluster


@pytest.fixture
def db(cluster: LocalCluster) -> Iterator[BlockingDatabase]:
    with connect(servers(cluster)) as db:
        yield db


def read(spark: SparkSession, cluster: LocalCluster, **options: Any) -> DataFrame:
    options = {"servers": servers(cluster), "partitions": 2, "timeout": 5, **options}
    return spark.read.format("creek").options(**options).load()


def follow(spark: SparkSession, cluster: LocalCluster, out: Path, **options: Any) -> StreamingQuery:
    """Run a stream up to the last commit, with its checkpoint in `out`."""
    options = {"servers": servers(cluster), "readChangeFeed": True, "partitions": 2, **options}
    changes = spark.readStream.format("creek").options(**options).load()
    writer = changes.writeStream.format("parquet").option("path", str(out / "rows"))
    query = writer.option("checkpointLocation", str(out / "checkpoint"))
    started = query.trigger(availableNow=True).start()
    started.awaitTermination()
    return started


def state(frame: DataFrame) -> dict[str, str]:
    return {row.key: row.value for row in frame.collect()}


def last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.startswith("creekdb.")]
    return lines[-1]


def test_a_frame_is_one_image_at_the_requested_index(
    spark: SparkSession, cluster: LocalCluster, db: BlockingDatabase
) -> None:
    db.batch([("put", f"as-of-{number:03}", number) for number in range(100)], strong=True)
    index = db.changes("earliest", "as-of", follow=False)
    before = [change.index for change in index][-1]
    frame = read(spark, cluster, prefix="as-of")
    assert frame.count() == 100
    db.strong.put("as-of-000", {"later": [True, "ü"]})
    db.strong.delete("as-of-001")
    db.strong.put("as-of-100", 100)

    then = {row.key: row.value for row in frame.collect()}  # the same image, not a new one
    restored = {
        row.key: row.value for row in read(spark, cluster, asOf=before, prefix="as-of").collect()
    }
    now = {row.key: row.value for row in read(spark, cluster, prefix="as-of").collect()}

    assert then == restored == {f"as-of-{number:03}": str(number) for number in range(100)}
    assert now["as-of-000"] == '{"later":[true,"ü"]}'
    assert (len(now), now["as-of-100"]) == (100, "100")


def test_a_stream_continues_after_its_snapshot_and_after_a_restart(
    spark: SparkSession, cluster: LocalCluster, db: BlockingDatabase, tmp_path: Path
) -> None:
    db.batch([("put", f"resume-{number}", number) for number in range(10)], strong=True)
    follow(spark, cluster, tmp_path, prefix="resume")
    db.strong.put("resume-0", "changed")
    db.weak.put("resume-new", 1)
    db.strong.delete("resume-1")
    cluster.kill(0)  # the replica that served the snapshot
    try:
        query = follow(
            spark, cluster, tmp_path, prefix="resume", maxRowsPerTrigger=2, beforeImages=True
        )
        db.strong.put("resume-2", "after")
        follow(spark, cluster, tmp_path, prefix="resume")
    finally:
        cluster.start(0)

    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    snapshot = [row for row in rows if row._operation is None]
    changes = sorted((row for row in rows if row._operation), key=lambda row: row._commit_index)
    assert len(snapshot) == 10
    assert {row._change_type for row in snapshot} == {"insert"}
    assert [(row.key, row.value, row._change_type, row._operation) for row in changes] == [
        ("resume-0", "0", "update_preimage", "put"),
        ("resume-0", '"changed"', "update_postimage", "put"),
        ("resume-new", "1", "insert", "put"),
        ("resume-1", "1", "delete", "delete"),
        ("resume-2", '"after"', "update_postimage", "put"),
    ]
    assert [row._strong for row in changes] == [True, True, False, True, True]
    assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [2, 2]


def test_mistakes_are_one_line_that_names_the_option(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException) as raised:
        read(spark, cluster, servrs="x")
    assert "unknown option of a batch read 'servrs'" in last_line(raised.value)
    with pytest.raises(StreamingQueryException) as failed:
        follow(
            spark, cluster, tmp_path, servers=cluster.addresses[0], startingIndex=10**9, timeout=1
        )
    assert "option startingIndex is '1000000000': change 1000000000 does not exist yet" in (
        last_line(failed.value)
    )
    assert not list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))


def test_the_page_works_as_written(
    spark: SparkSession,
    cluster: LocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The programs of the page run in this process, where `getOrCreate` returns this session."""
    monkeypatch.chdir(tmp_path)
    programs = files("spark-live.md")
    assert set(programs) == {"state.py", "follow.py", "write.py"}
    adapted = {
        name: re.sub(r'(?<=SERVERS = )".*"', repr(servers(cluster)), text)
        .replace('"lamps"', repr(str(tmp_path / "lamps")))
        .replace('"checkpoint"', repr(str(tmp_path / "checkpoint")))
        .replace('.option("readChangeFeed"', '.option("prefix", "lamp").option("readChangeFeed"')
        for name, text in programs.items()
    }

    run_program(adapted["state.py"])
    assert "|lamp 8|true|" in capfd.readouterr().out
    run_program(adapted["follow.py"])
    assert re.search(r"\|\s*insert\|\s*10\|", capfd.readouterr().out)
    for _ in range(2):
        run_program(adapted["write.py"])
    with connect(servers(cluster)) as db:
        assert (db.strong.get("tea"), db.strong.get("ink")) == (2, 3)


def test_a_watch_and_an_audit_follow_the_cluster(
    spark: SparkSession,
    cluster: LocalCluster,
    db: BlockingDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The history has a batch, rows of a sink, and the loss of a replica."""
    monkeypatch.setattr(
        "creekdb.pipeline.spark.session.starting_session", lambda *_: nullcontext(lambda: spark)
    )
    db.batch([("put", f"audited-{number}", number) for number in range(3)])
    asyncio.run(apply_rows(cluster))
    changes = sum(1 for _ in db.changes("earliest", follow=False))
    watch, audit = tmp_path / "watch", tmp_path / "audit"
    following = ["--servers", servers(cluster), "--for", "1s"]

    assert main(["pipeline", "watch", *following, "--out", str(watch)]) == 0
    assert f"{changes} changes in {watch}; the page is" in capsys.readouterr().out
    assert "refresh" not in (watch / "watch.html").read_text().partition("<title>")[0]
    assert main(["pipeline", "verify", *following, "--datatype", "kv", str(audit)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[:-1]} == {"ok"}
    assert lines[-1].startswith(f"{changes} changes checked")
    assert lines[-1].endswith(": no violation")


async def apply_rows(cluster: LocalCluster) -> None:
    async with connect(servers(cluster)) as db:
        sink = db.sink("audited")
        staged = await sink.stage("increment", [("audited", 1), ("audited", 2)])
        await sink.apply(1, [staged])


def run_program(text: str) -> None:
    exec(compile(text, "page", "exec"), {"__name__": "__main__"})  # noqa: S102 - the page's own code
