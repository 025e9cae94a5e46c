"""Clients whose replica fails before it responds."""

from pathlib import Path
from typing import Any

from creekdb.client.calls import Call
from creekdb.protocol.ids.version_vector import Dot
from tests.cluster.fault_scenario import fault_scenario
from tests.cluster.in_process_cluster import running_cluster


async def test_an_executed_call_without_a_response_is_not_executed_again(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        await cluster.load(60)
        db = await cluster.client(0, 1, 2)
        for peer in (1, 2):
            cluster.links.cut(peer, 0)
        call = db.strong.increment("n")
        assert await call.tentative == 1
        assert call.id is not None
        second = await cluster.client(1)
        assert await second.weak.after(call).get("n") == 1  # the request has arrived there
        cluster.processes.kill(0)
        cluster.links.heal()
        assert await call == 1
        assert db.replica != 0
        assert await db.strong.get("n") == 1
        cluster.processes.start(0)


async def test_a_call_to_a_killed_replica_completes_at_another(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        await cluster.load(60, at=[(1, 2), (2, 1)])
        db = await cluster.client(0, 1, 2)
        cluster.processes.freeze(0)
        calls = [db.weak.increment("n"), db.strong.increment("n")]
        cluster.processes.kill(0)
        assert [await each for each in calls] == [1, 2]
        cluster.processes.start(0)
        await cluster.until_ready()
        assert await (await cluster.client(0)).strong.get("n") == 2


async def test_a_call_waits_for_a_missing_dependency(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        first, second = await cluster.client(0), await cluster.client(1)
        cluster.links.partition((0,))
        order = first.weak.put("order", "lamp")
        await order
        assert await second.weak.get("order") is None
        read = second.weak.after(order).get("order")
        load = await cluster.load(60, at=[(1, 2), (2, 1)])
        await load.finish()
        cluster.links.heal()
        assert await read == "lamp"


async def test_a_call_sees_its_dependency_as_soon_as_it_arrives(tmp_path: Path) -> None:
    # With a long tick interval, only clients issue requests.
    slow_cluster = running_cluster(tmp_path, replicas=2, tick_ms=1000, fresh=True)
    async with slow_cluster as cluster, cluster.client(0) as first, cluster.client(1) as second:
        first_id = await issued_id(first.weak.put("order", "bulb"))
        assert await second.weak.after(first_id).get("order") == "bulb"
        next_request = Dot(0, first_id.event + 1)
        read = second.weak.after(next_request).get("order")
        increment = second.weak.after(next_request).increment("orders")
        await second.status()  # the replica has received both calls
        await first.weak.put("order", "lamp")
        assert await read == "lamp"
        assert await increment == 1


async def issued_id(call: Call[Any]) -> Dot:
    await call
    assert call.id is not None
    return call.id
