"""Backups of a running cluster, and the commands `creek backup` and `creek restore`."""

import asyncio
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from creekdb.cli.app import main
from creekdb.cli.options import CommandLimits
from creekdb.client import NotDone, connect
from creekdb.client.replica_connection import ReplicaConnection, dial
from creekdb.datatypes.kv import KV
from creekdb.errors import StorageFault, UsageError
from creekdb.history import merge_recordings
from creekdb.load.local_cluster import free_port
from creekdb.protocol.checkpoint.stream import LazyCheckpoint
from creekdb.protocol.effects import Committed
from creekdb.protocol.request import Request
from creekdb.server.backup import capture, sessions
from creekdb.server.backup.format import open_backup_writer, read_header, read_requests
from creekdb.server.membership.changes import ADD_MEMBER, REMOVE_MEMBER
from creekdb.server.runtime.config import SecurityConfig, read_config
from creekdb.server.runtime.driver import Driver
from creekdb.server.runtime.server import Server, ServerLimits
from creekdb.server.transport.client_connection import ConnectionLimits
from creekdb.wire import addresses, messages
from creekdb.wire.counters import ServerCounter
from tests.cluster.backups import back_up, user_state
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster

# --- running clusters -------------------------------------------------------------------------


async def test_a_backup_under_load_is_a_prefix(tmp_path: Path) -> None:
    """Two registers are incremented in turn.

    In every prefix the second equals the first or is one behind.
    """
    async with running_cluster(tmp_path / "data", checkpoint_every=50) as cluster:
        stop = asyncio.Event()

        async def load() -> None:
            async with cluster.client(1) as db:
                while not stop.is_set():
                    await db.strong.increment("first")
                    await db.strong.increment("second")

        load_task = asyncio.ensure_future(load())
        lengths = []
        for number in range(5):
            path = tmp_path / f"{number}.backup"
            header = await back_up(cluster, path, number % 3)
            state = user_state(path)
            first, second = state.get("first", 0), state.get("second", 0)
            assert first - 1 <= second <= first
            lengths.append(header.length)
            async with cluster.client(0) as db:
                await db.strong.get("first")
        stop.set()
        await load_task
        assert lengths[0] < lengths[-1]


async def test_the_header_describes_the_backup(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "data", cluster="shop") as cluster:
        async with cluster.client(0) as db:
            for number in range(30):
                await db.strong.put(f"key {number % 3}", (number, {"text": b"bytes"}))
            await db.strong.delete("key 1")
        await cluster.until_quiescent()
        path = tmp_path / "shop.backup"
        header = await back_up(cluster, path, operations=True)
        assert (header.cluster, header.datatype, header.members) == ("shop", "kv", (0, 1, 2))
        assert header.length == cluster.servers[0].driver.replica.view.committed_length()
        assert user_state(path) == {
            "key 0": (27, {"text": b"bytes"}),
            "key 2": (29, {"text": b"bytes"}),
        }
        assert (header.first, len(list(read_requests(path)))) == (0, header.length)


async def test_operations_start_at_the_last_checkpoint(tmp_path: Path) -> None:
    directory = tmp_path / "recorded"
    cluster = InProcessCluster(
        tmp_path / "data", replicas=1, checkpoint_every=20, record=str(directory)
    )
    await cluster.start()
    server = cluster.servers[0]
    for number in range(70):  # without a client: deduplication would add registers
        server.driver.invoke(KV.call("put", f"key {number % 3}", number), number % 5 == 4, 0)
        await cluster.until_quiescent() if number % 5 == 4 else None
    path = tmp_path / "one.backup"
    header = await back_up(cluster, path, operations=True)
    await cluster.stop()
    (log,) = merge_recordings(directory).logs
    events = [each.event for each in log.events]
    recorded = [(each.index, each.id) for each in events if isinstance(each, Committed)]
    assert 0 < header.first < header.length == len(recorded)
    backed_up = [
        (position, each.id) for position, each in enumerate(read_requests(path), header.first)
    ]
    assert backed_up == recorded[header.first :]


async def test_large_backups_are_sent_in_chunks(tmp_path: Path) -> None:
    limits = ServerLimits(backup=sessions.BackupLimits(chunk_bytes=1000))
    async with running_cluster(tmp_path / "data", replicas=1, limits=limits) as cluster:
        async with cluster.client(0) as db:
            for number in range(50):
                await db.weak.put(f"key {number}", "x" * number * 100)
            await db.strong.put("last", 0)
        progress: list[tuple[int, int]] = []
        path = tmp_path / "large.backup"
        await back_up(cluster, path, progress=lambda *counts: progress.append(counts))
        assert len(progress) > 100
        assert progress == sorted(progress)
        done, estimate = progress[-1]
        assert done == 2 * 51 <= estimate  # including the registers of deduplication
        assert user_state(path)["key 49"] == "x" * 4900


async def test_one_backup_runs_at_a_time_and_ends_with_its_connection(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "data", replicas=1) as cluster:
        received: asyncio.Queue[messages.ServerMessage] = asyncio.Queue()
        (address,) = cluster.addresses(0)
        hello = messages.ClientHello(messages.WIRE_VERSION, "client")
        connection, _ = await dial(
            addresses.parse_address(address),
            partial(ReplicaConnection, hello, received.put_nowait),
            None,
            TIMEOUT_S,
        )
        connection.write(messages.encode_frame(messages.BackupRequest(1)))
        async with asyncio.timeout(TIMEOUT_S):
            assert isinstance(await received.get(), messages.BackupStarted)
        path = tmp_path / "second.backup"
        with pytest.raises(NotDone, match="another backup is in progress"):
            await back_up(cluster, path)
        assert not any(tmp_path.glob(".*partial"))
        connection.close()
        async with asyncio.timeout(TIMEOUT_S):
            while cluster.servers[0].clients.connections:
                await asyncio.sleep(0.01)
        await back_up(cluster, path)
        assert read_header(path).length == 0


async def test_a_backup_that_does_not_start_releases_its_registers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal cannot be read, or the client disconnects before it was read."""
    may_read = threading.Event()

    def raise_storage_fault(*_: object) -> tuple[Request, ...]:
        raise StorageFault("no journal")

    def wait_for_test(*_: object) -> tuple[Request, ...]:
        may_read.wait(TIMEOUT_S)
        return ()

    async with running_cluster(tmp_path / "data", replicas=1) as cluster:
        registers: list[Any] = []
        lazy_checkpoint = Driver.lazy_checkpoint

        def record_checkpoint(driver: Driver) -> LazyCheckpoint:
            checkpoint = lazy_checkpoint(driver)
            registers.append(checkpoint.registers)
            return checkpoint

        monkeypatch.setattr(Driver, "lazy_checkpoint", record_checkpoint)
        monkeypatch.setattr(capture, "_read_operations", raise_storage_fault)
        with pytest.raises(NotDone, match="no journal"):
            await back_up(cluster, tmp_path / "first.backup", operations=True)

        monkeypatch.setattr(capture, "_read_operations", wait_for_test)
        download = asyncio.ensure_future(
            back_up(cluster, tmp_path / "second.backup", operations=True)
        )
        async with asyncio.timeout(TIMEOUT_S):
            while len(registers) < 2:
                await asyncio.sleep(0.01)
            download.cancel()
            while cluster.servers[0].clients.connections:
                await asyncio.sleep(0.01)
            may_read.set()
            while not all(each.is_closed for each in registers):
                await asyncio.sleep(0.01)


async def test_a_client_that_does_not_read_its_parts_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ServerLimits(connections=ConnectionLimits(unread_bytes_max=1_000_000))
    served_parts: list[object] = []
    next_part = sessions.BackupSessions.next_part

    def count_parts(
        self: sessions.BackupSessions, holder: object, request: messages.BackupPartRequest
    ) -> messages.BackupPart | messages.Rejected:
        served_parts.append(request)
        return next_part(self, holder, request)

    monkeypatch.setattr(sessions.BackupSessions, "next_part", count_parts)
    async with running_cluster(tmp_path / "data", replicas=1, limits=limits) as cluster:
        async with cluster.client(0) as db:
            for number in range(100):
                await db.weak.put(f"key {number}", "x" * 200_000)
            await db.strong.put("last", 0)
        host, port = addresses.parse_address(cluster.addresses(0)[0])
        reader, writer = await asyncio.open_connection(host, port)
        hello = messages.ClientHello(messages.WIRE_VERSION, "greedy")
        writer.write(
            messages.encode_frame(hello) + messages.encode_frame(messages.BackupRequest(1))
        )
        frames = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX)
        is_started = False
        async with asyncio.timeout(TIMEOUT_S):
            while not is_started:
                received = map(messages.decode_server_message, frames.feed(await reader.read(1000)))
                is_started = any(isinstance(each, messages.BackupStarted) for each in received)
            writer.write(messages.encode_frame(messages.BackupPartRequest(1)) * 1000)
            while cluster.servers[0].clients.connections:
                await asyncio.sleep(0.01)
        assert cluster.servers[0].rejections[ServerCounter.SLOW_CLIENT] == 1
        assert len(served_parts) < 30, "the client requested 1000 of 40 parts"
        writer.close()
        await back_up(cluster, tmp_path / "one.backup")


async def test_a_backup_requires_a_token(tmp_path: Path) -> None:
    security = SecurityConfig(tokens={"ann": "secret"})
    async with running_cluster(tmp_path / "data", replicas=1, security=security) as cluster:
        with pytest.raises(UsageError, match="token"):
            await back_up(cluster, tmp_path / "one.backup")
        await back_up(cluster, tmp_path / "one.backup", token="secret")


async def test_backups_and_membership_changes_require_an_admin_token(tmp_path: Path) -> None:
    security = SecurityConfig(tokens={"till": "one", "ann": "two"}, admins=("ann",))
    path = tmp_path / "one.backup"
    async with running_cluster(tmp_path / "data", replicas=1, security=security) as cluster:
        with pytest.raises(NotDone, match="this token permits calls, but not backups"):
            await back_up(cluster, path, token="one")
        await back_up(cluster, path, token="two")
        async with (
            cluster.client(token="one") as till,
            cluster.client(token="two") as ann,
        ):
            await till.strong.put("lamp", 3)
            for change in ((ADD_MEMBER, "127.0.0.1:1"), (REMOVE_MEMBER, 0)):
                with pytest.raises(NotDone, match="this token may not change the members"):
                    await till.strong(*change)
            with pytest.raises(NotDone, match="replica 0 cannot be removed: it is the last member"):
                await ann.strong(REMOVE_MEMBER, 0)


def test_an_earlier_backup_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "one.backup"
    path.write_bytes(b"earlier")
    with pytest.raises(UsageError, match="--force"), open_backup_writer(path):
        pass
    with (
        pytest.raises(UsageError, match="not a backup"),
        open_backup_writer(path, force=True) as file,
    ):
        file.write(b"nonsense")
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


# --- commands ---------------------------------------------------------------------------------


async def test_commands_back_up_and_restore_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, new = tmp_path / "shop.backup", tmp_path / "new"
    async with running_cluster(tmp_path / "old", replicas=1, cluster="shop") as cluster:
        async with cluster.client(0) as db:
            await db.strong.put("a", 1)
        arguments = ["backup", str(path), "--at", *cluster.addresses(0)]
        assert await asyncio.to_thread(main, arguments) == 0
        assert await asyncio.to_thread(main, arguments) == 2
        assert await asyncio.to_thread(main, [*arguments, "--force"]) == 0
    output = capsys.readouterr()
    assert "'kv' of cluster 'shop' after 1 committed operation" in output.out
    assert "--force" in output.err
    arguments = ["restore", str(path), "--data", str(new), "--members", "2"]
    assert main(arguments) == 2
    assert main([*arguments, "--cluster", "shop"]) == 2
    assert not new.exists()
    assert main([*arguments, "--cluster", "shop-2", "--replica", "1"]) == 0
    assert [each.name for each in sorted(new.iterdir())] == ["data-1", "replica-1.toml"]
    assert main([*arguments, "--cluster", "shop-2"]) == 2
    assert main([*arguments, "--cluster", "shop-2", "--replica", "0"]) == 0
    assert f"serve --config {os.path.relpath(new / 'replica-0.toml')}" in capsys.readouterr().out
    for number in range(2):
        config = read_config(new / f"replica-{number}.toml", {})
        assert (config.cluster, config.data) == ("shop-2", str(new / f"data-{number}"))
    members = {each: f"127.0.0.1:{free_port()}" for each in range(2)}
    servers = []
    for number in range(2):
        overrides = {"members": members, "clients": "127.0.0.1:0"}
        servers.append(Server(read_config(new / f"replica-{number}.toml", overrides)))
        await servers[-1].start()
    async with connect(f"127.0.0.1:{servers[1].client_port}", timeout=TIMEOUT_S) as db:
        assert await db.strong.get("a") == 1
    for server in servers:
        await server.stop()


def test_a_failed_backup_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["backup", str(tmp_path / "one.backup"), "--at", f"127.0.0.1:{free_port()}"]
    assert main(arguments, CommandLimits(refused_retry_s=0.1)) == 1
    assert "no replica can be reached" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
