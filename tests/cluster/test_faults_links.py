"""Reconnection of peers."""

import asyncio
from pathlib import Path

from creekdb.server.runtime.server import ServerLimits
from creekdb.server.transport.peer_link import PeerLimits
from creekdb.wire.counters import ServerCounter
from tests.cluster.in_process_cluster import InProcessCluster


async def test_a_restarted_peer_is_dialled_at_once(tmp_path: Path) -> None:
    peer_limits = PeerLimits(redial_pause_s_min=3600.0, redial_pause_s_max=3600.0)
    cluster = InProcessCluster(tmp_path, 2, ServerLimits(peers=peer_limits))
    await cluster.start(0)
    while not cluster.servers[0].rejections[ServerCounter.PEER_UNREACHABLE]:
        await asyncio.sleep(0.01)
    await cluster.start(1)
    await cluster.until_connected()
    assert cluster.servers[0].peers.links.keys() == {1}
    assert list(cluster.servers[0].peers.connected_members()) == [1]
    await cluster.stop()
