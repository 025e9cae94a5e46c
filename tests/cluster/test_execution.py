"""Execution inline and in a thread. A long operation in a thread delays only other operations."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import creekdb
from creekdb.execution.keys import FIRST_COLLATION_KEY, LAST_COLLATION_KEY
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.schemes.creek import CreekReplica
from creekdb.server.runtime.replica_lock import LockedView, ReplicaLock
from creekdb.wire.event_log import LOGGER_NAME
from tests.cluster import slow_types
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster
from tests.unit.execution.mvcc.store_fixture import loaded_state

SLOW = "tests.cluster.slow_types:slow"


@pytest.fixture(autouse=True)
def _release_operations() -> Iterator[None]:
    slow_types.started.clear()
    slow_types.may_continue.clear()
    yield
    slow_types.may_continue.set()


async def until_started() -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not slow_types.started.is_set():
            await asyncio.sleep(0.005)


async def test_a_thread_executes_weak_and_strong_calls(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, execution="threads") as cluster:
        async with cluster.client(0) as first, cluster.client(1) as second:
            for db in (first, second):
                calls = [db.weak.increment("n") for _ in range(100)]
                strong = [db.strong.put(f"key {number}", number) for number in range(20)]
                for call in (*calls, *strong):
                    await call
            finals = [await db.weak.increment("n").final for db in (first, second)]
            assert max(each.value for each in finals) == 202
            assert len(await first.strong.scan("key ")) == 20
        await cluster.until_quiescent()
        states = [server.driver.replica.view.state() for server in cluster.servers.values()]
        assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("execution", ["inline", "threads"])
async def test_a_replica_logs_the_trace_of_an_error_once(
    execution: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", LOGGER_NAME)
    async with running_cluster(tmp_path, 1, execution=execution) as cluster:
        async with cluster.client(0) as db:
            await db.weak.put("lamp", "three")
            for call in (db.weak.increment, db.strong.increment, db.weak.increment):
                with pytest.raises(creekdb.OperationFailed, match="'lamp' holds a str"):
                    await call("lamp")
        journal = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    events = [each for each in caplog.records if "operation.raised" in str(vars(each))]
    assert len(events) == 1
    fields = vars(events[0])["creek_fields"]
    assert fields["operation"] == "increment"
    assert "in increment" in fields["trace"]
    assert b"Traceback" not in journal


@pytest.mark.parametrize("execution", ["inline", "threads"])
async def test_an_operation_that_raises_keyboard_interrupt_does_not_stop_the_replica(
    execution: str, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, 1, execution=execution, datatype=SLOW) as cluster:
        for _ in range(2):
            async with cluster.client(0) as db:
                with pytest.raises(creekdb.OperationFailed, match="KeyboardInterrupt"):
                    await db.strong.interrupt()
            await cluster.stop(0)
            await cluster.start(0)


async def test_calls_wait_for_requests_issued_before_a_restart(tmp_path: Path) -> None:
    """The clients of those requests may call again, and must see their effects."""
    cluster = InProcessCluster(tmp_path, 1, datatype=SLOW, execution="threads")
    slow_types.may_continue.set()
    await cluster.start()
    async with cluster.client() as db:
        assert await db.weak.hang("a") == 0
    await cluster.stop()
    slow_types.started.clear()
    slow_types.may_continue.clear()
    await cluster.start()
    await until_started()
    async with cluster.client() as db:
        server = cluster.servers[0]
        call = db.weak.hang("a")
        async with asyncio.timeout(TIMEOUT_S):
            while not server.dispatcher.queued_count:
                await asyncio.sleep(0.005)
        assert not server.dispatcher.open_calls(), "the call must not be issued yet"
        slow_types.may_continue.set()
        assert await call == 1
    await cluster.stop()


async def test_a_long_operation_does_not_block_the_replica(tmp_path: Path) -> None:
    """The replica continues to vote, to send messages and to report its status."""

    async def response_of(call: object) -> object:
        return await call  # type: ignore[misc]

    cluster = InProcessCluster(tmp_path, datatype=SLOW, operation_limit=0.05)
    await cluster.start(0, execution="threads")
    await cluster.start(1, 2)
    await cluster.until_connected()
    caller = cluster.client(0)
    async with caller, cluster.client(0) as observer, cluster.client(1) as other:
        slow_call = caller.weak.hang("a")
        # The other replicas execute inline and would hang, so they receive no request.
        for peer in (1, 2):
            cluster.drop_messages(sender=0, receiver=peer)
        first = asyncio.ensure_future(response_of(slow_call))
        await until_started()
        async with asyncio.timeout(TIMEOUT_S):
            while (status := await observer.status())["long_operations"]["running"] is None:
                await asyncio.sleep(0.01)
        assert status["long_operations"]["running"].startswith("hang('a') for ")
        await other.weak.put("b", 2)
        replica = cluster.servers[0].driver.replica
        async with asyncio.timeout(TIMEOUT_S):
            while len(replica.view.tentative_ids()) < 2:  # the request has arrived
                await asyncio.sleep(0.01)
        assert not first.done()
        slow_types.may_continue.set()
        assert await first == 0
        ended = (await observer.status())["long_operations"]
        assert ended["long"] == 1
        assert ended["last"].startswith("hang('a') took ")
    await cluster.stop()


async def test_a_long_read_sees_one_state(tmp_path: Path) -> None:
    async def response_of(call: object) -> object:
        return await call  # type: ignore[misc]

    async with running_cluster(tmp_path, 1, datatype=SLOW, execution="threads") as cluster:
        server = cluster.servers[0]
        async with cluster.client() as db:
            await db.weak.pair("one", "other", 1)
            reading = asyncio.ensure_future(response_of(db.weak.both("one", "other")))
            await until_started()
            # Write during the read, without the thread that executes operations.
            replica = server.driver.replica
            with server.driver.executor.lock:
                operation = slow_types.slow.call("pair", "one", "other", 2)
                replica.invoke(operation, False, 99, 10**18)
                for task in replica.take_effects().tasks:
                    replica.completed(task, replica.run(task), 10**18)
            slow_types.may_continue.set()
            assert await reading == (2, 2)


async def test_an_internal_error_in_the_thread_stops_the_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def response_of(call: object) -> object:
        return await call  # type: ignore[misc]

    async with (
        running_cluster(tmp_path, 1, execution="threads") as cluster,
        cluster.client() as db,
    ):
        await db.weak.put("a", 1)
        server = cluster.servers[0]

        def fail(*_: object) -> None:
            raise AssertionError("internal error")

        monkeypatch.setattr(CreekReplica, "run", fail)
        call = asyncio.ensure_future(response_of(db.weak.put("a", 2)))
        async with asyncio.timeout(TIMEOUT_S):
            await server.stop_requested.wait()
        assert "internal error" in str(server.failure)
        call.cancel()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_locked_view_scans_the_same_keys(reverse: bool) -> None:
    numbers = random.Random(1).sample(range(10_000), 300)
    store = VersionStore()
    store.load(loaded_state(*((("key", number), number) for number in numbers)))
    position = (10, 0, 0, 0)
    expected = list(store.snapshot(position).keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, reverse))
    view = LockedView(store.snapshot(position), ReplicaLock())
    assert list(view.keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, reverse)) == expected
    assert len(expected) == 300
