"""Batches on a live cluster: all or nothing, once, and one change."""

from pathlib import Path

import pytest

from creekdb import BadValue
from creekdb.client import NotDone, OperationFailed
from tests.cluster.in_process_cluster import running_cluster


async def test_a_batch_is_one_change_with_all_writes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, keep_changes="1h") as cluster, cluster.client(0) as db:
        values = await db.batch([("put", "a", 1), ("increment", "a", 2)], strong=True)
        async with db.changes(follow=False) as stream:
            (change,) = [each async for each in stream]

        assert values == (None, 3)
        assert (change.operation, change.writes) == ("creek.batch", (("a", 3),))
        assert await db.strong.get("a") == 3


async def test_a_failing_batch_has_no_effect(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as db:
        await db.strong.put("a", "text")
        with pytest.raises(OperationFailed, match=r"call 2 of 2: increment"):
            await db.batch([("put", "b", 1), ("increment", "a", 1)], strong=True)
        assert await db.strong.get("b") is None


async def test_invalid_batches_are_rejected(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as db:
        with pytest.raises(NotDone, match="a batch has 1 to 10000 calls"):
            await db.batch([])
        with pytest.raises(NotDone, match="unknown operation"):
            await db.batch([("put", "a", 1), ("putt", "a", 1)])
        with pytest.raises(NotDone, match="cannot be called in a batch"):
            await db.batch([("creek.forget", 1, "", 0)])
        with pytest.raises(NotDone, match=r"must be a string, not null \(call 2: put\)") as raised:
            await db.batch([("put", "a", 1), ("put", None, 2)])
        assert raised.value.reason == "bad_arguments"
        with pytest.raises(NotDone, match=r"which cannot be sent \(call 1: put\)"):
            await db.batch([("put", "a", object())])
        with pytest.raises(BadValue, match="the name of the operation must be a string"):
            db.batch([(1, "a")])
        for call in ("put", ()):
            with pytest.raises(BadValue, match="is an operation and its arguments, not"):
                db.batch([call])
        assert await db.strong.get("a") is None
