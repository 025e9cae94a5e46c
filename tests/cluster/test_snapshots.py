"""Leased snapshots of a live cluster: consistent, repeatable, and continued by the change feed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from creekdb.client import Database, NotDone, Snapshot, SnapshotTicket, connect
from creekdb.errors import BadValue, UsageError
from creekdb.server.changes.snapshots import SnapshotLimits
from creekdb.server.runtime.server import ServerLimits
from tests.cluster.in_process_cluster import running_cluster

KEPT: dict[str, Any] = {"keep_changes": "1h"}


async def fill(db: Database, count: int) -> None:
    for first in range(0, count, 50):
        calls = [("put", f"key{number:04}", number) for number in range(first, first + 50)]
        await db.batch(calls, strong=True)


async def read(snapshot: Snapshot, start: Any = None, stop: Any = None) -> dict[Any, Any]:
    return {key: value async for key, value in snapshot.items(start, stop)}


async def test_a_snapshot_does_not_change_while_others_write(tmp_path: Path) -> None:
    limits = ServerLimits(snapshots=SnapshotLimits(page_registers_max=7))
    async with running_cluster(tmp_path, 1, limits, **KEPT) as cluster, cluster.client() as db:
        await fill(db, 100)
        expected = {f"key{number:04}": number for number in range(100)}
        async with db.snapshot() as snapshot:
            await db.strong.put("key0000", "changed")
            await db.strong.delete("key0050")
            await db.strong.put("key0050x", "added")
            await db.strong.put("later", "added")
            first = await read(snapshot)
            await db.strong.delete("key0099")
            assert first == expected
            assert list(first) == sorted(first)
            assert await read(snapshot) == expected
            assert await read(snapshot, "key0010", "key0012") == {"key0010": 10, "key0011": 11}


async def test_ranges_hold_all_registers_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await fill(db, 200)
        async with db.snapshot(partitions=4) as snapshot:
            parts = [await read(snapshot, *bounds) for bounds in snapshot.ranges()]

        assert len(parts) == 4
        assert all(len(part) > 10 for part in parts)
        assert sum(map(len, parts)) == 200
        assert {key for part in parts for key in part} == {f"key{each:04}" for each in range(200)}


async def test_another_connection_reads_the_snapshot_by_its_ticket(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, 1, **KEPT) as cluster,
        cluster.client() as db,
        cluster.client() as other,
    ):
        await fill(db, 50)
        async with db.snapshot() as snapshot:
            await db.strong.put("key0000", "changed")
            async with other.snapshot(ticket=snapshot.ticket) as shared:
                assert await read(shared) == await read(snapshot)
            assert (await read(snapshot))["key0000"] == 0  # reading does not release it


async def test_the_feed_continues_after_a_snapshot(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **KEPT) as cluster, cluster.client(0) as db:
        await db.strong.put("a", 1)
        async with db.snapshot() as snapshot:
            state = await read(snapshot)
            await db.strong.put("a", 2)
            await db.strong.put("b", 3)
            async with db.changes(snapshot.index + 1, follow=False) as stream:
                async for change in stream:
                    state.update(change.writes)

        assert state == {"a": 2, "b": 3}


async def test_an_idle_snapshot_expires(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as db:
        await db.strong.put("a", 1)
        async with db.snapshot(lease=0.05) as snapshot:
            await asyncio.sleep(0.3)
            with pytest.raises(NotDone, match="the snapshot has expired"):
                await read(snapshot)


@pytest.mark.parametrize("ending", ["lease", "state"])
async def test_a_snapshot_that_ends_while_the_disk_is_slow_stops_no_replica(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease ends, or the replica installs the snapshot of another one."""
    async with running_cluster(tmp_path, 1, datatype="sql") as cluster, cluster.client() as db:
        await db.strong.sql("CREATE TABLE item(name TEXT PRIMARY KEY)")
        server = cluster.servers[0]
        snapshots = server.clients.snapshots
        opened = 0

        async def wait_durable() -> bool:
            nonlocal opened
            opened += 1
            if opened == 1 and ending == "state":
                for lease in snapshots._leases.values():
                    lease.state.close()
            await asyncio.sleep(0.2)
            return True

        monkeypatch.setattr(snapshots, "_wait_durable", wait_durable)
        if ending == "state":
            with pytest.raises(NotDone, match="ended before it could be read"):
                async with db.snapshot(table="item"):
                    pass
        async with db.snapshot(table="item", lease=0.05) as snapshot:
            assert [row async for row in snapshot.rows()] == []
        assert server.failure is None


async def test_the_number_of_snapshots_is_bounded(tmp_path: Path) -> None:
    limits = ServerLimits(snapshots=SnapshotLimits(snapshots_max=2))
    async with running_cluster(tmp_path, 1, limits) as cluster, cluster.client() as db:
        await db.strong.put("a", 1)
        async with db.snapshot() as one, db.snapshot() as two:
            assert await read(one) == await read(two) == {"a": 1}
            with pytest.raises(NotDone, match="2 snapshots are open"):
                async with db.snapshot():
                    pass
        await asyncio.sleep(0.1)
        async with db.snapshot() as snapshot:
            assert await read(snapshot) == {"a": 1}


async def test_a_new_snapshot_replaces_the_one_that_was_not_read_for_longest(
    tmp_path: Path,
) -> None:
    limits = ServerLimits(snapshots=SnapshotLimits(snapshots_max=2, idle_s=0.0))
    async with running_cluster(tmp_path, 1, limits) as cluster, cluster.client() as db:
        await db.strong.put("a", 1)
        async with db.snapshot() as one, db.snapshot() as two:
            await read(one)
            async with db.snapshot() as three:
                assert await read(three) == await read(one) == {"a": 1}
                with pytest.raises(NotDone, match="ended in favour of another"):
                    await read(two)


SQL: dict[str, Any] = {"datatype": "sql", **KEPT}


async def test_a_table_is_read_as_it_was_at_the_index(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, **SQL) as cluster, cluster.client() as db:
        await db.strong.sql("CREATE TABLE item(name TEXT PRIMARY KEY, price INTEGER)")
        await db.strong.sql("CREATE TABLE other(x)")
        await db.strong.sql("INSERT INTO other VALUES (1)")
        for first in range(0, 300, 100):
            names = [f"n{number:03}" for number in range(first, first + 100)]
            marks = ", ".join(f"(?, {int(name[1:])})" for name in names)
            await db.strong.sql(f"INSERT INTO item VALUES {marks}", names)
        async with db.snapshot(table="item", partitions=3) as snapshot:
            await db.strong.sql("ALTER TABLE item RENAME COLUMN price TO cost")
            await db.strong.sql("DELETE FROM item")
            assert snapshot.table is not None
            assert snapshot.table.column_names == ("name", "price")
            parts = [[row async for row in snapshot.rows(*each)] for each in snapshot.ranges()]
            batches = [batch async for batch in snapshot.record_batches()]
        with pytest.raises(UsageError, match=r"unknown table 'items'.*did you mean 'item'"):
            async with db.snapshot(table="items"):
                pass

    rows = [{"name": f"n{number:03}", "price": number} for number in range(300)]
    assert len(parts) == 3
    assert all(len(part) > 20 for part in parts)
    assert sorted((row for part in parts for row in part), key=lambda row: row["price"]) == rows
    assert [row for batch in batches for row in batch.to_pylist()] == rows


async def test_a_ticket_as_text_keeps_the_defaults_of_columns(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, datatype="sql") as cluster, cluster.client() as db:
        for statement in (
            "CREATE TABLE item(name TEXT PRIMARY KEY)",
            "INSERT INTO item VALUES ('a')",
            "ALTER TABLE item ADD COLUMN picture BLOB DEFAULT x'00ff'",
            "ALTER TABLE item ADD COLUMN size INTEGER DEFAULT 9223372036854775807",
        ):
            await db.strong.sql(statement)
        async with db.snapshot(table="item") as snapshot:
            ticket = SnapshotTicket.decode(snapshot.ticket.encode())
            async with db.snapshot(ticket=ticket) as shared:
                rows = [row async for row in shared.rows()]

    assert rows == [{"name": "a", "picture": b"\x00\xff", "size": 2**63 - 1}]


def test_a_blocking_program_reads_a_snapshot_by_its_ticket(tmp_path: Path) -> None:
    async def run() -> None:
        limits = ServerLimits(snapshots=SnapshotLimits(page_registers_max=7))
        async with running_cluster(tmp_path, 3, limits, **KEPT) as cluster:

            def read() -> None:
                with cluster.client(1) as db:
                    db.batch([("put", f"k{each:02}", each) for each in range(40)], strong=True)
                    with db.snapshot(partitions=2, prefix="k") as snapshot:
                        db.strong.delete("k00")
                        text = snapshot.ticket.encode()
                        assert list(snapshot.items()) == expected
                        check_ticket(text)

            expected = [(f"k{each:02}", each) for each in range(40)]

            def check_ticket(text: str) -> None:
                ticket = SnapshotTicket.decode(text)
                with connect(ticket.server) as db, db.snapshot(ticket=ticket) as shared:
                    assert db.replica == 1
                    items = [item for each in ticket.ranges() for item in shared.items(*each)]
                    assert items == expected
                    pages = shared.pages()
                    assert len(next(pages)) == 7
                    assert list(shared.items("k38")) == expected[38:]  # beside another reader

            await asyncio.to_thread(read)

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"id": {"$bytes": 1}}', "[" * 100_000])
def test_a_text_that_is_no_ticket_is_an_error(text: str) -> None:
    with pytest.raises(BadValue, match="the text is not the ticket of a snapshot"):
        SnapshotTicket.decode(text)
