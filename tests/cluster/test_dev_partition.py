"""Links cut by the development controls of `creek up`."""

import asyncio
from pathlib import Path

from creekdb.server.runtime.server import Server
from creekdb.wire.dev_control import DevControl
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster


def cut(server: Server, *replicas: int) -> None:
    server.apply_dev_control(DevControl(control="", secret="", pages={}, cut=replicas))


async def until_connected(server: Server, *replicas: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while sorted(server.peers.connected_members()) != list(replicas):
            await asyncio.sleep(0.01)


async def isolate(cluster: InProcessCluster) -> None:
    servers = cluster.servers
    cut(servers[0], 1, 2)
    cut(servers[1], 0)
    cut(servers[2], 0)
    await until_connected(servers[0])
    await until_connected(servers[1], 2)


async def test_both_sides_continue_and_converge_after_healing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client(0) as isolated:
        async with cluster.client(1) as majority:
            await isolated.strong.put("lamp", 1)
            await isolate(cluster)
            weak = isolated.weak.put("lamp", 7)
            assert await weak == 1  # responds at once without the other replicas
            assert await majority.strong.put("lamp", 5) == 1
            assert cluster.servers[0].status()["tentative"] >= 1
            for server in cluster.servers.values():
                cut(server)
            outcome = await weak.final
            assert (outcome.value, outcome.changed) == (5, True)
        await cluster.until_connected()
        await cluster.until_quiescent()
        states = [server.driver.replica.view.state()["lamp"] for server in cluster.servers.values()]
        assert states == [7, 7, 7]


async def test_a_link_cut_at_one_end_is_cut_in_both_directions(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2) as cluster, cluster.client(0) as db:
        cutting, other = cluster.servers[0], cluster.servers[1]
        cut(cutting, 1)
        await until_connected(cutting)
        before = other.status()["committed"] + other.status()["tentative"]
        await db.weak.put("lamp", 1)
        for _ in range(20):
            cutting.driver.tick()
            other.driver.tick()
            await asyncio.sleep(0.01)
        assert other.status()["committed"] + other.status()["tentative"] == before
        cut(cutting)
        await cluster.until_connected()
        await cluster.until_quiescent()
        assert other.status()["committed"] > before


async def test_cuts_of_own_and_unknown_replicas_are_ignored(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2) as cluster:
        server = cluster.servers[0]
        cut(server, 0, 9)
        assert server.peers.disconnected == frozenset()
        assert server.peers.connected_members() == [1]
