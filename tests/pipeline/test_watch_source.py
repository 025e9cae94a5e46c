"""Feeds of all replicas as one stream: offsets, substitutes and errors."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from creekdb.errors import ChangesOff, ForeignPosition, UsageError
from creekdb.pipeline.watch import feeds
from creekdb.pipeline.watch.feeds import ClusterAccess, FeedEnd, FeedEnds
from creekdb.pipeline.watch.source import (
    ALL_ROWS,
    FeedOptions,
    FeedPartition,
    ReplicaFeedsReader,
    change_digest,
    parse_options,
    read_partition,
    source_options,
)
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.changes import LATEST, Change
from tests.cluster.in_process_cluster import InProcessCluster, running_cluster
from tests.unit.server.changes.test_readers import SMALL
from tests.unit.server.changes.test_readers import ReaderFixture as FeedFixture

SERVERS = ("a:1", "b:2")
ACCESS = ClusterAccess(SERVERS)


class ReaderFixture:
    """Reader whose replicas end at the given indices; None for one that does not respond."""

    def __init__(self, **options: Any) -> None:
        self.now_s = 0.0
        self.ends: dict[str, int | None] = dict.fromkeys(SERVERS, 1)
        self.cluster = "one"
        self.reader = ReplicaFeedsReader(
            FeedOptions(ACCESS, **{"starting_index": 1, **options}),
            lambda: self.now_s,
            self.find_ends,
        )

    def start(self) -> dict[str, Any]:
        """Return the end of the first batch, at index 1."""
        return self.reader.latestOffset(self.reader.initialOffset(), None)

    async def find_ends(self, _: ClusterAccess) -> FeedEnds:
        return {
            server: TimeoutError() if end is None else FeedEnd(number, self.cluster, end)
            for number, (server, end) in enumerate(self.ends.items())
        }


def test_each_replica_has_its_own_offset() -> None:
    fixture = ReaderFixture()
    start = fixture.reader.initialOffset()
    fixture.ends = {"a:1": 8, "b:2": 5}

    end = fixture.reader.latestOffset(start, None)

    assert end["next"] == {"a:1": 8, "b:2": 5}
    parts = fixture.reader.partitions(start, end)
    assert [(each.replica, each.start, each.stop) for each in parts] == [(0, 1, 8), (1, 1, 5)]


def test_a_stream_begins_where_its_first_batch_states() -> None:
    """Spark asks again for the first offset, which is not in its checkpoint."""
    fixture = ReaderFixture(starting_index=LATEST)
    fixture.ends = dict.fromkeys(SERVERS, None)
    silent = fixture.reader.initialOffset()
    assert fixture.reader.latestOffset(silent, None) == silent
    fixture.ends = {"a:1": 8, "b:2": 5}

    end = fixture.reader.latestOffset(silent, None)
    fixture.ends = {"a:1": 20, "b:2": 20}
    restarted = fixture.reader.initialOffset()

    assert restarted == silent
    assert (end["first"], end["next"]) == (8, {"a:1": 8, "b:2": 8})
    assert fixture.reader.partitions(restarted, end) == []
    following = fixture.reader.latestOffset(end, None)
    parts = fixture.reader.partitions(end, following)
    assert [(each.start, each.stop) for each in parts] == [(8, 20), (8, 20)]


def test_the_first_batch_of_a_release_without_open_offsets_is_read() -> None:
    fixture = ReaderFixture()
    end = {"cluster": "one", "next": {"a:1": 8, "b:2": 5}, "replicas": {"a:1": 0, "b:2": 1}}

    parts = fixture.reader.partitions(fixture.reader.initialOffset(), end)

    assert [(each.replica, each.start, each.stop) for each in parts] == [(0, 1, 8), (1, 1, 5)]


def test_a_server_that_never_responded_is_awaited_without_a_limit() -> None:
    """The requests that it issued are unknown, so no other replica can supply their changes."""
    fixture = ReaderFixture(patience_s=10.0)
    fixture.ends = {"a:1": 8, "b:2": None}
    first = fixture.reader.latestOffset(fixture.reader.initialOffset(), None)
    fixture.now_s = 20.0
    waiting = fixture.reader.latestOffset(first, None)
    fixture.ends = {"a:1": 8, "b:2": 8}
    after = fixture.reader.latestOffset(waiting, None)

    assert waiting["next"] == {"a:1": 8, "b:2": 1}
    (part,) = fixture.reader.partitions(waiting, after)
    assert (part.replica, part.start, part.stop) == (1, 1, 8)


def test_a_silent_replica_is_awaited_for_the_patience_only() -> None:
    fixture = ReaderFixture(patience_s=10.0)
    start = fixture.start()
    fixture.ends = {"a:1": 8, "b:2": None}

    waiting = fixture.reader.latestOffset(start, None)
    fixture.now_s = 10.0
    after = fixture.reader.latestOffset(waiting, None)

    assert waiting["next"] == {"a:1": 8, "b:2": 1}
    assert after["next"] == {"a:1": 8, "b:2": 8}


def test_a_batch_is_bounded() -> None:
    fixture = ReaderFixture(changes_max=100)
    start = fixture.start()
    fixture.ends = {"a:1": 5000, "b:2": 50}

    assert fixture.reader.latestOffset(start, None)["next"] == {"a:1": 101, "b:2": 50}


def test_a_replica_that_is_behind_moves_no_offset_back() -> None:
    fixture = ReaderFixture()
    start = fixture.start() | {"next": {"a:1": 9, "b:2": 9}}

    assert fixture.reader.latestOffset(start, None)["next"] == {"a:1": 9, "b:2": 9}


def test_another_cluster_is_an_error() -> None:
    fixture = ReaderFixture()
    start = fixture.start()
    fixture.cluster = "two"

    with pytest.raises(ForeignPosition, match="name another output directory"):
        fixture.reader.latestOffset(start, None)


def test_options_are_parsed_as_they_are_written() -> None:
    options = FeedOptions(ACCESS, ALL_ROWS, 4711, 2.5, 1000, has_bodies=True)

    assert parse_options(source_options(options)) == options


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"servers": ""}, "'servers' is missing"),
        ({"servers": "nowhere"}, "nowhere"),
        ({"servers": "a:1,b:2,a:1"}, "server a:1 is named twice"),
        ({"rows": "some"}, "rows is 'some'"),
        ({"startingIndex": "0"}, "startingIndex is '0'"),
        ({"tokenFile": "/no/such/file"}, "token file /no/such/file"),
    ],
)
def test_wrong_options_are_named(changed: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_options(source_options(FeedOptions(ACCESS)) | changed)


def test_the_digest_covers_what_replicas_agree_on() -> None:
    change = Change(1, Dot(0, 1), 5, "put", ("a", 1), False, None, None, None, (("a", 1),), ())
    own = replace(change, changed=True, commit_timestamp=9, before=())
    other = replace(change, writes=(("a", 2),))

    assert change_digest(own) == change_digest(change)
    assert change_digest(other) != change_digest(change)


async def read(cluster: InProcessCluster, replica: int, stop: int, **options: Any) -> list[Any]:
    servers = tuple(cluster.addresses())
    given = FeedOptions(ClusterAccess(servers), patience_s=0.0, **options)
    found = await feeds.ready_ends(given.access)
    partition = FeedPartition(
        servers[replica], replica, next(iter(found.values())).cluster, 1, stop
    )
    batches = [batch async for batch in read_partition(given, partition)]
    return [row for batch in batches for row in batch.to_pylist()]


async def all_ends(cluster: InProcessCluster) -> dict[str, FeedEnd]:
    """Return the ends of all replicas, once each has the identity of the cluster."""
    access = ClusterAccess(tuple(cluster.addresses()))
    while len(ends := await feeds.ready_ends(access)) < len(access.servers):
        await asyncio.sleep(0.05)
    return ends


async def test_the_feeds_of_all_replicas_have_every_change_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, keep_changes="1h") as cluster:
        for replica in range(3):
            async with cluster.client(replica) as db:
                for number in range(3):
                    await db.strong.put(f"k{replica}", number)
        await cluster.until_quiescent()
        ends = await all_ends(cluster)
        stop = min(end.end for end in ends.values())
        own = [await read(cluster, replica, stop) for replica in range(3)]
        everything = [await read(cluster, replica, stop, rows=ALL_ROWS) for replica in range(3)]
        await cluster.stop(2)
        substituted = await read(cluster, 2, stop)

    changes = [[row for row in rows if row["operation"] is not None] for rows in own]
    assert [len(rows) for rows in changes] == [3, 3, 3]
    assert {row["changed"] for rows in changes for row in rows} == {False}
    assert all(row["committed_us"] >= row["timestamp_us"] for rows in changes for row in rows)
    assert [rows[-1]["index"] for rows in own] == [stop] * 3
    digests = [{row["index"]: row["digest"] for row in rows} for rows in everything]
    assert digests[0] == digests[1] == digests[2]
    assert len(digests[0]) == 9 + 1
    # The rows of ranges differ if one of the two reads arrived in more parts.
    found = [row for row in substituted if row["operation"] is not None]
    assert [row["index"] for row in found] == [row["index"] for row in changes[2]]
    assert substituted[-1]["index"] == stop
    assert {row["changed"] for row in found} == {None}
    assert {row["committed_us"] for row in found} == {None}


async def test_a_change_that_exceeds_a_message_is_read_in_pieces(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    large = "x" * (3 * SMALL.part_bytes_max)
    fixture.commit("a", large, "b")
    feed = feeds.ReplicaFeed()
    fixture.connect(feed)  # type: ignore[arg-type]

    changes = [change async for _, part in feed.read(1, 4, "creek:1") for change in part]

    assert [change.index for change in changes] == [1, 2, 3]
    assert [dict(change.writes)["a"] for change in changes] == ["a", large, "b"]


async def test_servers_that_cannot_be_followed_are_named(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        address = cluster.addresses()[0]
        with pytest.raises(ChangesOff, match=f"cannot follow {address}.*--keep-changes"):
            await feeds.feed_ends(ClusterAccess((address,)))


def test_silent_servers_are_all_named() -> None:
    ends = asyncio.run(feeds.feed_ends(ClusterAccess(("127.0.0.1:1", "127.0.0.1:2"))))

    with pytest.raises(Exception, match=r"127\.0\.0\.1:1: Connection refused; 127\.0\.0\.1:2"):
        feeds.reachable(ends)
