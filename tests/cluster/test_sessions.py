"""Sessions: any number of them, of which not more is kept than is bounded."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from creekdb import NotDone
from creekdb.client import call_router
from tests.cluster.house import PATIENCE_S, house, run


def kept(thing: object) -> int:
    """How many things it holds on to."""
    return sum(len(each) for each in vars(thing).values() if isinstance(each, dict | list | set))


def test_a_connection_keeps_nothing_of_a_session_that_is_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, 1) as cluster, cluster.client() as db, cluster.client() as other:
            names: set[int] = set()
            for connection in cluster.servers[0].dispatcher.connections:
                before = kept(connection)
                names.update(connection.session_id(number) for number in range(1000))
                assert [connection.session_id(7) for _ in range(3)] == [
                    connection.session_id(7)
                ] * 3
                assert kept(connection) == before
            assert len(names) == 2000
            for _ in range(10):
                await asyncio.gather(
                    db.session().weak.put("a", 1), other.session().weak.put("a", 2)
                )

    run(story())


def test_a_session_that_was_summed_up_still_goes_on_only_where_its_writes_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_router, "SESSIONS_MAX", 4)

    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client() as db:
            assert db.replica == 0
            first = db.session()
            cluster.servers[0].peers.disconnect((1, 2))
            await first.weak.put("a", 1)
            sessions = [db.session() for _ in range(100)]
            for session in sessions:
                await session.weak.put("b", 1)
            seen: Any = db._router._session_contexts
            assert len(seen) <= 8
            assert first._number not in seen
            await cluster.stop(0)
            async with asyncio.timeout(PATIENCE_S):
                while db.replica == 0:
                    await asyncio.sleep(0.01)
            with pytest.raises(NotDone, match="did not arrive here in time"):
                await first.weak.within(0.5).get("a")
            await cluster.start(0)
            assert await first.weak.get("a") == 1

    run(story())
