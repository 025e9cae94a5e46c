"""Sinks and loads on a live cluster: rows are applied once, whatever fails and is repeated."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

import creekdb
from creekdb.execution.keys import SINKS_PREFIX
from creekdb.protocol.values import Key
from creekdb.wire.staging import APPLY
from tests.cluster.in_process_cluster import running_cluster

CHUNK_PREFIX = (SINKS_PREFIX, "rows")


async def test_a_sink_applies_each_batch_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        sink = db.sink("totals", query="first")
        assert await sink.last_batch() is None
        rows = [(f"k{number % 50}", 1) for number in range(2_500)]
        staged = [await sink.stage("increment", rows), await sink.stage("increment", rows)]
        assert [each.chunks for each in staged] == [3, 3]
        assert await db.strong.scan("") == ()

        result = await sink.apply(0, staged, rows_max=700)
        assert result == (True, True, 5_000, 0)
        again = await sink.stage("increment", rows)
        assert (await sink.apply(0, [again], strong=False)).is_own_plan is False
        assert await sink.last_batch() == 0
        assert await db.strong.scan("") == tuple(
            sorted((f"k{number}", 100) for number in range(50))
        )

        with pytest.raises(creekdb.OperationFailed, match="choose another name"):
            await db.sink("totals", query="second").apply(1, [])


async def test_rejected_rows_name_the_row_or_are_kept(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        await db.strong.put("text", "x")
        sink = db.sink("totals")
        with pytest.raises(creekdb.NotDone, match="row 2"):
            await sink.stage("increment", [("a", 1), (None, 1)])
        rows = [("a", 1), (None, 1), ("text", 1), ("a", 2)]
        staged = await sink.stage("increment", rows, keep_rejected=True)
        with pytest.raises(creekdb.OperationFailed, match=r"row 3 of the batch: \('text', 1\)"):
            await sink.apply(0, [staged])
        assert await sink.last_batch() is None
        assert await sink.apply(0, [staged], keep_rejected=True) == (True, True, 2, 2)
        assert await db.strong.get("a") == 3
        rejected = await sink.rejected()
        assert [(each.batch, each.row) for each in rejected] == [(0, (None, 1)), (0, ("text", 1))]
        await sink.clear_rejected(rejected[0])
        assert await sink.rejected() == rejected[1:]


async def test_rows_are_applied_once_while_a_replica_is_lost(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        sink = db.sink("totals")
        rows = [(f"k{number}", 1) for number in range(3_000)]

        async def write() -> None:
            for batch in range(4):
                staged = await sink.stage("increment", rows)
                await sink.apply(batch, [staged], rows_max=500)

        writing = asyncio.create_task(write())
        await asyncio.sleep(0.1)
        assert db.replica is not None
        await cluster.stop(db.replica)
        await writing
        assert set(await db.strong.scan("")) == {(f"k{number}", 4) for number in range(3_000)}


async def test_a_load_stores_all_rows_and_reports_progress(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        counts: list[int] = []
        rows = ((f"k{number}", number) for number in range(2_500))
        assert await db.load("put", rows, on_loaded=counts.append) == 2_500
        assert sorted(counts) == [500, 1000, 1000]
        assert len(await db.strong.scan("")) == 2_500
        with pytest.raises(creekdb.NotDone, match=r"row 1: \(7, 1\)"):
            await db.load("put", [(7, 1)])


async def test_clients_cannot_call_other_internal_operations(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        for name in ("creek.expire_staged", "creek.forget", "creek.unknown"):
            with pytest.raises(creekdb.NotDone, match="operation of kv"):
                await db.strong(name, 1)
        with pytest.raises(creekdb.NotDone, match=f"{APPLY}: takes 7 arguments"):
            await db.strong(APPLY, "totals")


async def test_the_leader_expires_staged_rows_that_no_batch_needs(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, forget_after=0.5) as cluster:
        async with cluster.client() as db:
            await db.sink("totals").stage("put", [("a", 1)])
            await db.sink("totals").apply(0, [await db.sink("totals").stage("put", [("b", 2)])])
        state = cluster.servers[0].driver.replica.view.state
        assert staged_keys(state()) != []
        async with asyncio.timeout(30):
            while staged_keys(state()):
                await asyncio.sleep(0.02)
        assert (SINKS_PREFIX, "ledgers", "totals") in state()


def staged_keys(registers: Iterable[Key]) -> list[Key]:
    return [each for each in registers if isinstance(each, tuple) and each[:2] == CHUNK_PREFIX]
