"""Links that a trial cuts: nothing passes; what both sides did is merged when they heal."""

import asyncio
from pathlib import Path

from creekdb.server.runtime.server import Server
from creekdb.wire.dev_control import DevControl
from tests.cluster.house import PATIENCE_S, House, house, run


def cut(server: Server, *replicas: int) -> None:
    server.apply_dev_control(DevControl(control="", secret="", pages={}, cut=replicas))


async def until_connected(server: Server, *replicas: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while sorted(server.peers.connected_members()) != list(replicas):
            await asyncio.sleep(0.01)


async def isolate(cluster: House) -> None:
    servers = cluster.servers
    cut(servers[0], 1, 2)
    cut(servers[1], 0)
    cut(servers[2], 0)
    await until_connected(servers[0])
    await until_connected(servers[1], 2)


def test_both_sides_go_on_and_come_to_the_same(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as here:
            async with cluster.client(1) as there:
                await here.strong.put("lamp", 1)
                await isolate(cluster)
                weak = here.weak.put("lamp", 7)
                assert await weak == 1  # answered at once, out of touch with the others
                assert await there.strong.put("lamp", 5) == 1
                assert cluster.servers[0].status()["tentative"] >= 1
                for server in cluster.servers.values():
                    cut(server)
                ended = await weak.final
                assert (ended.value, ended.changed) == (5, True)
            await cluster.until_connected()
            await cluster.until_settled()
            states = [server.driver.replica.state()["lamp"] for server in cluster.servers.values()]
            assert states == [7, 7, 7]

    run(story())


def test_a_link_that_one_end_cuts_carries_nothing_either_way(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, 2) as cluster, cluster.client(0) as db:
            one, other = cluster.servers[0], cluster.servers[1]
            cut(one, 1)
            await until_connected(one)
            heard = other.status()["committed"] + other.status()["tentative"]
            await db.weak.put("lamp", 1)
            for _ in range(20):
                one.driver.tick()
                other.driver.tick()
                await asyncio.sleep(0.01)
            assert other.status()["committed"] + other.status()["tentative"] == heard
            cut(one)
            await cluster.until_connected()
            await cluster.until_settled()
            assert other.status()["committed"] > heard

    run(story())


def test_one_cannot_cut_off_oneself_or_a_stranger(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, 2) as cluster:
            server = cluster.servers[0]
            cut(server, 0, 9)
            assert server.peers.disconnected == frozenset()
            assert server.peers.connected_members() == [1]

    run(story())
