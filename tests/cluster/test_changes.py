"""Change feed of a live cluster: complete, in order and resumable at any replica."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from creekdb.client import (
    Change,
    ChangePosition,
    ChangeStream,
    Database,
    NotDone,
    StagedChange,
    TableChange,
)
from creekdb.errors import (
    BadValue,
    ChangesExpired,
    ChangesOff,
    ForeignPosition,
    PositionInFuture,
    UsageError,
)
from creekdb.server.changes.gap_filling import GapFiller
from creekdb.server.changes.readers import ReaderLimits
from creekdb.server.runtime.server import ServerLimits
from creekdb.wire import messages as wire
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster
from tests.cluster.wire_client import wire_client

KEPT: dict[str, Any] = {"keep_changes": "1h"}
SHORT_FUTURE = ServerLimits(changes=ReaderLimits(future_wait_s=0.05))


async def take(stream: ChangeStream, count: int) -> list[Change]:
    async with asyncio.timeout(TIMEOUT_S):
        return [await anext(stream) for _ in range(count)]


async def all_changes(db: Database, start: Any = "earliest", prefix: Any = None) -> list[Change]:
    async with asyncio.timeout(TIMEOUT_S), db.changes(start, prefix, follow=False) as stream:
        return [change async for change in stream]


async def put(db: Database, *values: int, key: str = "a") -> None:
    for value in values:
        await db.strong.put(key, value)


async def test_a_follower_receives_every_change_with_its_writes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **KEPT) as cluster, cluster.client(0) as db:
        async with db.changes("earliest") as stream:
            await db.strong.put("a", 1)
            await db.weak.increment("a", 2)
            await db.strong.delete("a")
            first, second, third = await take(stream, 3)

        assert (first.operation, first.arguments, first.strong) == ("put", ("a", 1), True)
        assert first.writes == (("a", 1),)
        assert (second.operation, second.strong, second.value) == ("increment", False, 3)
        assert second.writes == (("a", 3),)
        assert (third.writes, third.deleted) == ((), ("a",))
        assert first.index < second.index < third.index
        assert (first.replica, first.changed) == (0, False)
        assert first.client
        assert first.number < second.number


async def test_all_replicas_have_the_same_changes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **KEPT) as cluster:
        async with cluster.client(0) as one, cluster.client(1) as other:
            for number in range(20):
                await one.weak.put("a", number)
                await other.strong.put("b", number)
        await cluster.until_quiescent()
        feeds = []
        for replica in range(3):
            async with cluster.client(replica) as db:
                feeds.append(await all_changes(db))

        plain = [
            [(each.index, each.id, each.value, each.writes) for each in feed] for feed in feeds
        ]
        assert plain[0] == plain[1] == plain[2]
        assert len(plain[0]) == 40
        changed = [[each.changed for each in feed if each.replica == 0] for feed in feeds]
        assert changed[0] == [False] * 20
        assert changed[1] == [None] * 20


async def test_a_stream_resumes_at_its_position_at_another_replica(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **KEPT) as cluster:
        async with cluster.client(0) as db:
            await put(db, *range(10))
            async with db.changes("earliest") as stream:
                first = await take(stream, 4)
                position = stream.position
        assert position.index > first[-1].index
        async with cluster.client(2) as db, db.changes(position) as stream:
            rest = await take(stream, 6)

        assert [each.arguments[1] for each in first + rest] == list(range(10))


async def test_a_stream_continues_when_its_replica_stops(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **KEPT) as cluster:
        async with (
            cluster.client(0, 2) as db,
            cluster.client(1) as other,
            db.changes("earliest") as stream,
        ):
            await put(other, *range(5))
            first = await take(stream, 5)
            assert stream.replica is not None
            await cluster.stop(stream.replica)
            await put(other, *range(5, 10))
            rest = await take(stream, 5)

        assert [each.arguments[1] for each in first + rest] == list(range(10))


async def test_a_restarted_replica_continues_its_feed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **KEPT) as cluster:
        async with cluster.client(0) as db:
            await put(db, *range(5))
        await cluster.until_quiescent()
        await cluster.stop(2)
        async with cluster.client(0) as db:
            await put(db, *range(5, 10))
        await cluster.start(2)
        await cluster.until_quiescent()
        async with cluster.client(2) as db:
            changes = await all_changes(db, 1)

        assert [each.arguments[1] for each in changes] == list(range(10))


@pytest.mark.parametrize("replicas", [1, 3])
async def test_checkpoints_and_restarts_lose_no_change(tmp_path: Path, replicas: int) -> None:
    settings: dict[str, Any] = {**KEPT, "checkpoint_every": 10}
    async with running_cluster(tmp_path, replicas, **settings) as cluster:
        for begin in range(0, 120, 40):
            async with cluster.client(0) as db:
                for value in range(begin, begin + 40):
                    await db.weak.put("a", value)
                await db.strong.put("b", begin)
            await cluster.until_quiescent()
            await cluster.stop()
            await cluster.start()
            await cluster.until_connected()
        for replica in range(replicas):
            async with cluster.client(replica) as db:
                changes = await all_changes(db, 1, "a")
            assert [each.arguments[1] for each in changes] == list(range(120))


@pytest.mark.parametrize("has_peers", [True, False], ids=["filled", "alone"])
async def test_a_replica_that_lost_its_disk_copies_the_changes_before_its_snapshot(
    tmp_path: Path, has_peers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it has them, it serves no change before its snapshot."""
    settings: dict[str, Any] = {**KEPT, "checkpoint_every": 10}
    if not has_peers:
        monkeypatch.setattr(GapFiller, "tick", lambda _: None)
    async with running_cluster(tmp_path, **settings) as cluster:
        async with cluster.client(0) as db:
            await put(db, *range(50))
        await cluster.until_quiescent()
        await cluster.stop(2)
        shutil.rmtree(tmp_path / "2")
        await cluster.start(2)
        await cluster.until_connected()
        async with cluster.client(0) as db:
            await put(db, *range(50, 60))
        await cluster.until_quiescent()
        feed = cluster.servers[2].changes
        assert feed is not None
        if has_peers:
            async with asyncio.timeout(TIMEOUT_S):
                while feed.log.gaps():
                    await asyncio.sleep(0.01)
            await cluster.stop(0, 1)
            async with cluster.client(2) as db:
                changes = await all_changes(db, 1)
            assert [each.arguments[1] for each in changes] == list(range(60))
            return
        async with cluster.client(2, patience=0.2) as db:
            for start in (1, "earliest"):
                with pytest.raises(NotDone, match="lacks the changes from 1 to"):
                    await all_changes(db, start)
            kept = await all_changes(db, feed.log.first_index)
            assert [each.arguments[1] for each in kept][-10:] == list(range(50, 60))
        async with cluster.client(2, 0) as db:  # the stream goes to the replica that has them
            for start in (1, "earliest"):
                changes = await all_changes(db, start)
                assert [each.arguments[1] for each in changes] == list(range(60))


async def test_a_prefix_selects_the_changes_of_matching_keys(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await db.strong.put("lamp/1", 1)
        await db.strong.put("chair/1", 2)
        await db.strong.put("lamp/2", 3)
        await db.strong.delete("lamp/1")
        changes = await all_changes(db, prefix="lamp/")

        assert [(each.writes, each.deleted) for each in changes] == [
            ((("lamp/1", 1),), ()),
            ((("lamp/2", 3),), ()),
            ((), ("lamp/1",)),
        ]


async def test_values_before_the_changes_are_kept_on_request(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, before_images=True, **KEPT) as cluster:
        async with cluster.client() as db:
            await put(db, 1, 2)
            await db.strong.delete("a")
            changes = await all_changes(db)

        assert [each.before for each in changes] == [(), (("a", 1),), (("a", 2),)]


async def test_latest_starts_after_the_last_change(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await put(db, 1, 2)
        async with db.changes() as stream:
            await asyncio.wait_for(stream._receive_part(), TIMEOUT_S)
            await put(db, 3)
            (change,) = await take(stream, 1)

        assert change.arguments == ("a", 3)


async def test_a_position_in_the_future_is_an_error(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, limits=SHORT_FUTURE, **KEPT) as cluster,
        cluster.client(patience=0.3) as db,
    ):
        await put(db, 1)
        with pytest.raises(PositionInFuture, match="change 1000 does not exist yet"):
            await take(db.changes(1000), 1)


async def test_a_lagging_replica_delivers_a_position_that_it_reaches_in_time(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await put(db, 1)
        newest = (await all_changes(db))[-1].index
        waiting = asyncio.ensure_future(take(db.changes(newest + 3), 1))
        await asyncio.sleep(0.1)
        await put(db, 2, 3, 4, 5, 6, 7)
        (change,) = await waiting

        assert change.index >= newest + 3


async def test_a_position_of_another_cluster_is_an_error(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "one", 1, **KEPT) as cluster, cluster.client() as db:
        await put(db, 1)
        async with db.changes("earliest") as stream:
            await take(stream, 1)
            position = stream.position
    async with running_cluster(tmp_path / "other", 1, **KEPT) as cluster, cluster.client() as db:
        await put(db, 1, 2, 3)
        with pytest.raises(ForeignPosition, match="the position belongs to cluster creek:"):
            await take(db.changes(position), 1)


async def test_expired_changes_are_an_error(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"keep_changes": "1h", "keep_changes_bytes": 1024**2}
    async with running_cluster(tmp_path, 1, **settings) as cluster, cluster.client() as db:
        for number in range(60):
            await db.strong.put("a", f"{number}" * 20_000)
        feed = cluster.servers[0].changes
        assert feed is not None
        feed.log.expire()
        with pytest.raises(ChangesExpired, match="change 1 is not kept") as expired:
            await take(db.changes(1), 1)
        first = expired.value.first_index
        assert first > 1
        kept = await all_changes(db, first)
        assert kept == await all_changes(db, "earliest")
        assert kept[-1].arguments[1].startswith("59")


async def test_a_cluster_without_a_feed_is_an_error(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as db:
        with pytest.raises(ChangesOff, match="start its replicas with --keep-changes"):
            await take(db.changes(), 1)


@pytest.mark.parametrize("start", [0, -1, "soon", 1.5, True, None])
async def test_an_invalid_start_is_an_error(tmp_path: Path, start: Any) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        with pytest.raises(BadValue, match="start is"):
            db.changes(start)


async def test_internal_requests_are_not_changes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **KEPT) as cluster, cluster.client(0) as db:
        await db.weak.put("a", 1)  # a no-op stabilises it
        async with db.changes("earliest") as stream:
            (change,) = await take(stream, 1)
        assert change.operation == "put"
        assert [key for key, _ in change.writes] == ["a"]
        assert {each.operation for each in await all_changes(db)} == {"put"}


async def test_the_number_of_readers_is_bounded(tmp_path: Path) -> None:
    limits = ServerLimits(changes=ReaderLimits(readers_max=2))
    async with running_cluster(tmp_path, 1, limits, **KEPT) as cluster, cluster.client() as db:
        await put(db, 1)
        start = (await all_changes(db))[-1].index + 100
        streams = [db.changes(start) for _ in range(2)]
        waiting = [asyncio.ensure_future(take(each, 1)) for each in streams]
        readers = cluster.servers[0].clients.changes
        async with asyncio.timeout(TIMEOUT_S):
            while readers.active_count < 2:
                await asyncio.sleep(0.01)
        third = asyncio.ensure_future(take(db.changes("earliest"), 1))
        await asyncio.sleep(0.1)
        assert not third.done()
        assert readers.active_count == 2
        for each in waiting:
            each.cancel()
        for stream in streams:
            await stream.aclose()
        assert (await third)[0].arguments == ("a", 1)


def test_a_blocking_program_follows_changes(tmp_path: Path) -> None:
    async def run() -> list[Change]:
        async with running_cluster(tmp_path, 1, **KEPT) as cluster:

            def follow() -> list[Change]:
                with cluster.client() as db:
                    db.strong.put("a", 1)
                    with db.changes("earliest") as stream:
                        first = next(stream)
                        db.strong.put("a", 2)
                        second = next(stream)
                        assert stream.position == ChangePosition(
                            stream.position.cluster, second.index + 1
                        )
                    return [first, second, *db.changes(follow=False)]

            return await asyncio.to_thread(follow)

    changes = asyncio.run(run())
    assert [each.arguments[1] for each in changes] == [1, 2, 1, 2]


async def test_a_table_selects_its_rows_with_their_columns(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**KEPT, "datatype": "sql", "before_images": True}
    async with running_cluster(tmp_path, 1, **settings) as cluster, cluster.client() as db:
        sql = db.strong.sql
        await sql("CREATE TABLE item(name TEXT PRIMARY KEY, price INTEGER)")
        await sql("CREATE TABLE other(x)")
        await sql("INSERT INTO item VALUES ('a', 1), ('b', 2)")
        await sql("INSERT INTO other VALUES (1)")
        await sql("ALTER TABLE item ADD COLUMN note TEXT DEFAULT '-'")
        await sql("UPDATE item SET price = 3 WHERE name = 'a'")
        await sql("DELETE FROM item WHERE name = 'b'")
        async with db.changes(table="Item", follow=False) as stream:
            changes = [change async for change in stream]
        with pytest.raises(UsageError, match="unknown table 'items'"):
            await take(db.changes(table="items"), 1)
        with pytest.raises(BadValue, match="prefix and table exclude each other"):
            db.changes(prefix="a", table="item")

    rows = [row for change in changes if isinstance(change, TableChange) for row in change.rows]
    assert [(row.kind, row.values) for row in rows] == [
        ("insert", {"name": "a", "price": 1, "note": "-"}),
        ("insert", {"name": "b", "price": 2, "note": "-"}),
        ("update", {"name": "a", "price": 3, "note": "-"}),
        ("delete", None),
    ]
    assert rows[3].before == {"name": "b", "price": 2, "note": "-"}


async def test_a_data_type_without_sql_has_no_tables(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        with pytest.raises(UsageError, match="data type 'kv' has no tables"):
            await take(db.changes(table="item"), 1)


async def take_staged(stream: ChangeStream, count: int) -> list[StagedChange]:
    staged = await take(stream, count)
    assert all(isinstance(each, StagedChange) for each in staged)
    return staged  # type: ignore[return-value]


async def test_the_tentative_view_shows_requests_until_they_are_final(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **KEPT) as cluster, cluster.client(0) as db:
        await put(db, 0, key="lamp")
        await all_changes(db)  # the cluster has an identity
        await cluster.until_quiescent()
        await cluster.stop(1, 2)
        async with db.changes(prefix="la", view="tentative") as stream:
            await asyncio.wait_for(stream._receive_part(), TIMEOUT_S)
            await db.weak.put("chair", 1)
            await db.weak.increment("lamp", 2)
            await db.weak.delete("lamp")
            first, second = await take_staged(stream, 2)
            position = stream.position
            await cluster.start(1, 2)
            third, fourth = await take_staged(stream, 2)

        assert (first.stage, first.index, first.writes) == ("tentative", 0, (("lamp", 2),))
        assert (first.operation, first.arguments, first.value) == ("increment", ("lamp", 2), 2)
        assert (second.stage, second.deleted) == ("tentative", ("lamp",))
        assert [(each.stage, each.id, each.revised) for each in (third, fourth)] == [
            ("final", first.id, False),
            ("final", second.id, False),
        ]
        assert position.index <= third.index < fourth.index
        assert [each.id for each in await all_changes(db, position, "la")] == [first.id, second.id]


async def test_a_late_request_revises_the_stages_of_others(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **KEPT) as cluster:
        async with cluster.client(0) as db:
            await all_changes(db)  # the cluster has an identity
        await cluster.until_quiescent()
        links = [(0, 1), (0, 2), (1, 0), (2, 0)]
        heal = [cluster.drop_messages(*each) for each in links]
        async with cluster.client(0) as db, cluster.client(1) as other:
            await other.strong.increment("n", 10)
            async with db.changes(prefix="n", view="tentative") as stream:
                assert await db.weak.increment("n", 1) == 1
                (first,) = await take_staged(stream, 1)
                for restore in heal:
                    restore()
                events = [first]
                while sum(each.stage == "final" for each in events) < 2:
                    events += await take_staged(stream, 1)

    own = [each for each in events if each.id == first.id]
    assert (first.stage, first.writes) == ("tentative", (("n", 1),))
    assert own[-1].stage == "final"
    assert own[-1].writes == (("n", 11),)
    assert any(each.revised for each in own)
    assert {each.stage for each in own[1:-1]} <= {"revised"}


async def test_a_tentative_view_of_a_table_has_its_rows(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**KEPT, "datatype": "sql"}
    async with running_cluster(tmp_path, **settings) as cluster, cluster.client(0) as db:
        await db.strong.sql("CREATE TABLE item(name TEXT PRIMARY KEY)")
        await all_changes(db)  # the cluster has an identity
        await cluster.until_quiescent()
        await cluster.stop(1, 2)
        async with db.changes(table="item", view="tentative") as stream:
            await asyncio.wait_for(stream._receive_part(), TIMEOUT_S)
            await db.weak.sql("INSERT INTO item VALUES ('a')")
            (event,) = await take_staged(stream, 1)

    assert (event.stage, event.rows[0].values) == ("tentative", {"name": "a"})


async def test_invalid_views_are_errors(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        with pytest.raises(BadValue, match="view is 'other'"):
            db.changes(view="other")
        with pytest.raises(BadValue, match="a tentative view has no end"):
            db.changes(view="tentative", follow=False)


VALUE_BYTES = 1_000_000
VALUES = 30


async def fill(cluster: InProcessCluster, values: int = VALUES) -> None:
    async with cluster.client() as db:
        for number in range(values):
            await db.strong.put("a", f"{number:0{VALUE_BYTES}}")


async def test_a_client_that_reads_nothing_gets_a_bounded_number_of_parts(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster:
        await fill(cluster)
        readers = cluster.servers[0].clients.changes
        async with wire_client(cluster) as client:
            for _ in range(VALUES):
                client.send(wire.ChangesRequest(1, 10))
                await asyncio.sleep(0.01)
            while readers.active_count:
                await asyncio.sleep(0.01)
            assert 0 < readers.parts_sent <= VALUES // 2
            (connection,) = cluster.servers[0].clients.connections
            transport = connection._writer.transport
            assert transport is not None
            assert not transport.is_reading()
            async with asyncio.timeout(TIMEOUT_S):
                await fill(cluster, 2)  # others are not affected
            while isinstance(message := await client.receive(), wire.ChangesRejected):
                assert message.reason == RejectReason.BUSY  # more requests at once than allowed
            assert isinstance(message, wire.ChangesPart)


async def test_a_stream_that_takes_nothing_requests_nothing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await fill(cluster)
        readers = cluster.servers[0].clients.changes
        async with db.changes("earliest") as stream:
            first = await take(stream, 1)
            sent = readers.parts_sent
            await asyncio.sleep(0.1)
            assert readers.parts_sent == sent <= 2
            rest = await take(stream, VALUES - 1)

        assert [int(each.arguments[1][-9:]) for each in first + rest] == list(range(VALUES))
