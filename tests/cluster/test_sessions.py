"""Bounded memory for any number of sessions."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from creekdb import NotDone
from creekdb.client import Database
from creekdb.client.call_router import CallRouter
from tests.cluster.in_process_cluster import SHORT_WAITS, InProcessCluster, running_cluster
from tests.unit.schemes.fingerprint import attribute_names


def item_count(value: object) -> int:
    """Return the number of items in the collections of an object."""
    attributes = [getattr(value, name) for name in attribute_names(value)]
    return sum(len(each) for each in attributes if isinstance(each, dict | list | set))


async def test_a_connection_stores_no_session_state(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, 1) as cluster,
        cluster.client() as db,
        cluster.client() as other,
    ):
        session_ids: set[int] = set()
        for connection in cluster.servers[0].clients.connections:
            before = item_count(connection)
            session_ids.update(connection.calls.session_id(number) for number in range(1000))
            assert [connection.calls.session_id(7) for _ in range(3)] == [
                connection.calls.session_id(7)
            ] * 3
            assert item_count(connection) == before
        assert len(session_ids) == 2000
        for _ in range(10):
            await asyncio.gather(db.session().weak.put("a", 1), other.session().weak.put("a", 2))


def client_of_few_sessions(cluster: InProcessCluster) -> Database:
    db = cluster.client()
    db._router = CallRouter(3, db._outcome_query, sessions_max=4)
    return db


async def test_a_merged_session_still_waits_for_its_writes(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, limits=SHORT_WAITS) as cluster,
        client_of_few_sessions(cluster) as db,
    ):
        assert db.replica == 0
        first = db.session()
        cluster.servers[0].peers.disconnect((1, 2))
        await first.weak.put("a", 1)
        sessions = [db.session() for _ in range(100)]
        for session in sessions:
            await session.weak.put("b", 1)
        contexts: Any = db._router._session_contexts
        assert len(contexts) <= 8
        assert first.weak._options.session not in contexts
        await cluster.stop(0)
        await cluster.until_moved(db, from_replica=0)
        with pytest.raises(NotDone, match="did not arrive in time"):
            await first.weak.get("a")
        await cluster.start(0)
        await cluster.until_quiescent()
        assert await first.weak.get("a") == 1
