"""Reconnection of peers."""

import asyncio
from pathlib import Path

import pytest

from creekdb.server.transport import peer_link
from creekdb.wire.counters import ServerCounter
from tests.cluster.in_process_cluster import InProcessCluster


async def test_a_restarted_peer_is_dialled_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_link, "REDIAL_PAUSE_MIN_S", 3600.0)
    monkeypatch.setattr(peer_link, "REDIAL_PAUSE_MAX_S", 3600.0)
    cluster = InProcessCluster(tmp_path, replicas=2)
    await cluster.start(0)
    while not cluster.servers[0].rejections[ServerCounter.PEER_UNREACHABLE]:
        await asyncio.sleep(0.01)
    await cluster.start(1)
    await cluster.until_connected()
    await cluster.stop()
