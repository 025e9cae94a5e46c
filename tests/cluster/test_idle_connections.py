"""Idle connections are closed and do not accumulate."""

import asyncio
import gc
import socket
from pathlib import Path
from typing import Any

import pytest

from creekdb.server.runtime.server import ServerLimits
from creekdb.server.transport import client_connection, keepalive, peer_link, peers
from creekdb.wire.counters import ServerCounter
from creekdb.wire.messages import frame_payload
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster


async def test_a_peer_without_a_hello_is_disconnected(tmp_path: Path) -> None:
    limits = ServerLimits(peers=peer_link.PeerLimits(dial_timeout_s=0.05))
    open_connections, dial_count = 0, 0

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_connections, dial_count
        open_connections, dial_count = open_connections + 1, dial_count + 1
        await reader.read()  # the hello, and then the end of the stream
        open_connections -= 1
        writer.close()

    cluster = InProcessCluster(tmp_path, 2, limits)
    port = int(cluster.config(1).members[1].rpartition(":")[2])
    async with await asyncio.start_server(listen, "127.0.0.1", port):
        await cluster.start(0)
        async with asyncio.timeout(TIMEOUT_S):
            while dial_count < 4 or open_connections > 1:
                await asyncio.sleep(0.01)
        assert cluster.servers[0].rejections[ServerCounter.NO_HELLO] >= 3
        await cluster.stop()
        async with asyncio.timeout(TIMEOUT_S):
            while open_connections:
                await asyncio.sleep(0.01)


def peer_senders() -> list[peer_link.PeerSender]:
    return [each for each in gc.get_objects() if isinstance(each, peer_link.PeerSender)]


async def test_a_peer_that_disconnects_at_once_leaves_no_garbage(tmp_path: Path) -> None:
    """A live replica rarely runs the garbage collector (`creekdb.execution.python_runtime`)."""
    peer_limits = peer_link.PeerLimits(redial_pause_s_min=0.01, redial_pause_s_max=0.01)
    dial_count = 0

    async def close_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dial_count
        dial_count += 1
        if dial_count % 2:
            writer.write(b"garbage" * 10)
        writer.close()

    gc.collect()
    existing = peer_senders()  # objects of earlier tests that are still referenced
    gc.disable()
    try:
        cluster = InProcessCluster(tmp_path, 2, ServerLimits(peers=peer_limits))
        port = int(cluster.config(1).members[1].rpartition(":")[2])
        async with await asyncio.start_server(close_at_once, "127.0.0.1", port):
            await cluster.start(0)
            async with asyncio.timeout(TIMEOUT_S):
                while dial_count < 20:
                    await asyncio.sleep(0.01)
            created = len(peer_senders()) - len(existing)
            assert created <= 2, "one in use, and one that is being closed"
            await cluster.stop()
    finally:
        gc.enable()


@pytest.mark.parametrize("port_kind", ["members", "clients"])
async def test_a_connection_without_a_hello_or_with_a_long_one_is_closed(
    port_kind: str, tmp_path: Path
) -> None:
    limits = ServerLimits(
        connections=client_connection.ConnectionLimits(hello_timeout_s=0.05),
        peers=peer_link.PeerLimits(hello_timeout_s=0.05),
    )
    async with running_cluster(tmp_path, 1, limits) as cluster:
        config = cluster.config(0)
        address = config.members[0] if port_kind == "members" else config.clients
        host, port = address.split(":")
        for sent in (b"", frame_payload(b"x" * 100_000)[:50]):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            async with asyncio.timeout(TIMEOUT_S):
                await reader.read()  # until the end of the stream
            writer.close()
        assert cluster.servers[0].rejections.total() == 2
        assert not cluster.servers[0].peers.receivers


async def test_connections_enable_tcp_keepalive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket_options: list[tuple[int, int]] = []
    enable_keepalive = keepalive.enable_keepalive

    def record_options(transport: Any) -> None:
        enable_keepalive(transport)
        connection = transport.get_extra_info("socket")
        socket_options.append(
            (
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
            )
        )

    monkeypatch.setattr(peers, "enable_keepalive", record_options)
    monkeypatch.setattr(peer_link, "enable_keepalive", record_options)
    monkeypatch.setattr(client_connection, "enable_keepalive", record_options)
    async with running_cluster(tmp_path, 2) as cluster, cluster.client(0):
        pass
    assert len(socket_options) >= 5, "both ends of two peer connections, and one client connection"
    assert set(socket_options) == {(1, keepalive.UNACKNOWLEDGED_MAX_MS)}
