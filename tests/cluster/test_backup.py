"""Backups of a cluster that runs, and the commands that make and use them."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from creekdb.cli.app import main
from creekdb.client import NotDone, backup_download, connect
from creekdb.client.replica_connection import dial
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
from creekdb.server.runtime.server import Server
from creekdb.server.transport import client_connection
from creekdb.wire import addresses, messages
from tests.cluster.house import PATIENCE_S, House, house, run
from tests.cluster.keeping import back_up, own_state

# --- a cluster that runs ----------------------------------------------------------------------


def test_a_backup_under_load_is_a_prefix(tmp_path: Path) -> None:
    """Two registers are always increased by one operation each, one after the other: in no prefix
    is the second ahead of the first, or far behind."""

    async def story() -> None:
        async with house(tmp_path / "data", checkpoint_every=50) as cluster:
            stop = asyncio.Event()

            async def load() -> None:
                async with cluster.client(1) as db:
                    while not stop.is_set():
                        await db.strong.increment("first")
                        await db.strong.increment("second")

            loading = asyncio.ensure_future(load())
            lengths = []
            for number in range(5):
                path = tmp_path / f"{number}.backup"
                head = await back_up(cluster, path, number % 3)
                state = own_state(path)
                first, second = state.get("first", 0), state.get("second", 0)
                assert first - 1 <= second <= first
                lengths.append(head.length)
                async with cluster.client(0) as db:
                    await db.strong.get("first")
            stop.set()
            await loading
            assert lengths[0] < lengths[-1]

    run(story())


def test_a_backup_tells_what_it_is_of(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path / "data", cluster="shop") as cluster:
            async with cluster.client(0) as db:
                for number in range(30):
                    await db.strong.put(f"key {number % 3}", (number, {"text": b"bytes"}))
                await db.strong.delete("key 1")
            await cluster.until_settled()
            path = tmp_path / "shop.backup"
            head = await back_up(cluster, path, operations=True)
            assert (head.cluster, head.datatype, head.members) == ("shop", "kv", (0, 1, 2))
            assert head.length == cluster.servers[0].driver.replica.committed_length()
            assert own_state(path) == {
                "key 0": (27, {"text": b"bytes"}),
                "key 2": (29, {"text": b"bytes"}),
            }
            assert (head.first, len(list(read_requests(path)))) == (0, head.length)

    run(story())


def test_operations_come_from_the_last_checkpoint_on(tmp_path: Path) -> None:
    async def story() -> None:
        folder = tmp_path / "recorded"
        built = House(tmp_path / "data", replicas=1, checkpoint_every=20, record=str(folder))
        await built.start()
        server = built.servers[0]
        for number in range(70):  # not as a client: what its calls come to would be kept as well
            server.driver.invoke(KV.call("put", f"key {number % 3}", number), number % 5 == 4, 0)
            await built.until_settled() if number % 5 == 4 else None
        path = tmp_path / "one.backup"
        head = await back_up(built, path, operations=True)
        await built.stop()
        (log,) = merge_recordings(folder).logs
        events = [each.event for each in log.events]
        recorded = [(each.index, each.id) for each in events if isinstance(each, Committed)]
        assert 0 < head.first < head.length == len(recorded)
        told = [(place, each.id) for place, each in enumerate(read_requests(path), head.first)]
        assert told == recorded[head.first :]

    run(story())


def test_what_is_larger_than_a_frame_comes_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PIECE_BYTES", 1000)

    async def story() -> None:
        async with house(tmp_path / "data", replicas=1) as cluster:
            async with cluster.client(0) as db:
                for number in range(50):
                    await db.weak.put(f"key {number}", "x" * number * 100)
                await db.strong.put("last", 0)
            seen: list[tuple[int, int]] = []
            path = tmp_path / "large.backup"
            await back_up(cluster, path, progress=lambda *told: seen.append(told))
            assert len(seen) > 100
            assert seen == sorted(seen)
            done, about = seen[-1]
            assert done == 2 * 51 <= about  # with what the calls came to
            assert own_state(path)["key 49"] == "x" * 4900

    run(story())


def test_one_copy_at_a_time_and_none_for_who_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path / "data", replicas=1) as cluster:
            heard: asyncio.Queue[messages.ServerMessage] = asyncio.Queue()
            (address,) = cluster.addresses(0)
            hello = messages.ClientHello(messages.WIRE_VERSION, "somebody")
            line, _ = await dial(
                addresses.parse_address(address), hello, heard.put_nowait, None, PATIENCE_S
            )
            line.write(messages.encode_frame(messages.BackupRequest(1)))
            async with asyncio.timeout(PATIENCE_S):
                assert isinstance(await heard.get(), messages.BackupStarted)
            path = tmp_path / "second.backup"
            with pytest.raises(NotDone, match="already"):
                await back_up(cluster, path)
            assert not any(tmp_path.glob(".*partial"))
            line.close()
            async with asyncio.timeout(PATIENCE_S):
                while cluster.servers[0].dispatcher.connections:
                    await asyncio.sleep(0.01)
            await back_up(cluster, path)
            assert read_header(path).length == 0

    run(story())


def test_a_copy_that_is_never_begun_holds_on_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its journal cannot be read; or nobody is there any more when it has been."""
    reading = threading.Event()

    def unreadable(*_: object) -> tuple[Request, ...]:
        raise StorageFault("no journal")

    def slow(*_: object) -> tuple[Request, ...]:
        reading.wait(PATIENCE_S)
        return ()

    async def story() -> None:
        async with house(tmp_path / "data", replicas=1) as cluster:
            driver = cluster.servers[0].driver
            taken: list[Any] = []

            def draft() -> LazyCheckpoint:
                made = Driver.lazy_checkpoint(driver)
                taken.append(made.registers)
                return made

            monkeypatch.setattr(driver, "draft", draft)
            monkeypatch.setattr(capture, "_told", unreadable)
            with pytest.raises(NotDone, match="no journal"):
                await back_up(cluster, tmp_path / "first.backup", operations=True)

            monkeypatch.setattr(capture, "_told", slow)
            asking = asyncio.ensure_future(
                back_up(cluster, tmp_path / "second.backup", operations=True)
            )
            async with asyncio.timeout(PATIENCE_S):
                while len(taken) < 2:
                    await asyncio.sleep(0.01)
                asking.cancel()
                while cluster.servers[0].dispatcher.connections:
                    await asyncio.sleep(0.01)
                reading.set()
                while not all(each.is_over for each in taken):
                    await asyncio.sleep(0.01)

    run(story())


def test_who_asks_for_more_than_it_reads_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connection, "UNREAD_MAX", 1_000_000)
    made: list[object] = []
    more = sessions.BackupSessions.next_part

    def counted(
        self: sessions.BackupSessions, holder: object, asked: messages.BackupPartRequest
    ) -> messages.BackupPart | messages.Rejected:
        made.append(asked)
        return more(self, holder, asked)

    monkeypatch.setattr(sessions.BackupSessions, "more", counted)

    async def story() -> None:
        async with house(tmp_path / "data", replicas=1) as cluster:
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
            begun = False
            async with asyncio.timeout(PATIENCE_S):
                while not begun:
                    told = map(messages.decode_server_message, frames.feed(await reader.read(1000)))
                    begun = any(isinstance(each, messages.BackupStarted) for each in told)
                writer.write(messages.encode_frame(messages.BackupPartRequest(1)) * 1000)
                while cluster.servers[0].dispatcher.connections:
                    await asyncio.sleep(0.01)
            assert cluster.servers[0].rejections["slow client"] == 1
            assert len(made) < 30, "of 1000 that it asked for, and 40 that there are"
            writer.close()
            await back_up(cluster, tmp_path / "one.backup")

    run(story())


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    async def story() -> None:
        security = SecurityConfig(tokens={"ann": "secret"})
        async with house(tmp_path / "data", replicas=1, security=security) as cluster:
            with pytest.raises(UsageError, match="token"):
                await back_up(cluster, tmp_path / "one.backup")
            await back_up(cluster, tmp_path / "one.backup", token="secret")

    run(story())


def test_who_may_call_may_not_have_everything_where_there_are_admins(tmp_path: Path) -> None:
    async def story() -> None:
        security = SecurityConfig(tokens={"till": "one", "ann": "two"}, admins=("ann",))
        path = tmp_path / "one.backup"
        async with house(tmp_path / "data", replicas=1, security=security) as cluster:
            with pytest.raises(NotDone, match="this token may call operations, and not take"):
                await back_up(cluster, path, token="one")
            await back_up(cluster, path, token="two")
            async with (
                cluster.client(token="one") as till,
                cluster.client(token="two") as ann,
            ):
                await till.strong.put("lamp", 3)
                for change in ((ADD_MEMBER, "127.0.0.1:1"), (REMOVE_MEMBER, 0)):
                    with pytest.raises(NotDone, match="and not change the members"):
                        await till.strong(*change)
                with pytest.raises(NotDone, match="replica 0 is the last one"):
                    await ann.strong(REMOVE_MEMBER, 0)

    run(story())


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


# --- the commands -----------------------------------------------------------------------------


def test_the_commands_make_a_backup_and_a_cluster_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, new = tmp_path / "shop.backup", tmp_path / "new"

    async def begin() -> None:
        async with house(tmp_path / "old", replicas=1, cluster="shop") as cluster:
            async with cluster.client(0) as db:
                await db.strong.put("a", 1)
            arguments = ["backup", str(path), "--at", *cluster.addresses(0)]
            assert await asyncio.to_thread(main, arguments) == 0
            assert await asyncio.to_thread(main, arguments) == 2
            assert await asyncio.to_thread(main, [*arguments, "--force"]) == 0

    async def go_on() -> None:
        for number in range(2):
            config = read_config(new / f"replica-{number}.toml", {})
            assert (config.cluster, config.data) == ("shop-2", str(new / f"data-{number}"))
        members = {each: f"127.0.0.1:{free_port()}" for each in range(2)}
        servers = []
        for number in range(2):
            given = {"members": members, "clients": "127.0.0.1:0"}
            servers.append(Server(read_config(new / f"replica-{number}.toml", given)))
            await servers[-1].start()
        async with connect(f"127.0.0.1:{servers[1].client_port}", timeout=PATIENCE_S) as db:
            assert await db.strong.get("a") == 1
        for server in servers:
            await server.stop()

    run(begin())
    said = capsys.readouterr()
    assert "'kv' of cluster 'shop' after 1 committed operation" in said.out
    assert "--force" in said.err
    arguments = ["restore", str(path), "--data", str(new), "--members", "2"]
    assert main(arguments) == 2
    assert main([*arguments, "--cluster", "shop"]) == 2
    assert not new.exists()
    assert main([*arguments, "--cluster", "shop-2", "--replica", "1"]) == 0
    assert [each.name for each in sorted(new.iterdir())] == ["data-1", "replica-1.toml"]
    assert main([*arguments, "--cluster", "shop-2"]) == 2
    assert main([*arguments, "--cluster", "shop-2", "--replica", "0"]) == 0
    assert f"serve --config {os.path.relpath(new / 'replica-0.toml')}" in capsys.readouterr().out
    run(go_on())


def test_who_cannot_be_reached_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_download, "PATIENCE_S", 0.1)
    path = tmp_path / "one.backup"
    assert main(["backup", str(path), "--at", f"127.0.0.1:{free_port()}"]) == 1
    assert "no replica can be reached" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
