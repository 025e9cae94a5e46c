"""Final outcome of a weak call after its replica has failed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from creekdb import OperationFailed, Unknown
from creekdb.client import Database
from creekdb.client.calls import FinalOutcome
from creekdb.server.calls.dispatcher import CallLimits
from creekdb.server.runtime.server import ServerLimits
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster


async def fail_over(cluster: InProcessCluster, db: Database) -> None:
    """Stop the replica of the client, and restart it once the client uses another."""
    replica = db.replica
    assert replica is not None
    await cluster.stop(replica)
    async with asyncio.timeout(TIMEOUT_S):
        while db.replica == replica:
            await asyncio.sleep(0.01)
    await cluster.start(replica)


def cut_off(cluster: InProcessCluster, replica: int) -> None:
    """Disconnect the replica from its peers, so that its requests stay tentative."""
    cluster.servers[replica].peers.disconnect({*cluster.servers} - {replica})


async def test_another_replica_reports_the_final_outcome(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        cluster.client() as db,
        cluster.client(1) as other,
    ):
        await db.strong.put("a", 1)
        cut_off(cluster, 0)
        unchanged = db.weak.put("b", 5)
        changed = db.weak.put("a", 2)
        raising = db.weak.increment("c", 1)
        assert [await unchanged, await changed, await raising] == [None, 1, 1]
        early_final = asyncio.ensure_future(unchanged.final)  # waits before and after the failure
        assert await other.strong.put("a", 7) == 1
        assert await other.strong.put("c", "text") is None
        await fail_over(cluster, db)

        assert await early_final == FinalOutcome(None, changed=False)
        assert await changed.final == FinalOutcome(7, changed=True)
        assert await changed.final == FinalOutcome(7, changed=True)
        with pytest.raises(OperationFailed, match="can only add"):
            await raising.final
        kinds = [(response.kind, response.value) async for response in changed]
        assert kinds == [("tentative", 1), ("final", 7)]
        assert await db.strong.get("a") == 2, "no call was executed again"


async def test_an_expired_or_lost_outcome_stays_unknown(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        cut_off(cluster, 0)
        long = db.weak.put("a", "x" * 10_000)
        await long
        again = db.weak.put("a", 1)
        assert await again == "x" * 10_000
        lost = db.weak.within(0.5).put("b", 1)
        await lost
        await cluster.stop(0)
        with pytest.raises(Unknown, match="the connection to the replica was lost"):
            await lost.final  # no other replica has the request
        await cluster.start(0)
        assert (await long.final).value is None
        with pytest.raises(Unknown, match="the connection to the replica was lost"):
            await again.final  # its response was too long to be retained


async def test_final_responses_above_the_limit_are_fetched_on_demand(tmp_path: Path) -> None:
    limits = ServerLimits(calls=CallLimits(awaiting_final_max=3))
    async with running_cluster(tmp_path, 1, limits) as cluster, cluster.client() as db:
        calls: list[Any] = [db.weak.put("a", each) for each in range(10)]
        for call in calls:
            await call
        assert [(await call.final).value for call in calls] == [None, *range(9)]
