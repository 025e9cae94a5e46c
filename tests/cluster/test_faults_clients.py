"""Clients whose replica is gone before it has answered."""

from pathlib import Path

from creekdb.client.calls import Call
from creekdb.protocol.ids.version_vector import Dot
from tests.cluster.faults_story import Cluster, tell
from tests.cluster.house import house, run


def test_a_call_that_was_done_and_not_answered_is_not_done_again(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.load(60)
        db = await cluster.client(0, 1, 2)
        for deaf in (1, 2):
            cluster.links.cut(deaf, 0)
        call = db.strong.increment("n")
        assert await call.tentative == 1
        assert call.id is not None
        other = await cluster.client(1)
        assert await other.weak.after(call).get("n") == 1  # it has arrived there
        cluster.processes.kill(0)
        cluster.links.mend()
        assert await call == 1
        assert db.replica != 0
        assert await db.strong.get("n") == 1
        cluster.processes.start(0)

    tell(tmp_path, story)


def test_a_call_to_a_replica_that_dies_is_answered_by_another(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.load(60, at=[(1, 2), (2, 1)])
        db = await cluster.client(0, 1, 2)
        cluster.processes.freeze(0)
        calls = [db.weak.increment("n"), db.strong.increment("n")]
        cluster.processes.kill(0)
        assert [await each for each in calls] == [1, 2]
        cluster.processes.start(0)
        await cluster.up()
        assert await (await cluster.client(0)).strong.get("n") == 2

    tell(tmp_path, story)


def test_a_call_waits_where_what_it_comes_after_has_not_arrived(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        one, other = await cluster.client(0), await cluster.client(1)
        cluster.links.divide((0,))
        order = one.weak.put("order", "lamp")
        await order
        assert await other.weak.get("order") is None
        waits = other.weak.after(order).get("order")
        load = await cluster.load(60, at=[(1, 2), (2, 1)])
        await load.ends()
        cluster.links.mend()
        assert await waits == "lamp"

    tell(tmp_path, story)


def test_a_call_sees_what_it_comes_after_as_soon_as_that_arrives(tmp_path: Path) -> None:
    async def story() -> None:
        # With a slow beat, nobody issues anything but the clients.
        slow = house(tmp_path, replicas=2, tick_ms=1000, fresh=True)
        async with slow as cluster, cluster.client(0) as one, cluster.client(1) as other:
            first = await issued(one.weak.put("order", "bulb"))
            assert await other.weak.after(first).get("order") == "bulb"
            coming = Dot(0, first.event + 1)
            waits = other.weak.after(coming).get("order")
            counts = other.weak.after(coming).increment("orders")
            await other.status()  # it has heard of both
            await one.weak.put("order", "lamp")
            assert await waits == "lamp"
            assert await counts == 1

    run(story())


async def issued(call: Call) -> Dot:
    await call
    assert call.id is not None
    return call.id
