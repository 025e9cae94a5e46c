"""Limits of waiting calls, and expiry of deduplication records."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from creekdb.client import NotDone
from creekdb.datatypes.kv import KV
from creekdb.errors import BadValue
from creekdb.execution.keys import CALLS_PREFIX
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key
from creekdb.server.calls.admission_control import CallQueue
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.server.calls.expiry import INTERVALS_PER_RETENTION, NO_CLIENT
from creekdb.server.runtime.server import Server
from creekdb.wire.deduplication import EXPIRY_BATCH_MAX, expire_calls, wrap_call
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster


async def test_strong_calls_that_wait_for_a_majority_are_bounded(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, strong_max=5) as cluster, cluster.client(0) as db:
        await cluster.stop(1, 2)
        async with asyncio.timeout(TIMEOUT_S):
            while cluster.servers[0].peers.connected_members():
                await asyncio.sleep(0.01)
        waiting = [db.strong.put("a", number) for number in range(5)]
        for call in waiting:
            await call.tentative
        assert (await db.status())["undecided"] == 5
        with pytest.raises(NotDone, match=r"5 strong calls await.* reaches 0 of 2") as rejection:
            await db.strong.put("a", 5)
        assert rejection.value.reason == RejectReason.NO_MAJORITY
        await db.weak.put("b", 1)  # weak calls continue
        await cluster.start(1)
        for number, call in enumerate(waiting):
            assert await call.stable == (number - 1 if number else None)
        assert await db.strong.put("a", 6) == 4
        assert (await db.status())["undecided"] == 0


def expiry_marks(server: Server) -> list[Key]:
    state = server.driver.replica.view.state()
    return [key for key in state if isinstance(key, tuple) and key[:2] == (CALLS_PREFIX, NO_CLIENT)]


def overload(*queues: CallQueue) -> list[Dot]:
    """Fill queues with calls that have waited for too long, and return these."""
    calls = [Dot(9, event) for event in range(1, 1000)]
    for queue in queues:
        for call in calls:
            queue.add(call)
            queue._arrivals[call] = -(10.0**6)
    return calls


@pytest.mark.parametrize("name", ["pending", "uncommitted"])
async def test_calls_are_rejected_as_busy_while_queued_calls_are_too_old(
    tmp_path: Path, name: str
) -> None:
    async with running_cluster(tmp_path, 1, busy_after=1e4) as cluster, cluster.client() as db:
        admission = cluster.servers[0].admission
        await db.weak.put("a", 1).final
        queue = getattr(admission, name)
        calls = overload(queue)
        for call in (db.weak, db.strong):
            with pytest.raises(NotDone, match="this replica is overloaded") as rejection:
                await call.put("a", 2)
            assert rejection.value.reason == RejectReason.BUSY
        if queue is admission.uncommitted:
            assert await db.weak.get("a") == 1, "a local read needs no commitment"
        for each in calls:
            queue.serve(each)
        assert await db.weak.put("a", 3) == 1
        await cluster.until_quiescent()
        assert not admission.pending
        assert not admission.uncommitted


@pytest.mark.parametrize("busy", [False, True])
async def test_the_leader_expires_old_calls_on_all_replicas(tmp_path: Path, busy: bool) -> None:
    async with running_cluster(tmp_path, forget_after=0.5) as cluster:
        async with cluster.client(0) as db:
            for number in range(10):
                await db.strong.put("a", number)
        for server in cluster.servers.values() if busy else ():
            overload(server.admission.pending, server.admission.uncommitted)
            rejection = server.admission.rejection(False, False)
            assert rejection is not None
            assert rejection[0] == RejectReason.BUSY
        async with asyncio.timeout(TIMEOUT_S):
            for server in cluster.servers.values():
                while set(server.driver.replica.view.state()) - set(expiry_marks(server)) != {"a"}:
                    await asyncio.sleep(0.02)
                assert len(expiry_marks(server)) > INTERVALS_PER_RETENTION


def test_old_calls_expire_in_batches() -> None:
    state, requests = StateObject(DeduplicatingDataType(KV)), 0

    def execute(operation: Operation, timestamp: int) -> object:
        nonlocal requests
        requests += 1
        request = Request(timestamp, Dot(0, requests), operation, strong=False)
        execution = state.run(request)
        state.install(request, execution)
        return execution.outcome.value

    calls = EXPIRY_BATCH_MAX + 100
    for number in range(calls):
        client = "ann" if number < 300 else "bob"
        execute(wrap_call(client, number, KV.call("put", "a", number)), 1_000 + number)
    first = execute(expire_calls(1_000 + calls - 10), 5_000)
    assert first == (EXPIRY_BATCH_MAX, "bob", EXPIRY_BATCH_MAX)
    rest = execute(expire_calls(1_000 + calls - 10, "bob", EXPIRY_BATCH_MAX), 5_001)
    assert rest == (90,)
    remaining = [
        key for key, _ in state.items() if isinstance(key, tuple) and key[0] == CALLS_PREFIX
    ]
    assert remaining == [(CALLS_PREFIX, "bob", number) for number in range(calls - 10, calls)]


@pytest.mark.parametrize("name", ["strong_max", "forget_after", "operation_limit", "busy_after"])
async def test_limits_must_be_positive(tmp_path: Path, name: str) -> None:
    settings: dict[str, Any] = {name: 0}
    with pytest.raises(BadValue, match=f"{name} is 0: it must be above 0"):
        await InProcessCluster(tmp_path, **settings).start(0)
