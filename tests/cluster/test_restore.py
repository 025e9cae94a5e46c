"""Clusters restored from a backup, and rejected backups."""

import asyncio
import errno
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from creekdb.cli.app import main
from creekdb.client.replica_connection import ReplicaConnection, dial
from creekdb.errors import CreekError, StorageFault, UsageError
from creekdb.protocol.validation import MessageRejection
from creekdb.server.backup.format import (
    SCHEMA_VERSION,
    DeletedBlock,
    read_blocks,
    read_header,
    read_requests,
)
from creekdb.server.backup.restore import restore
from creekdb.server.storage.file_ops import FileOps
from creekdb.wire import addresses, messages
from tests.cluster.backups import back_up, restore_all, user_state
from tests.cluster.in_process_cluster import TIMEOUT_S, running_cluster

UNEXPECTED_REJECTIONS = {
    MessageRejection.BAD_DOTS,
    MessageRejection.BAD_ID,
    MessageRejection.BAD_CHECKPOINT,
    MessageRejection.ID_REUSED,
    MessageRejection.NEVER_ISSUED,
}
"""Rejections that occur if the history of a restored replica differs from that of its peers."""


class NumberedClient:
    """Client whose calls are numbered by the test."""

    def __init__(self, address: str, client: str) -> None:
        self._address = address
        self._client = client

    async def call(self, number: int, operation: str, *arguments: Any) -> messages.CallResponse:
        """Call strongly, and return the stable response."""
        received: asyncio.Queue[messages.ServerMessage] = asyncio.Queue()
        hello = messages.ClientHello(messages.WIRE_VERSION, self._client)
        connection, _ = await dial(
            addresses.parse_address(self._address),
            partial(ReplicaConnection, hello, received.put_nowait),
            None,
            TIMEOUT_S,
        )
        try:
            connection.write(
                messages.encode_frame(
                    messages.CallRequest(number, operation, arguments, strong=True)
                )
            )
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    message = await received.get()
                    if isinstance(message, messages.CallResponse) and message.kind == "stable":
                        return message
        finally:
            connection.close()


# --- restored clusters ------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 3, 5])
async def test_a_cluster_of_any_size_continues_from_a_backup(tmp_path: Path, replicas: int) -> None:
    path = tmp_path / "shop.backup"
    async with running_cluster(tmp_path / "old", checkpoint_every=30) as cluster:
        async with cluster.client(0) as db, cluster.client(2) as other:
            for number in range(40):
                await db.strong.put(f"key {number % 7}", number)
                await other.weak.increment("total")
            await other.strong.get("total")
        first_response = await NumberedClient(cluster.addresses(1)[0], "client").call(
            7, "increment", "total", 5
        )
        assert first_response.value == 45
        await cluster.until_quiescent()
        header = await back_up(cluster, path, 1)
        state = user_state(path)
    restore_all(path, tmp_path / "new", replicas)
    async with running_cluster(tmp_path / "new", replicas, cluster="another") as cluster:
        statuses = [server.status() for server in cluster.servers.values()]
        assert all(each["committed"] >= header.length for each in statuses)
        client = NumberedClient(cluster.addresses(replicas - 1)[0], "client")
        assert (await client.call(7, "increment", "total", 5)).value == 45
        assert (await client.call(8, "increment", "total", 5)).value == 50
        async with cluster.client(0) as db:
            state_now = dict(await db.strong.scan(""))
            assert state_now == state | {"total": 50}
            await db.weak.put("new", 1)
            await db.strong.put("new", 2)
        await cluster.until_quiescent()
        for server in cluster.servers.values():
            rejections = server.driver.replica.view.rejected
            assert rejections.keys().isdisjoint(UNEXPECTED_REJECTIONS), rejections
        again = await back_up(cluster, tmp_path / "again.backup")
        assert again.length > header.length
        assert user_state(tmp_path / "again.backup") == state | {"total": 50, "new": 2}
        await cluster.stop()
        await cluster.start()
        await cluster.until_connected()
        async with cluster.client(0) as db:
            assert await db.strong.get("new") == 2


@pytest.mark.parametrize(
    "options",
    [
        {"scheme": "basic"},
        {"scheme": "smr"},
        {"execution": "threads"},
        {"datatype": "tpcc-rows-1-0"},  # starts with rows, some of which are deleted
    ],
    ids=lambda options: " ".join(options.values()),
)
async def test_the_restored_state_equals_the_original(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "one.backup"
    async with running_cluster(tmp_path / "old", **options) as old:
        async with old.client(0) as db:
            for number in range(1, 6):
                if "datatype" in options:
                    await db.strong.delivery(1, number)
                else:
                    await db.strong.put("key", number)
        await old.until_quiescent()
        header = await back_up(old, path, 1, operations=True)
        replica = old.servers[1].driver.replica
        deleted = [each for each in read_blocks(path) if isinstance(each, DeletedBlock)]
        assert bool(deleted) == ("datatype" in options)
    restore_all(path, tmp_path / "new", 1, datatype=header.datatype)
    async with running_cluster(tmp_path / "new", 1, cluster="another", **options) as new:
        again = new.servers[0].driver.replica
        assert again.view.state() == replica.view.state()
        assert again.view.committed_length() == header.length == len(list(read_requests(path)))


async def test_a_client_continues_at_a_restored_cluster(
    tmp_path: Path,
) -> None:
    path = tmp_path / "one.backup"
    async with running_cluster(tmp_path / "old") as old:
        new = old.at_same_addresses(tmp_path / "new", cluster="another")
        async with old.client(0, 1) as db:
            await db.strong.increment("total")
            await old.stop(0)
            await db.strong.increment("total")  # at replica 1
            await back_up(old, path, 1)
            await old.stop()
            restore_all(path, tmp_path / "new", 3)
            await new.start()
            assert await db.strong.increment("total") == 3
        await new.stop()


async def test_a_replica_restored_twice_recovers_from_its_peers(tmp_path: Path) -> None:
    """Restore again after a disk loss. The replica recovers the rest from its peers."""
    path = tmp_path / "one.backup"
    async with running_cluster(tmp_path / "old") as cluster:
        async with cluster.client(0) as db:
            await db.strong.put("a", 1)
        await cluster.until_quiescent()
        await back_up(cluster, path)
    restore_all(path, tmp_path / "new", 3)
    async with running_cluster(tmp_path / "new", cluster="another") as cluster:
        async with cluster.client(2) as db:
            for number in range(10):
                await db.strong.put("b", number)
        await cluster.until_quiescent()
        await cluster.stop(2)
        shutil.rmtree(tmp_path / "new" / "2")
        directories = {2: tmp_path / "new" / "2"}
        restore(path, directories, cluster="another", members=(0, 1, 2), datatype="kv")
        await cluster.start(2)
        await cluster.until_connected()
        async with cluster.client(2) as db:
            assert await db.strong.get("b") == 9
            await db.strong.put("b", 10)
        await cluster.stop(0)
        async with cluster.client(1) as db:
            assert await db.strong.get("b") == 10


# --- rejected backups -------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("backup")
    path = directory / "one.backup"
    async with running_cluster(directory / "data", replicas=1, cluster="shop") as cluster:
        async with cluster.client(0) as db:
            for number in range(5):
                await db.strong.put(f"key {number}", number)
        await back_up(cluster, path, operations=True)
    return path


def restore_error(path: Path, directory: Path, **options: Any) -> str:
    with pytest.raises(CreekError) as error:
        restore_all(path, directory / "new", 3, **options)
    assert not (directory / "new").exists()
    return str(error.value)


def header_error(path: Path) -> str:
    with pytest.raises(CreekError) as error:
        read_header(path)
    return str(error.value)


def test_every_damaged_byte_is_detected(backup: Path, tmp_path: Path) -> None:
    whole = backup.read_bytes()
    path = tmp_path / "damaged.backup"
    reasons = ""
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        reasons += header_error(path)
        if at in (0, 40, len(whole) // 2, len(whole) - 1):  # start, header, body, checksum
            assert restore_error(path, tmp_path) == header_error(path)
    for each in ("is not a backup", "is truncated", "checksum does not match", "schema version"):
        assert each in reasons


def test_truncation_and_trailing_data_are_detected(backup: Path, tmp_path: Path) -> None:
    whole = backup.read_bytes()
    path = tmp_path / "damaged.backup"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert ("truncated" if length >= 8 else "not a backup") in header_error(path)
    assert "truncated" in restore_error(path, tmp_path)
    path.write_bytes(whole + b"x")
    assert "data after its end" in restore_error(path, tmp_path)


def test_an_unknown_schema_version_is_rejected(backup: Path, tmp_path: Path) -> None:
    whole = backup.read_bytes()
    path = tmp_path / "newer.backup"
    path.write_bytes(whole[:11] + bytes([SCHEMA_VERSION + 1]) + whole[12:])
    assert "schema version 2" in restore_error(path, tmp_path)


def test_a_backup_of_another_cluster_is_rejected(backup: Path, tmp_path: Path) -> None:
    assert "'kv', not of 'bank'" in restore_error(backup, tmp_path, datatype="bank")
    assert "another name" in restore_error(backup, tmp_path, cluster="shop")
    assert "cannot read" in restore_error(tmp_path / "missing.backup", tmp_path)


def test_a_data_directory_in_use_is_not_changed(backup: Path, tmp_path: Path) -> None:
    used = tmp_path / "new" / "1"
    used.mkdir(parents=True)
    (used / "something").touch()
    with pytest.raises(UsageError, match="is not empty"):
        restore_all(backup, tmp_path / "new", 3)
    assert list((tmp_path / "new").iterdir()) == [used]


class SmallDisk(FileOps):
    """Disk that is full after two durable writes."""

    def __init__(self) -> None:
        self.writes = 0

    def fdatasync(self, file: int) -> None:
        self.writes += 1
        if self.writes > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().fdatasync(file)


def test_a_failed_restore_creates_no_data_directory(backup: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    disk = SmallDisk()
    with pytest.raises(StorageFault, match="no space left"):
        restore_all(backup, tmp_path / "new", 3, file_ops=disk)
    assert disk.writes == 3, "the data directories of two replicas were complete"
    assert not any((tmp_path / "new").iterdir())


class DiskInUse(FileOps):
    """Disk on which a replica starts from one of the new data directories during the restore."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def fdatasync(self, file: int) -> None:
        self._file.parent.mkdir(exist_ok=True)
        self._file.touch()
        super().fdatasync(file)


def test_a_data_directory_that_comes_into_use_is_not_removed(backup: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    used = tmp_path / "new" / "1" / "000000000001.journal"
    with pytest.raises(StorageFault, match=r"cannot restore .*: Directory not empty"):
        restore_all(backup, tmp_path / "new", 3, file_ops=DiskInUse(used))
    assert list((tmp_path / "new").rglob("*")) == [used.parent, used]


def test_restore_uses_the_data_directory_of_the_configuration(
    backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "replica.toml"
    config.write_text(f'cluster = "b"\ndata = "{tmp_path / "data"}"\n[members]\n0 = "localhost:1"')
    assert main(["restore", str(backup), "--config", str(config)]) == 0
    assert any((tmp_path / "data").glob("*.journal"))
    assert main(["restore", str(backup), "--config", str(config)]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_replicas_that_share_a_data_directory_are_not_restored(
    backup: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    members = '[members]\n0 = "localhost:1"\n1 = "localhost:2"\n'
    arguments = ["restore", str(backup)]
    for replica in range(2):
        Path(f"{replica}.toml").write_text(f'cluster = "b"\nreplica = {replica}\n{members}')
        arguments += ["--config", f"{replica}.toml"]
    assert main(arguments) == 2
    assert "have the same data directory: change one" in capsys.readouterr().err
    Path("0.toml").write_text(f'cluster = "b"\ndata = "."\n{members}')
    assert main(arguments[:4]) == 2
    assert "data is '.', which contains the working directory" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0.toml", "1.toml"]
