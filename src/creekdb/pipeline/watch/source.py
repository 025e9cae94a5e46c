"""Spark source `creek-feeds`: the change feeds of all replicas of a cluster, as one stream.

A row is a change as one replica reports it, with the columns of `tables.FEED`. The offset of the
stream is an index per replica, so each feed continues where it was. With `rows=own`, a replica
contributes only the changes of the requests that it issued. Together, the replicas contribute every
change once, with `changed` and the commit time, which only the issuing replica can determine. With
`rows=all`, every replica contributes every change, for comparison.

Rules:

- A replica that does not respond is awaited for `patience` seconds. Then the other replicas supply
  the changes of its requests, without `changed` and without a commit time. With `rows=all`, these
  changes are missing for that replica. A server that has never responded is awaited without a
  limit, because the number of its replica is unknown.
- The same holds for changes that a replica does not keep, since it installed a snapshot.
- Rows without an operation name the ranges that a replica contributed completely. The last one of
  a part ends where the part ends, and is empty if the replica lacks the changes before it.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from creekdb.client.errors import NotDone
from creekdb.errors import ChangesExpired, ForeignPosition, PositionInFuture, UsageError
from creekdb.execution.keys import collation_key
from creekdb.pipeline.spark.frames import spark_schema
from creekdb.pipeline.watch import feeds
from creekdb.pipeline.watch.feeds import ClusterAccess, FeedEnd, FeedEnds
from creekdb.pipeline.watch.tables import FEED
from creekdb.wire.changes import EARLIEST as EARLIEST_INDEX
from creekdb.wire.changes import LATEST as LATEST_INDEX
from creekdb.wire.changes import Change, encode_changes, parse_start
from creekdb.wire.json_values import to_json
from creekdb.wire.reject_reason import RejectReason

SOURCE_NAME: Final = "creek-feeds"
OWN_ROWS: Final = "own"
ALL_ROWS: Final = "all"
DEFAULT_PATIENCE_S: Final = 10.0
CHANGES_PER_TRIGGER_MAX: Final = 50_000
"""Default upper bound for the indices of each replica in one batch."""
RETRY_PAUSE_S: Final = 0.2

_Result = TypeVar("_Result")


class FeedOptions(NamedTuple):
    """Options of the source."""

    access: ClusterAccess
    rows: str = OWN_ROWS
    starting_index: int = EARLIEST_INDEX
    patience_s: float = DEFAULT_PATIENCE_S
    changes_max: int = CHANGES_PER_TRIGGER_MAX
    has_bodies: bool = False


def source_options(options: FeedOptions, token_file: Path | None = None) -> dict[str, str]:
    """Return the options of the source as texts. The token stays in its file."""
    access = options.access
    return {
        "servers": ",".join(access.servers),
        "rows": options.rows,
        "startingIndex": str(options.starting_index or "earliest"),
        "patience": str(options.patience_s),
        "maxChangesPerTrigger": str(options.changes_max),
        "bodies": str(options.has_bodies).lower(),
        **({"authority": access.authority} if access.authority else {}),
        **({"tokenFile": str(token_file)} if token_file is not None else {}),
    }


def parse_options(options: Mapping[str, str]) -> FeedOptions:
    if not options.get("servers"):
        raise UsageError("cannot read the feeds: the option 'servers' is missing; name HOST:PORT,…")
    starting = options.get("startingIndex", "earliest")
    index = LATEST_INDEX if starting == str(LATEST_INDEX) else parse_start(starting)
    if index is None:
        raise UsageError(
            f"cannot read the feeds: startingIndex is '{starting}'; use earliest, latest or an "
            "index of at least 1"
        )
    rows = options.get("rows", OWN_ROWS)
    if rows not in (OWN_ROWS, ALL_ROWS):
        raise UsageError(f"cannot read the feeds: rows is '{rows}'; use {OWN_ROWS} or {ALL_ROWS}")
    return FeedOptions(
        ClusterAccess(
            feeds.parse_servers(options["servers"]),
            read_token(options.get("tokenFile")),
            options.get("authority"),
        ),
        rows,
        index,
        float(options.get("patience", DEFAULT_PATIENCE_S)),
        int(options.get("maxChangesPerTrigger", CHANGES_PER_TRIGGER_MAX)),
        options.get("bodies") == "true",
    )


def read_token(file: str | Path | None) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip() if file else ""
    except OSError as error:
        raise UsageError(f"cannot read the token file {file}: {error.strerror}") from error


class FeedPartition(InputPartition):
    """Changes of one replica from `start` to before `stop`."""

    def __init__(self, server: str, replica: int, cluster: str, start: int, stop: int) -> None:
        super().__init__(server)
        self.server, self.replica, self.cluster = server, replica, cluster
        self.start, self.stop = start, stop


class ReplicaFeedsSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return SOURCE_NAME

    def schema(self) -> StructType:
        return spark_schema(FEED)

    def streamReader(self, schema: StructType) -> "ReplicaFeedsReader":  # noqa: N802 - Spark's
        return ReplicaFeedsReader(parse_options(dict(self.options)))


class ReplicaFeedsReader(DataSourceStreamReader):
    """Offsets are `{"cluster": identity, "next": {server: index}, "replicas": {server: number}}`.

    A server that is not in an offset has no replica number yet, since it never responded.

    Spark does not keep the first offset of a query, so it must not depend on the state of the
    cluster. It is *open*: `next` is empty. The end of the first batch has the field `first`, which
    is the index at which the stream begins.
    """

    def __init__(
        self,
        options: FeedOptions,
        clock: Callable[[], float] = time.monotonic,
        find_ends: Callable[[ClusterAccess], Awaitable[FeedEnds]] = feeds.feed_ends,
    ) -> None:
        self._options = options
        self._clock = clock
        self._find_ends = find_ends
        self._silent_since: dict[str, float] = {}
        """Time of the first failed attempt, by server."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"cluster": "", "next": {}, "replicas": {}}

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        start = start or self.initialOffset()
        found = _run(self._find_ends(self._options.access))
        ends = {server: end for server, end in found.items() if isinstance(end, FeedEnd)}
        if start["next"]:
            return self._end_after(start, ends)
        if not ends:
            return start  # the stream begins when a replica responds
        first = self._first_index(ends)
        begin = dict.fromkeys(self._options.access.servers, first)
        cluster = next(iter(ends.values())).cluster
        return self._end_after({"cluster": cluster, "next": begin}, ends) | {"first": first}

    def _first_index(self, ends: Mapping[str, FeedEnd]) -> int:
        """Return the index at which the stream begins."""
        index = self._options.starting_index
        if index == EARLIEST_INDEX:
            return min(_run(feeds.first_indices(self._options.access)).values(), default=1)
        if index == LATEST_INDEX:
            return max(end.end for end in ends.values())
        return index

    def _end_after(self, start: dict[str, Any], ends: Mapping[str, FeedEnd]) -> dict[str, Any]:
        """Return the end of the batch that begins at `start`."""
        for end in ends.values():
            if end.cluster != start["cluster"]:
                raise ForeignPosition(
                    f"the checkpoint belongs to cluster {start['cluster']}, and the servers to "
                    f"{end.cluster}; name another output directory"
                )
        numbers = start.get("replicas", {}) | {server: end.replica for server, end in ends.items()}
        return {
            "cluster": start["cluster"],
            "next": self._next_indices(start["next"], ends, numbers),
            "replicas": numbers,
        }

    def _next_indices(
        self, begin: Mapping[str, int], ends: Mapping[str, FeedEnd], numbers: Mapping[str, int]
    ) -> dict[str, int]:
        now = self._clock()
        newest = max((end.end for end in ends.values()), default=0)
        following: dict[str, int] = {}
        for server in self._options.access.servers:
            start = begin.get(server, min(begin.values()))
            if server in ends:
                self._silent_since.pop(server, None)
                end = ends[server].end
            elif server not in numbers:
                end = start
            else:
                silent_s = now - self._silent_since.setdefault(server, now)
                end = newest if silent_s >= self._options.patience_s else start
            following[server] = max(start, min(end, start + self._options.changes_max))
        return following

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[FeedPartition]:
        begin = start["next"]
        # Checkpoints of earlier versions lack the field.
        first = min(begin.values()) if begin else end.get("first", 1)
        return [
            FeedPartition(
                server,
                end["replicas"].get(server, -1),
                end["cluster"],
                begin.get(server, first),
                stop,
            )
            for server, stop in end["next"].items()
            if stop > begin.get(server, first)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FeedPartition)
        yield from _run(_collect(read_partition(self._options, partition)))


def _run(work: Any) -> Any:
    return asyncio.run(work)


async def _collect(items: AsyncIterator[_Result]) -> list[_Result]:
    return [item async for item in items]


async def read_partition(
    options: FeedOptions, partition: FeedPartition
) -> AsyncIterator[pa.RecordBatch]:
    """Iterate over the rows of a partition, in index order."""
    start = partition.start
    deadline = time.monotonic() + options.patience_s
    while start < partition.stop:
        try:
            async for end, changes in _read_from(options, partition.server, partition, start):
                yield _batch(_selected(options, changes, partition), partition.replica, options)
                yield _range_row(partition.replica, start, end)
                start = end
        except ChangesExpired as error:
            first = min(max(error.first_index, start + 1), partition.stop)
            async for batch in _substituted(options, partition, start, first):
                yield batch
            start = first
        except (PositionInFuture, *feeds.UNREACHABLE):
            if time.monotonic() < deadline:
                await asyncio.sleep(RETRY_PAUSE_S)
                continue
            async for batch in _substituted(options, partition, start, partition.stop):
                yield batch
            start = partition.stop
    yield _range_row(partition.replica, partition.stop, partition.stop)


async def _read_from(
    options: FeedOptions, server: str, partition: FeedPartition, start: int
) -> AsyncIterator[tuple[int, list[Change]]]:
    address = ClusterAccess((server,)).addresses[0]
    async with feeds.open_feed(options.access, address) as feed:
        async for end, changes in feed.read(start, partition.stop, partition.cluster):
            yield end, changes


async def _substituted(
    options: FeedOptions, partition: FeedPartition, start: int, stop: int
) -> AsyncIterator[pa.RecordBatch]:
    """Iterate over changes of the replica's requests that other replicas supply."""
    if options.rows == ALL_ROWS or partition.replica < 0:
        return
    errors: list[str] = []
    for server in options.access.servers:
        if server == partition.server:
            continue
        other = FeedPartition(server, partition.replica, partition.cluster, start, stop)
        try:
            parts = await _collect(_read_from(options, server, other, start))
        except (ChangesExpired, PositionInFuture, *feeds.UNREACHABLE) as error:
            errors.append(f"{server}: {error}")
            continue
        for _, changes in parts:
            unknown = [
                msgspec.structs.replace(change, changed=None, commit_timestamp=0)
                for change in _selected(options, changes, partition)
            ]
            yield _batch(unknown, partition.replica, options)
        yield _range_row(partition.replica, start, stop)
        return
    raise NotDone(
        RejectReason.UNREACHABLE,
        f"no replica supplies the changes {start} to {stop - 1} of replica {partition.replica}: "
        f"{'; '.join(errors)}",
    )


def _selected(
    options: FeedOptions, changes: Sequence[Change], partition: FeedPartition
) -> Sequence[Change]:
    if options.rows == ALL_ROWS:
        return changes
    return [change for change in changes if change.replica == partition.replica]


# --- rows ----------------------------------------------------------------------------------------

_json: Final = msgspec.json.Encoder().encode


def change_digest(change: Change) -> int:
    """Return a hash of the fields that are equal at all replicas, as a signed integer."""
    common = msgspec.structs.replace(
        change,
        writes=tuple(sorted(change.writes, key=lambda item: collation_key(item[0]))),
        deleted=tuple(sorted(change.deleted, key=collation_key)),
        changed=None,
        before=None,
        commit_timestamp=0,
    )
    encoded = encode_changes((common,))
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), signed=True)


def _batch(changes: Sequence[Change], replica: int, options: FeedOptions) -> pa.RecordBatch:
    columns: dict[str, Sequence[Any]] = {
        "replica": [replica] * len(changes),
        "index": [each.index for each in changes],
        "start": [None] * len(changes),
        "origin": [each.id.replica for each in changes],
        "event": [each.id.event for each in changes],
        "timestamp_us": [each.timestamp for each in changes],
        "committed_us": [each.commit_timestamp or None for each in changes],
        "operation": [each.operation for each in changes],
        "strong": [each.strong for each in changes],
        "changed": [each.changed for each in changes],
        "error": [each.error for each in changes],
        "client": [each.client for each in changes],
        "number": [each.number for each in changes],
        "keys": [
            [_json(to_json(key)).decode() for key in (*(k for k, _ in each.writes), *each.deleted)]
            for each in changes
        ],
        "digest": [change_digest(each) if options.rows == ALL_ROWS else None for each in changes],
        "body": [encode_changes((each,)) if options.has_bodies else None for each in changes],
    }
    return feed_batch(columns)


def _range_row(replica: int, start: int, stop: int) -> pa.RecordBatch:
    row: dict[str, Sequence[Any]] = {name: [None] for name in FEED.names}
    return feed_batch(row | {"replica": [replica], "start": [start], "index": [stop]})


def feed_batch(columns: Mapping[str, Sequence[Any]]) -> pa.RecordBatch:
    """Return rows of FEED as Spark expects them: without descriptions of the columns."""
    schema = FEED_BATCH
    return pa.record_batch([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


FEED_BATCH: Final = pa.schema([field.remove_metadata() for field in FEED])
