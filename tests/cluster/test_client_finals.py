"""How a weak call ended, when the replica that would have told is gone."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from creekdb import OperationFailed, Unknown
from creekdb.client import Database
from creekdb.client.calls import FinalOutcome
from creekdb.server.transport import client_connection
from tests.cluster.house import PATIENCE_S, House, house, run


async def move_on(cluster: House, db: Database) -> None:
    """The client's replica stops, and comes back as one that it is not connected to."""
    replica = db.replica
    assert replica is not None
    await cluster.stop(replica)
    async with asyncio.timeout(PATIENCE_S):
        while db.replica == replica:
            await asyncio.sleep(0.01)
    await cluster.start(replica)


def cut_off(cluster: House, replica: int) -> None:
    """What it takes up is not settled."""
    cluster.servers[replica].peers.disconnect({*cluster.servers} - {replica})


def test_another_replica_tells_how_it_ended(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client() as db, cluster.client(1) as other:
            await db.strong.put("a", 1)
            cut_off(cluster, 0)
            same = db.weak.put("b", 5)
            changed = db.weak.put("a", 2)
            raises = db.weak.increment("c", 1)
            assert [await same, await changed, await raises] == [None, 1, 1]
            asked = asyncio.ensure_future(same.final)  # before and after it is gone
            assert await other.strong.put("a", 7) == 1
            assert await other.strong.put("c", "text") is None
            await move_on(cluster, db)

            assert await asked == FinalOutcome(None, changed=False)
            assert await changed.final == FinalOutcome(7, changed=True)
            assert await changed.final == FinalOutcome(7, changed=True)
            with pytest.raises(OperationFailed, match="can only add"):
                await raises.final
            kinds = [(answer.kind, answer.value) async for answer in changed]
            assert kinds == [("tentative", 1), ("final", 7)]
            assert await db.strong.get("a") == 2, "and nothing was done again"

    run(story())


def test_what_no_replica_knows_any_more_stays_unknown(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client() as db:
            cut_off(cluster, 0)
            long = db.weak.put("a", "x" * 10_000)
            await long
            again = db.weak.put("a", 1)
            assert await again == "x" * 10_000
            lost = db.weak.within(0.5).put("b", 1)
            await lost
            await cluster.stop(0)
            with pytest.raises(Unknown, match="is gone"):
                await lost.final  # nobody else has it
            await cluster.start(0)
            assert (await long.final).value is None
            with pytest.raises(Unknown, match="is gone"):
                await again.final  # its answer was too long to be kept

    run(story())


def test_who_has_too_many_calls_that_are_to_be_told_asks_for_those_it_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connection, "TOLD_MAX", 3)

    async def story() -> None:
        async with house(tmp_path, 1) as cluster, cluster.client() as db:
            calls: list[Any] = [db.weak.put("a", each) for each in range(10)]
            for call in calls:
                await call
            assert [(await call.final).value for call in calls] == [None, *range(9)]

    run(story())
