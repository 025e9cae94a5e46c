"""Replay of live histories: writes of sinks, loads and scripts are no violations."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from creekdb.client import Database
from creekdb.client.sinks import load_rows
from creekdb.datatypes import get_datatype
from creekdb.errors import UsageError
from creekdb.pipeline.storage import Location
from creekdb.pipeline.watch.auditor import (
    STATE_FILE,
    Progress,
    check_replayable,
    first_gap,
    states_of,
)
from creekdb.pipeline.watch.feeds import ClusterAccess
from creekdb.pipeline.watch.replay import Replay
from creekdb.pipeline.watch.source import FeedOptions
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.batches import BATCH
from creekdb.wire.changes import Change
from creekdb.wire.staging import APPLY, LOAD
from tests.cluster.backups import back_up, restore_all
from tests.cluster.in_process_cluster import running_cluster

KEPT: dict[str, Any] = {"keep_changes": "1h"}
UPSERT = "INSERT INTO item VALUES (?, ?) ON CONFLICT(name) DO UPDATE SET price = excluded.price"


async def run_sql(db: Database) -> None:
    sql = db.strong.sql
    await sql("CREATE TABLE item(name TEXT PRIMARY KEY, price INTEGER NOT NULL)")
    await sql("CREATE INDEX by_price ON item(price)")
    script = [("INSERT INTO item VALUES ('a', 1)", ()), ("UPDATE item SET price = 2", ())]
    await db.strong.transaction(script)
    await sql("INSERT INTO item VALUES (hex(randomblob(4)), random() % 100)")
    await sql("INSERT INTO item VALUES (CURRENT_TIMESTAMP, 5)")
    await load_rows(db, "sql", [((f"load{n}", n),) for n in range(20)], leading=(UPSERT,))
    await apply_rows(db, "sql", [((f"sink{n}", n),) for n in range(20)], leading=(UPSERT,))
    await sql("ALTER TABLE item ADD COLUMN note TEXT DEFAULT '-'")
    await db.batch([("sql", f"DELETE FROM item WHERE name = 'load{n}'") for n in range(5)])
    await db.strong.query("SELECT * FROM item ORDER BY name")


async def run_kv(db: Database) -> None:
    await load_rows(db, "put", [(f"load{n}", n) for n in range(20)])
    await load_rows(db, "increment", [("sum", n) for n in range(5)])
    await apply_rows(db, "increment", [("sum", n) for n in range(5)], strong=False)
    await db.batch([("put", "a", 1), ("increment", "a", 2)], strong=True)
    await db.strong.put("letter", "x")
    await apply_rows(db, "increment", [("letter", 1), ("sum", 1)], keep_rejected=True)
    await db.strong.increment("sum", 1)
    await db.strong.scan("")


async def apply_rows(
    db: Database, operation: str, rows: Any, *, keep_rejected: bool = False, **options: Any
) -> None:
    leading = options.pop("leading", ())
    sink = db.sink(f"sink of {operation} {rows[0]}")
    staged = await sink.stage(operation, rows, leading=leading, keep_rejected=keep_rejected)
    await sink.apply(1, [staged], keep_rejected=keep_rejected, **options)


def replay(datatype: str, directory: Path, changes: list[Change]) -> list[tuple[int, str]]:
    machine = Replay(get_datatype(datatype), Location.parse(directory))
    return [*machine.run(0, [(change, False) for change in changes])]


@pytest.mark.parametrize(("datatype", "run"), [("sql", run_sql), ("kv", run_kv)])
async def test_sinks_loads_and_scripts_are_replayed(
    tmp_path: Path, datatype: str, run: Any
) -> None:
    settings = {**KEPT, "datatype": datatype}
    async with running_cluster(tmp_path / "one", 1, **settings) as cluster, cluster.client() as db:
        await run(db)
        changes = [change async for change in db.changes("earliest", follow=False)]

    assert {APPLY, LOAD, BATCH} <= {change.operation for change in changes}
    assert replay(datatype, tmp_path / "replay", changes) == []
    loads = [change for change in changes if change.operation == LOAD]
    wrong = replace(loads[-1], writes=loads[-1].writes[1:])
    found = replay(
        datatype,
        tmp_path / "wrong",
        [wrong if change == loads[-1] else change for change in changes],
    )
    assert wrong.index in [index for index, _ in found]


def test_a_change_of_another_data_type_is_no_violation_but_a_usage_error(tmp_path: Path) -> None:
    change = Change(1, Dot(0, 1), 1, "deposit", ("a", 1), False, None, 1, None, (), ())

    with pytest.raises(
        UsageError, match=r"deposit \(0\.1\) at index 1: data type 'kv' has no such"
    ):
        replay("kv", tmp_path, [change])


async def test_a_restored_cluster_is_not_replayed_without_its_past(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "old", 1) as cluster, cluster.client() as db:
        await db.strong.put("a", 1)
        await back_up(cluster, tmp_path / "backup")
    restore_all(tmp_path / "backup", tmp_path / "new", 1)
    async with running_cluster(tmp_path / "new", 1, cluster="another", **KEPT) as cluster:
        options = FeedOptions(ClusterAccess(tuple(cluster.addresses())))
        out = Location.parse(tmp_path / "out")
        with pytest.raises(UsageError, match=r"it starts at .*, and a replay begins at index 1"):
            await asyncio.to_thread(check_replayable, options, out)
        async with cluster.client() as db:
            await db.strong.put("b", 1)
        with pytest.raises(UsageError, match=r"it starts at .*, and a replay begins at index 1"):
            await asyncio.to_thread(check_replayable, options, out)


@pytest.mark.parametrize(
    ("progress", "can_continue"),
    [
        (Progress(compared=5, replayed=5, frontier=6), True),
        (Progress(compared=5, frontier=6), False),
    ],
)
def test_a_replay_continues_an_audit_that_had_one(
    tmp_path: Path, progress: Progress, can_continue: bool
) -> None:
    """Nothing is asked of the cluster, which may keep the first changes no more."""
    out = Location.parse(tmp_path)
    (states_of(out).path(3) / STATE_FILE).write_bytes(msgspec.json.encode(progress))
    options = FeedOptions(ClusterAccess(("127.0.0.1:1",)))

    if can_continue:
        check_replayable(options, out)
    else:
        with pytest.raises(UsageError, match="was audited without a data type, up to index 5"):
            check_replayable(options, out)


def test_the_first_gap_of_ranges_is_found() -> None:
    assert first_gap([(4, 9), (1, 5)], 1, 9) is None
    assert first_gap([(1, 5), (7, 9)], 1, 9) == (5, 7)
    assert first_gap([(1, 5)], 3, 9) == (5, 9)
    assert first_gap([(4, 5)], 1, 3) == (1, 3)
    assert first_gap([], 1, 1) is None
