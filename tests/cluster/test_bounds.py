"""What may wait is bounded, and what is kept is forgotten in time."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from creekdb.client import NotDone
from creekdb.datatypes.kv import KV
from creekdb.errors import BadValue
from creekdb.execution.keys import CALLS_PREFIX
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key
from creekdb.schemes.core.replica import Replica
from creekdb.server.calls.admission_control import TICK_INTERVAL_MAX_S
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.server.calls.expiry import INTERVALS_PER_RETENTION, NO_CLIENT
from creekdb.server.runtime.server import Server
from creekdb.wire.deduplication import EXPIRY_BATCH_MAX, expire_calls, wrap_call
from tests.cluster.house import PATIENCE_S, House, house


def run(story: object) -> None:
    asyncio.run(story)  # type: ignore[arg-type]


def test_strong_calls_that_wait_for_a_majority_are_bounded(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, strong_max=5) as cluster, cluster.client(0) as db:
            await cluster.stop(1, 2)
            async with asyncio.timeout(PATIENCE_S):
                while cluster.servers[0].peers.connected_members():
                    await asyncio.sleep(0.01)
            waiting = [db.strong.put("a", number) for number in range(5)]
            for call in waiting:
                await call.tentative
            assert (await db.status())["undecided"] == 5
            with pytest.raises(NotDone, match=r"5 strong calls wait.* reaches 0 of 2") as refused:
                await db.strong.put("a", 5)
            assert refused.value.reason == "no_majority"
            await db.weak.put("b", 1)  # goes on
            await cluster.start(1)
            for number, call in enumerate(waiting):
                assert await call.stable == (number - 1 if number else None)
            assert await db.strong.put("a", 6) == 4
            assert (await db.status())["undecided"] == 0

    run(story())


def marks(server: Server) -> list[Key]:
    state = server.driver.replica.state()
    return [key for key in state if isinstance(key, tuple) and key[:2] == (CALLS_PREFIX, NO_CLIENT)]


class Behind:
    """A replica whose clients have waited for so many ticks."""

    def __init__(self, replica: Replica, ticks: int) -> None:
        self._replica = replica
        self._ticks = ticks

    def kept_waiting(self) -> int:
        return self._ticks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replica, name)


def test_who_calls_where_others_wait_for_long_is_told_to_come_later(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, 1, busy_after=10.0) as cluster, cluster.client() as db:
            server = cluster.servers[0]
            replica = server.driver.replica
            server.driver.replica = cast(
                Replica, Behind(replica, int(10 / TICK_INTERVAL_MAX_S) - 1)
            )
            await db.weak.put("a", 1)
            server.driver.replica = cast(Replica, Behind(replica, 10**6))
            for call in (db.weak, db.strong):
                with pytest.raises(NotDone, match="more to do than it can") as refused:
                    await call.put("a", 2)
                assert refused.value.reason == "busy"
            server.driver.replica = replica
            assert await db.weak.put("a", 3) == 1

    run(story())


@pytest.mark.parametrize("busy", [False, True])
def test_whoever_leads_forgets_old_calls_for_all(tmp_path: Path, busy: bool) -> None:
    async def story() -> None:
        async with house(tmp_path, forget_after=0.5) as cluster:
            async with cluster.client(0) as db:
                for number in range(10):
                    await db.strong.put("a", number)
            for server in cluster.servers.values() if busy else ():
                server.driver.replica = cast(Replica, Behind(server.driver.replica, 10**6))
                refusal = server.admission.rejection(False, False)
                assert refusal is not None
                assert refusal[0] == "busy"
            async with asyncio.timeout(PATIENCE_S):
                for server in cluster.servers.values():
                    while set(server.driver.replica.state()) - set(marks(server)) != {"a"}:
                        await asyncio.sleep(0.02)
                    assert len(marks(server)) > INTERVALS_PER_RETENTION

    run(story())


def test_old_calls_are_forgotten_some_at_a_time() -> None:
    state, counted = StateObject(DeduplicatingDataType(KV)), 0

    def carry_out(operation: Operation, timestamp: int) -> object:
        nonlocal counted
        counted += 1
        request = Request(timestamp, Dot(0, counted), operation, strong=False)
        execution = state.run(request)
        state.install(request, execution)
        return execution.outcome.value

    calls = EXPIRY_BATCH_MAX + 100
    for number in range(calls):
        client = "ann" if number < 300 else "bob"
        carry_out(wrap_call(client, number, KV.call("put", "a", number)), 1_000 + number)
    first = carry_out(expire_calls(1_000 + calls - 10), 5_000)
    assert first == (EXPIRY_BATCH_MAX, "bob", EXPIRY_BATCH_MAX)
    rest = carry_out(expire_calls(1_000 + calls - 10, "bob", EXPIRY_BATCH_MAX), 5_001)
    assert rest == (90,)
    kept = [key for key, _ in state.items() if isinstance(key, tuple) and key[0] == CALLS_PREFIX]
    assert kept == [(CALLS_PREFIX, "bob", number) for number in range(calls - 10, calls)]


@pytest.mark.parametrize("name", ["strong_max", "forget_after", "operation_limit", "busy_after"])
def test_bounds_that_are_none_are_refused(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        await House(tmp_path, **{name: 0}).start(0)

    with pytest.raises(BadValue, match=f"{name} is 0: it must be above 0"):
        run(story())
