"""Replicas that lose each other, and find each other again."""

import asyncio
from pathlib import Path

import pytest

from creekdb.server.transport import peer_link
from tests.cluster.house import House, run


def test_a_peer_that_comes_back_is_dialled_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_link, "PAUSE_MIN_S", 3600.0)
    monkeypatch.setattr(peer_link, "PAUSE_MAX_S", 3600.0)

    async def story() -> None:
        cluster = House(tmp_path, replicas=2)
        await cluster.start(0)
        while not cluster.servers[0].rejections["could not reach a peer"]:
            await asyncio.sleep(0.01)
        await cluster.start(1)
        await cluster.until_connected()
        await cluster.stop()

    run(story())
