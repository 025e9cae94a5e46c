"""Readers of the Spark source on live clusters, driven as Spark does but without a Java process."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from creekdb.client import Database
from creekdb.errors import CreekError
from creekdb.pipeline.source.data_source import CreekDataSource
from creekdb.pipeline.watch import feeds
from creekdb.pipeline.watch.feeds import ClusterAccess
from creekdb.server.runtime.config import SecurityConfig
from creekdb.server.security.certificates import issue, new_authority
from pyspark_creek import DefaultSource
from tests.cluster.in_process_cluster import InProcessCluster, running_cluster

KEPT: dict[str, Any] = {"keep_changes": "1h"}
BEFORE: dict[str, Any] = {**KEPT, "before_images": True}
SERIALIZER: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
_Result = TypeVar("_Result")
Rows = list[dict[str, Any]]


def source(cluster: InProcessCluster, **options: Any) -> CreekDataSource:
    given = {"servers": ",".join(cluster.addresses()), "timeout": 2, "partitions": 2, **options}
    # Options arrive in lower case.
    return DefaultSource({name.lower(): str(value) for name, value in given.items()})


def stream(cluster: InProcessCluster, **options: Any) -> CreekDataSource:
    return source(cluster, readChangeFeed="true", **options)


def read_tasks(reader: DataSourceReader | DataSourceStreamReader, partitions: Any) -> Rows:
    """Read all partitions as tasks do: with copies, in reverse order."""
    batches: list[pa.RecordBatch] = []
    for partition in reversed(partitions):
        task, part = SERIALIZER.loads(SERIALIZER.dumps((reader, partition)))
        batches += task.read(part)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row.get("_commit_index", 0))


def read_batch(data_source: CreekDataSource, schema: StructType | None = None) -> Rows:
    reader = data_source.reader(schema or data_source.schema())
    return read_tasks(reader, reader.partitions())


@contextmanager
def closing_stream(data_source: CreekDataSource) -> Iterator[Any]:
    reader = data_source.streamReader(data_source.schema())
    try:
        yield reader
    finally:
        reader.stop()


class Query:
    """Streaming query: its checkpoint survives the reader."""

    def __init__(self, data_source: CreekDataSource) -> None:
        self.data_source = data_source
        self.offsets: list[dict[str, Any]] = []
        self.batches: list[Rows] = []

    def run(self, is_last_read: bool = True) -> Rows:
        """Run up to the last commit; return the rows. The last batch may fail before it is read."""
        with closing_stream(self.data_source) as reader:
            reader.prepareForTriggerAvailableNow()
            limit = reader.getDefaultReadLimit()
            rows: Rows = []
            while True:
                start = self.offsets[-1] if self.offsets else reader.initialOffset()
                end = reader.latestOffset(start, limit)
                if end == start:
                    return rows
                self.offsets.append(end)
                if not is_last_read:
                    return rows
                self.batches.append(read_tasks(reader, reader.partitions(start, end)))
                reader.commit(end)
                rows += self.batches[-1]

    def repeat_first(self) -> Rows:
        """Read the first batch again, as after a failure."""
        with closing_stream(self.data_source) as reader:
            initial = reader.initialOffset()
            return read_tasks(reader, reader.partitions(initial, self.offsets[0]))


async def in_thread(work: Callable[..., _Result], *arguments: Any) -> _Result:
    return await asyncio.to_thread(work, *arguments)


async def put(db: Database, **values: Any) -> None:
    for key, value in values.items():
        await db.strong.put(key, value)


def brief(rows: Rows) -> list[tuple[Any, ...]]:
    return [(row["key"], row["value"], row["_change_type"]) for row in rows]


async def failure(work: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(CreekError) as raised:
        await in_thread(work, *arguments)
    assert "\n" not in str(raised.value)
    return str(raised.value)


async def test_a_table_is_read_and_followed_with_its_columns(tmp_path: Path) -> None:
    settings = {**BEFORE, "datatype": "sql"}
    async with running_cluster(tmp_path, 1, **settings) as cluster, cluster.client() as db:
        sql = db.strong.sql
        await sql("CREATE TABLE item(name TEXT PRIMARY KEY, price INTEGER NOT NULL) STRICT")
        await sql("INSERT INTO item VALUES ('a', 1), ('b', 2)")
        query = Query(stream(cluster, table="item"))
        first = await in_thread(query.run)
        await sql("ALTER TABLE item ADD COLUMN note TEXT DEFAULT '-'")
        await sql("UPDATE item SET price = 3 WHERE name = 'a'")
        await sql("DELETE FROM item WHERE name = 'b'")
        second = await in_thread(query.run)
        state = await in_thread(read_batch, source(cluster, table="item"))
        unknown = await failure(source(cluster, table="items").schema)
        none = await failure(source(cluster, table="items", prefix="a").schema)

    columns = ("name", "price", "_change_type")
    assert sorted(tuple(row[each] for each in columns) for row in first) == [
        ("a", 1, "insert"),
        ("b", 2, "insert"),
    ]
    assert [tuple(row[each] for each in (*columns, "note")) for row in second] == [
        ("a", 3, "update_postimage", "-"),
        ("b", None, "delete", None),
    ]
    assert state == [{"name": "a", "price": 3, "note": "-"}]
    assert "option table: " in unknown
    assert "did you mean 'item'?" in unknown
    assert "options table and prefix exclude each other" in none


async def test_an_earlier_state_of_a_table_has_no_rows_of_others(tmp_path: Path) -> None:
    """A batch with `asOf`, and the snapshot of a stream that is restored after its lease."""
    settings = {**BEFORE, "datatype": "sql"}
    async with running_cluster(tmp_path, 1, **settings) as cluster, cluster.client() as db:
        sql = db.strong.sql
        for table in ("item", "other"):
            await sql(f"CREATE TABLE {table}(name TEXT PRIMARY KEY, price INTEGER) STRICT")
            await sql(f"INSERT INTO {table} VALUES ('a', 1), ('b', 2), ('{table}', 3)")
        query = Query(stream(cluster, table="item", lease=0.05))
        await in_thread(query.run, False)
        index = query.offsets[0]["index"] - 1
        await asyncio.sleep(0.2)
        for table in ("item", "other"):
            await sql(f"UPDATE {table} SET price = 10 WHERE name = 'a'")
            await sql(f"DELETE FROM {table} WHERE name = 'b'")
        rows = await in_thread(read_batch, source(cluster, table="item", asOf=index))
        query.data_source = stream(cluster, table="item")  # a lease that a slow machine keeps
        restored = await in_thread(query.repeat_first)

    for found in (rows, restored):
        assert sorted((row["name"], row["price"]) for row in found) == [
            ("a", 1),
            ("b", 2),
            ("item", 3),
        ]


async def test_a_stream_resumes_at_another_replica(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **KEPT) as cluster, cluster.client(1) as db:
        await put(db, a=1)
        query = Query(stream(cluster))
        await in_thread(query.run)
        await put(db, b=2)
        await cluster.stop(0)
        rows = await in_thread(query.run)

    assert brief(rows) == [("b", "2", "update_postimage")]
    assert query.offsets[-1]["snapshot"] is False


async def test_a_limit_never_splits_a_commit(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        for first in (0, 3, 6):
            await db.batch([("put", f"k{first + each}", each) for each in range(3)], strong=True)
        await put(db, last=1)
        query = Query(stream(cluster, startingIndex="earliest", maxRowsPerTrigger=4))
        await in_thread(query.run)
        complete = Query(stream(cluster, startingIndex="earliest"))
        await in_thread(complete.run)

    assert [len(batch) for batch in query.batches] == [0, 6, 4]
    assert [len(batch) for batch in complete.batches] == [0, 10]
    assert [row for batch in query.batches for row in batch] == complete.batches[1]


async def test_the_start_of_a_stream_is_kept_in_its_checkpoint(tmp_path: Path) -> None:
    """A batch that fails before it is complete has the same rows when it is repeated."""
    async with running_cluster(tmp_path, 1, **BEFORE) as cluster, cluster.client() as db:
        await put(db, a=1, b=2)
        snapshot, latest = Query(stream(cluster)), Query(stream(cluster, startingIndex="latest"))
        for query in (snapshot, latest):
            await in_thread(query.run, False)
        await put(db, a=10, c=3)
        await db.strong.delete("b")
        repeated = await in_thread(snapshot.repeat_first)
        later = await in_thread(snapshot.run)
        only_new = await in_thread(latest.run)
        await cluster.stop(0)  # the snapshot is gone
        await cluster.start(0)
        restored = await in_thread(snapshot.repeat_first)

    assert sorted(brief(repeated)) == [("a", "1", "insert"), ("b", "2", "insert")]
    assert sorted(brief(restored)) == sorted(brief(repeated))
    assert brief(later) == brief(only_new)
    assert [row["key"] for row in later] == ["a", "c", "b"]


async def test_a_snapshot_that_ended_cannot_be_restored_without_before_images(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await put(db, a=1)
        query = Query(stream(cluster, lease=0.05))
        await in_thread(query.run, False)
        await asyncio.sleep(0.3)
        unchanged = await in_thread(query.repeat_first)
        await asyncio.sleep(0.3)
        await put(db, a=2)
        message = await failure(query.repeat_first)
        as_of = await failure(read_batch, source(cluster, asOf=query.offsets[0]["index"] - 1))

    assert brief(unchanged) == [("a", "1", "insert")]
    assert "ended before its batch was complete" in message
    assert "--before-images" in message
    assert "omit asOf, or start them with --before-images" in as_of


async def test_no_image_is_older_than_its_index(tmp_path: Path) -> None:
    """A replica that lags opens no snapshot for a later index."""
    async with running_cluster(tmp_path, **BEFORE) as cluster, cluster.client(1) as db:
        await put(db, a=1, b=2)
        await cluster.until_quiescent()
        restore = [cluster.drop_messages(sender, 0) for sender in (1, 2)]
        await put(db, a=10)
        others = ",".join(cluster.addresses(1, 2))
        query = Query(stream(cluster, servers=others, lease=0.05))
        await in_thread(query.run, False)
        index = query.offsets[0]["index"] - 1
        await asyncio.sleep(0.2)  # the lease of the snapshot ends
        query.data_source = stream(cluster)
        rows = await in_thread(query.repeat_first)
        as_of = await in_thread(read_batch, source(cluster, asOf=index))
        lagging = source(cluster, servers=cluster.addresses(0)[0], timeout=0.3, asOf=index)
        message = await failure(read_batch, lagging)
        for each in restore:
            each()

    assert {row["key"]: row["value"] for row in rows} == {"a": "10", "b": "2"}
    assert {row["key"]: row["value"] for row in as_of} == {"a": "10", "b": "2"}
    assert message.startswith(f"option asOf is '{index}': the last commit is {index - 1}, also")


async def test_a_batch_waits_for_the_index_and_does_not_pass_it(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **BEFORE) as cluster, cluster.client() as db:
        await put(db, a=1, b=2)
        last = [change async for change in db.changes("earliest", follow=False)][-1].index
        reading = asyncio.create_task(in_thread(read_batch, source(cluster, asOf=last + 1)))
        await asyncio.sleep(0.2)
        await put(db, a=5, b=6)
        rows = await reading
        future = await failure(read_batch, source(cluster, asOf=last + 100))

    assert {row["key"]: row["value"] for row in rows} == {"a": "5", "b": "2"}
    assert future.startswith(f"option asOf is '{last + 100}': the last commit is {last + 2}")


async def test_a_checkpoint_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path / "one", 1, **KEPT) as one,
        running_cluster(tmp_path / "two", 1, **KEPT) as two,
    ):
        query = Query(stream(one, startingIndex="latest"))
        await in_thread(query.run)
        query.data_source = stream(two, startingIndex="latest")
        message = await failure(query.run)

    assert "option servers names another cluster than the checkpoint" in message
    assert len(query.offsets) == 1


async def test_a_cluster_that_keeps_no_changes_is_read_but_not_followed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as db:
        await put(db, a=1)
        rows = await in_thread(read_batch, source(cluster))
        message = await failure(Query(stream(cluster)).run)

    assert rows == [{"key": "a", "value": "1"}]
    assert "start its replicas with --keep-changes" in message


async def test_a_wrong_token_names_its_option(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("right\n")
    (tmp_path / "other").write_text("wrong\n")
    settings = {**KEPT, "security": SecurityConfig(tokens={"spark": "right"})}
    async with running_cluster(tmp_path / "cluster", 1, **settings) as cluster:
        rows = await in_thread(read_batch, source(cluster, tokenFile=tmp_path / "token"))
        message = await failure(read_batch, source(cluster, tokenFile=tmp_path / "other"))

    assert rows == []
    assert message.startswith("option tokenFile: ")
    assert "the token is missing or unknown" in message


async def test_a_cluster_with_tls_requires_the_option_authority(tmp_path: Path) -> None:
    trusted, other = new_authority("ours", 1), new_authority("another", 1)
    pair = issue(trusted, "replica", ("127.0.0.1",), 1)
    files = {
        "trusted": trusted.certificate_pem(),
        "other": other.certificate_pem(),
        "certificate": pair.certificate_pem(),
        "key": pair.key_pem(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    paths = {name: str(tmp_path / name) for name in files}
    security = SecurityConfig(
        authority=paths["trusted"], certificate=paths["certificate"], key=paths["key"]
    )
    settings = {**KEPT, "security": security}
    async with running_cluster(tmp_path / "cluster", 1, **settings) as cluster:
        trusting = {"authority": paths["trusted"]}
        async with cluster.client(0, **trusting) as db:
            await put(db, a=1)
        changes = await in_thread(Query(stream(cluster, startingIndex=1, **trusting)).run)
        access = ClusterAccess(tuple(cluster.addresses()), authority=paths["trusted"])
        ends = await feeds.ready_ends(access)
        messages = [
            await failure(read_batch, source(cluster, **options))
            for options in ({}, {"authority": paths["other"]})
        ]

    assert brief(changes) == [("a", "1", "update_postimage")]
    assert [end.replica for end in ends.values()] == [0]
    for message in messages:
        assert message.startswith("option servers: ")


async def test_mistakes_name_the_option(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await put(db, a=1)
        wrong = StructType([StructField("key", LongType())])
        messages = [
            await failure(Query(stream(cluster, startingIndex=99)).run),
            await failure(read_batch, source(cluster, servers="127.0.0.1:1", timeout=0.1)),
            await failure(read_batch, source(cluster), wrong),
            await failure(source(cluster, maxRowsPerTrigger=5).schema),
        ]

    for part, message in zip(
        (
            "option startingIndex is '99': change 99 does not exist yet",
            "option servers: no replica can be reached",
            "the schema of the query has the column 'key' of type bigint, and its type is string",
            "option maxRowsPerTrigger is for streams of changes: set readChangeFeed to true",
        ),
        messages,
        strict=True,
    ):
        assert part in message


async def test_spark_without_limits_reads_all_that_there_is(tmp_path: Path) -> None:
    """Spark before 4.2 passes neither a start nor a limit."""
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await put(db, a=1)
        options = stream(cluster, startingIndex=1)

        def read_ends() -> tuple[Any, Any, Any]:
            with closing_stream(options) as reader:
                end = reader.latestOffset()
                limit = reader.getDefaultReadLimit()
                return limit, end, reader.latestOffset(end, limit)

        limit, end, same = await in_thread(read_ends)

    assert limit == ReadAllAvailable()
    assert end["index"] == same["index"] > 1
