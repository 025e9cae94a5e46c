"""Whoever says nothing: connections to them do not pile up, and do not stay for ever."""

import asyncio
import gc
import socket
from pathlib import Path
from typing import Any

import pytest

from creekdb.server.transport import client_connection, keepalive, peer_link, peers
from creekdb.wire.messages import frame_payload
from tests.cluster.house import PATIENCE_S, House, house, run


def test_a_peer_that_says_no_hello_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_link, "DIAL_S", 0.05)
    open_now, dialled = 0, 0

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, dialled
        open_now, dialled = open_now + 1, dialled + 1
        await reader.read()  # its hello, and then the end
        open_now -= 1
        writer.close()

    async def story() -> None:
        cluster = House(tmp_path, 2)
        port = int(cluster.config(1).members[1].rpartition(":")[2])
        async with await asyncio.start_server(listen, "127.0.0.1", port):
            await cluster.start(0)
            async with asyncio.timeout(PATIENCE_S):
                while dialled < 4 or open_now > 1:
                    await asyncio.sleep(0.01)
            assert cluster.servers[0].rejections["no hello"] >= 3
            await cluster.stop()
            async with asyncio.timeout(PATIENCE_S):
                while open_now:
                    await asyncio.sleep(0.01)

    run(story())


def talkers() -> list[peer_link.PeerSender]:
    return [each for each in gc.get_objects() if isinstance(each, peer_link.PeerSender)]


def test_a_peer_that_hangs_up_at_once_leaves_nothing_for_the_garbage_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live replica hardly ever looks for garbage (`creekdb.execution.python_runtime`)."""
    monkeypatch.setattr(peer_link, "PAUSE_MAX_S", 0.01)
    monkeypatch.setattr(peer_link, "PAUSE_MIN_S", 0.01)
    dialled = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialled
        dialled += 1
        if dialled % 2:
            writer.write(b"garbage" * 10)
        writer.close()

    async def story() -> None:
        cluster = House(tmp_path, 2)
        port = int(cluster.config(1).members[1].rpartition(":")[2])
        async with await asyncio.start_server(hang_up, "127.0.0.1", port):
            await cluster.start(0)
            async with asyncio.timeout(PATIENCE_S):
                while dialled < 20:
                    await asyncio.sleep(0.01)
            made = len(talkers()) - len(others)
            assert made <= 2, "the one in use, and one that is about to go"
            await cluster.stop()

    gc.collect()
    others = talkers()  # what an earlier test has left, and something still holds
    gc.disable()
    try:
        run(story())
    finally:
        gc.enable()


@pytest.mark.parametrize("door", ["members", "clients"])
def test_who_dials_and_says_no_hello_or_a_long_one_is_hung_up_on(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepalive, "HELLO_S", 0.05)

    async def story() -> None:
        async with house(tmp_path, 1) as cluster:
            config = cluster.config(0)
            address = config.members[0] if door == "members" else config.clients
            host, port = address.split(":")
            for said in (b"", frame_payload(b"x" * 100_000)[:50]):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(said)
                async with asyncio.timeout(PATIENCE_S):
                    await reader.read()  # until the end
                writer.close()
            assert cluster.servers[0].rejections.total() == 2
            assert not cluster.servers[0].peers.receivers

    run(story())


def test_the_system_looks_whether_the_other_end_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_after: list[tuple[int, int]] = []
    notice = keepalive.enable_keepalive

    def noticed(transport: Any) -> None:
        notice(transport)
        connection = transport.get_extra_info("socket")
        looked_after.append(
            (
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
            )
        )

    monkeypatch.setattr(peers, "notice_silence", noticed)
    monkeypatch.setattr(peer_link, "notice_silence", noticed)
    monkeypatch.setattr(client_connection, "notice_silence", noticed)

    async def story() -> None:
        async with house(tmp_path, 2) as cluster, cluster.client(0):
            pass

    run(story())
    assert len(looked_after) >= 5, "two that were dialled, with both ends, and one of a client"
    assert set(looked_after) == {(1, keepalive.UNACKNOWLEDGED_MAX_MS)}
