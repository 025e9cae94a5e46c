"""Where operations run: a long one, executed in a thread, holds up nothing but other operations."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import creekdb
from creekdb.execution.keys import FIRST_COLLATION_KEY, LAST_COLLATION_KEY
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.server.runtime.replica_lock import LockedView, ReplicaLock
from tests.cluster import slow
from tests.cluster.house import PATIENCE_S, House, house
from tests.unit.execution.mvcc.store_fixture import arrived

SLOW = "tests.cluster.slow:slow"


def run(story: object) -> None:
    asyncio.run(story)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _let_go() -> Iterator[None]:
    slow.begun.clear()
    slow.go_on.clear()
    yield
    slow.go_on.set()


async def until_begun() -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not slow.begun.is_set():
            await asyncio.sleep(0.005)


def test_weak_and_strong_calls_are_answered_from_a_thread(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, execution="threads") as cluster:
            async with cluster.client(0) as first, cluster.client(1) as second:
                for db in (first, second):
                    calls = [db.weak.increment("n") for _ in range(100)]
                    strong = [db.strong.put(f"key {number}", number) for number in range(20)]
                    for call in (*calls, *strong):
                        await call
                finals = [await db.weak.increment("n").final for db in (first, second)]
                assert max(each.value for each in finals) == 202
                assert len(await first.strong.scan("key ")) == 20
            await cluster.until_settled()
            states = [server.driver.replica.state() for server in cluster.servers.values()]
            assert states[0] == states[1] == states[2]

    run(story())


@pytest.mark.parametrize("execution", ["inline", "threads"])
def test_an_operation_that_raises_what_ctrl_c_does_ends_no_replica(
    execution: str, tmp_path: Path
) -> None:
    async def story() -> None:
        async with house(tmp_path, 1, execution=execution, datatype=SLOW) as cluster:
            for _ in range(2):
                async with cluster.client(0) as db:
                    with pytest.raises(creekdb.OperationFailed, match="KeyboardInterrupt"):
                        await db.strong.interrupt()
                await cluster.stop(0)
                await cluster.start(0)

    run(story())


def test_calls_wait_until_what_was_issued_before_a_restart_is_executed(tmp_path: Path) -> None:
    """Those for whom it was issued come back, and have to see it."""

    async def story() -> None:
        cluster = House(tmp_path, 1, datatype=SLOW, execution="threads")
        slow.go_on.set()
        await cluster.start()
        async with cluster.client() as db:
            assert await db.weak.hang("a") == 0
        await cluster.stop()
        slow.begun.clear()
        slow.go_on.clear()
        await cluster.start()
        await until_begun()
        async with cluster.client() as db:
            server = cluster.servers[0]
            call = db.weak.hang("a")
            async with asyncio.timeout(PATIENCE_S):
                while not server.dispatcher.dependency_queue:
                    await asyncio.sleep(0.005)
            assert not server.dispatcher.open_calls(), "it would be issued"
            slow.go_on.set()
            assert await call == 1
        await cluster.stop()

    run(story())


def test_a_long_operation_does_not_hold_up_the_replica(tmp_path: Path) -> None:
    """It goes on to vote and to be heard, and answers who asks how it is."""

    async def story() -> None:
        cluster = House(tmp_path, datatype=SLOW, operation_limit=0.05)
        await cluster.start(0, execution="threads")
        await cluster.start(1, 2)
        await cluster.until_connected()
        held = cluster.client(0)
        async with held, cluster.client(0) as looking, cluster.client(1) as other:
            slow_call = held.weak.hang("a")
            # The others would hang as well, and inline at that: they have not heard of it.
            for peer in (1, 2):
                cluster.servers[0].peers.links[peer].send = lambda frame: None  # type: ignore[method-assign]
            first = asyncio.ensure_future(_answer(slow_call))
            await until_begun()
            async with asyncio.timeout(PATIENCE_S):
                while (status := await looking.status())["long_operations"]["running"] is None:
                    await asyncio.sleep(0.01)
            assert status["long_operations"]["running"].startswith("hang('a') for ")
            await other.weak.put("b", 2)
            replica = cluster.servers[0].driver.replica
            async with asyncio.timeout(PATIENCE_S):
                while len(replica.tentative_ids()) < 2:  # it has heard of that
                    await asyncio.sleep(0.01)
            assert not first.done()
            slow.go_on.set()
            assert await first == 0
            ended = (await looking.status())["long_operations"]
            assert ended["long"] == 1
            assert ended["last"].startswith("hang('a') took ")
        await cluster.stop()

    async def _answer(call: object) -> object:
        return await call  # type: ignore[misc]

    run(story())


def test_what_only_reads_sees_one_state_also_when_it_takes_long(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, 1, datatype=SLOW, execution="threads") as cluster:
            server = cluster.servers[0]
            async with cluster.client() as db:
                await db.weak.pair("one", "other", 1)
                reading = asyncio.ensure_future(_answer(db.weak.both("one", "other")))
                await until_begun()
                # Written while it runs, behind the back of the one thread that executes.
                replica = server.driver.replica
                with server.driver.executor.lock:
                    operation = slow.slow.call("pair", "one", "other", 2)
                    replica.invoke(operation, False, 99, 10**18)
                    for task in replica.take_effects().tasks:
                        replica.completed(task, replica.run(task), 10**18)
                slow.go_on.set()
                assert await reading == (2, 2)

    async def _answer(call: object) -> object:
        return await call  # type: ignore[misc]

    run(story())


def test_an_operation_that_broke_in_a_thread_stops_the_replica(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, 1, execution="threads") as cluster, cluster.client() as db:
            await db.weak.put("a", 1)
            server = cluster.servers[0]

            def broken(task: object) -> None:
                raise AssertionError("this cannot be")

            server.driver.replica.run = broken  # type: ignore[assignment, method-assign]
            call = asyncio.ensure_future(_answer(db.weak.put("a", 2)))
            async with asyncio.timeout(PATIENCE_S):
                await server.stop_requested.wait()
            assert "this cannot be" in str(server.failure)
            call.cancel()

    async def _answer(call: object) -> object:
        return await call  # type: ignore[misc]

    run(story())


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_from_outside_finds_what_one_from_inside_does(reverse: bool) -> None:
    numbers = random.Random(1).sample(range(10_000), 300)
    store = VersionStore()
    store.load(arrived(*((("key", number), number) for number in numbers)))
    position = (10, 0, 0, 0)
    inside = list(store.snapshot(position).keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, reverse))
    view = LockedView(store.snapshot(position), ReplicaLock())
    assert list(view.keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, reverse)) == inside
    assert len(inside) == 300
