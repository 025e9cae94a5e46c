"""Clusters that begin with a backup, and what is refused as one."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from creekdb.cli.app import main
from creekdb.client.replica_connection import dial
from creekdb.errors import CreekError, DiskFull, StorageFault, UsageError
from creekdb.protocol import validation
from creekdb.server.backup.format import (
    SCHEMA_VERSION,
    DeletedBlock,
    read_blocks,
    read_header,
    read_requests,
)
from creekdb.server.backup.restore import restore
from creekdb.server.storage.journal import Journal
from creekdb.wire import addresses, messages
from tests.cluster.house import PATIENCE_S, house, run
from tests.cluster.keeping import back_up, own_state, restored

NEVER_REFUSED = {
    validation.BAD_DOTS,
    validation.BAD_ID,
    validation.BAD_CHECKPOINT,
    validation.ID_REUSED,
    validation.NEVER_ISSUED,
}
"""What would be, if the past of a restored replica were not that of the others."""


class Asking:
    """A client whose calls are numbered by the test."""

    def __init__(self, address: str, client: str) -> None:
        self._address = address
        self._client = client

    async def ask(self, number: int, operation: str, *arguments: Any) -> messages.CallResponse:
        """Strongly; the stable answer."""
        heard: asyncio.Queue[messages.ServerMessage] = asyncio.Queue()
        hello = messages.ClientHello(messages.WIRE_VERSION, self._client)
        line, _ = await dial(
            addresses.parse_address(self._address), hello, heard.put_nowait, None, PATIENCE_S
        )
        try:
            line.write(
                messages.encode_frame(
                    messages.CallRequest(number, operation, arguments, strong=True)
                )
            )
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    said = await heard.get()
                    if isinstance(said, messages.CallResponse) and said.kind == "stable":
                        return said
        finally:
            line.close()


# --- a cluster that begins with one -----------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_a_cluster_of_any_size_goes_on_from_a_backup(tmp_path: Path, replicas: int) -> None:
    async def story() -> None:
        path = tmp_path / "shop.backup"
        async with house(tmp_path / "old", checkpoint_every=30) as cluster:
            async with cluster.client(0) as db, cluster.client(2) as other:
                for number in range(40):
                    await db.strong.put(f"key {number % 7}", number)
                    await other.weak.increment("total")
                await other.strong.get("total")
            once = await Asking(cluster.addresses(1)[0], "client").ask(7, "increment", "total", 5)
            assert once.value == 45
            await cluster.until_settled()
            head = await back_up(cluster, path, 1)
            state = own_state(path)
        restored(path, tmp_path / "new", replicas)
        async with house(tmp_path / "new", replicas, cluster="another") as cluster:
            statuses = [server.status() for server in cluster.servers.values()]
            assert all(each["committed"] >= head.length for each in statuses)
            asking = Asking(cluster.addresses(replicas - 1)[0], "client")
            assert (await asking.ask(7, "increment", "total", 5)).value == 45
            assert (await asking.ask(8, "increment", "total", 5)).value == 50
            async with cluster.client(0) as db:
                found = dict(await db.strong.scan(""))
                assert found == state | {"total": 50}
                await db.weak.put("new", 1)
                await db.strong.put("new", 2)
            await cluster.until_settled()
            for server in cluster.servers.values():
                refused = server.driver.replica.rejected
                assert refused.keys().isdisjoint(NEVER_REFUSED), refused
            again = await back_up(cluster, tmp_path / "again.backup")
            assert again.length > head.length
            assert own_state(tmp_path / "again.backup") == state | {"total": 50, "new": 2}
            await cluster.stop()
            await cluster.start()
            await cluster.until_connected()
            async with cluster.client(0) as db:
                assert await db.strong.get("new") == 2

    run(story())


@pytest.mark.parametrize(
    "how",
    [
        {"scheme": "basic"},
        {"scheme": "smr"},
        {"execution": "threads"},
        {"datatype": "tpcc-rows-1-0"},  # begins with rows, of which some are deleted
    ],
    ids=lambda how: " ".join(how.values()),
)
def test_the_state_is_the_same_again(tmp_path: Path, how: dict[str, Any]) -> None:
    async def story() -> None:
        path = tmp_path / "one.backup"
        async with house(tmp_path / "old", **how) as old:
            async with old.client(0) as db:
                for number in range(1, 6):
                    if "datatype" in how:
                        await db.strong.delivery(1, number)
                    else:
                        await db.strong.put("key", number)
            await old.until_settled()
            head = await back_up(old, path, 1, operations=True)
            replica = old.servers[1].driver.replica
            deleted = [each for each in read_blocks(path) if isinstance(each, DeletedBlock)]
            assert bool(deleted) == ("datatype" in how)
        restored(path, tmp_path / "new", 1, datatype=head.datatype)
        async with house(tmp_path / "new", 1, cluster="another", **how) as new:
            again = new.servers[0].driver.replica
            assert again.state() == replica.state()
            assert again.committed_length() == head.length == len(list(read_requests(path)))

    run(story())


def test_a_client_goes_on_where_a_restored_cluster_took_the_place_of_the_old(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        path = tmp_path / "one.backup"
        async with house(tmp_path / "old") as old:
            new = old.moved_to(tmp_path / "new", cluster="another")
            async with old.client(0, 1) as db:
                await db.strong.increment("total")
                await old.stop(0)
                await db.strong.increment("total")  # at the other one
                await back_up(old, path, 1)
                await old.stop()
                restored(path, tmp_path / "new", 3)
                await new.start()
                assert await db.strong.increment("total") == 3
            await new.stop()

    run(story())


def test_a_replica_restored_again_after_it_ran_forgets_nothing(tmp_path: Path) -> None:
    """As somebody may do whose disk was lost: it hears from the others what it has forgotten."""

    async def story() -> None:
        path = tmp_path / "one.backup"
        async with house(tmp_path / "old") as cluster:
            async with cluster.client(0) as db:
                await db.strong.put("a", 1)
            await cluster.until_settled()
            await back_up(cluster, path)
        restored(path, tmp_path / "new", 3)
        async with house(tmp_path / "new", cluster="another") as cluster:
            async with cluster.client(2) as db:
                for number in range(10):
                    await db.strong.put("b", number)
            await cluster.until_settled()
            await cluster.stop(2)
            shutil.rmtree(tmp_path / "new" / "2")
            folders = {2: tmp_path / "new" / "2"}
            restore(path, folders, cluster="another", members=(0, 1, 2), datatype="kv")
            await cluster.start(2)
            await cluster.until_connected()
            async with cluster.client(2) as db:
                assert await db.strong.get("b") == 9
                await db.strong.put("b", 10)
            await cluster.stop(0)
            async with cluster.client(1) as db:
                assert await db.strong.get("b") == 10

    run(story())


# --- what is refused --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backup")
    path = folder / "one.backup"

    async def story() -> None:
        async with house(folder / "data", replicas=1, cluster="shop") as cluster:
            async with cluster.client(0) as db:
                for number in range(5):
                    await db.strong.put(f"key {number}", number)
            await back_up(cluster, path, operations=True)

    run(story())
    return path


def refuse(path: Path, folder: Path, **how: Any) -> str:
    with pytest.raises(CreekError) as told:
        restored(path, folder / "new", 3, **how)
    assert not (folder / "new").exists()
    return str(told.value)


def reason(path: Path) -> str:
    with pytest.raises(CreekError) as told:
        read_header(path)
    return str(told.value)


def test_any_byte_that_is_another_one_is_noticed(backup: Path, tmp_path: Path) -> None:
    whole = backup.read_bytes()
    path = tmp_path / "damaged.backup"
    reasons = ""
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        reasons += reason(path)
        if at in (0, 40, len(whole) // 2, len(whole) - 1):  # start, head, body, checksum
            assert refuse(path, tmp_path) == reason(path)
    for each in ("is not a backup", "is cut short", "checksum is wrong", "of the schema"):
        assert each in reasons


def test_what_is_cut_short_or_goes_on_is_noticed(backup: Path, tmp_path: Path) -> None:
    whole = backup.read_bytes()
    path = tmp_path / "damaged.backup"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert ("cut short" if length >= 8 else "not a backup") in reason(path)
    assert "cut short" in refuse(path, tmp_path)
    path.write_bytes(whole + b"x")
    assert "goes on" in refuse(path, tmp_path)


def test_another_schema_is_told_as_such(backup: Path, tmp_path: Path) -> None:
    whole = backup.read_bytes()
    path = tmp_path / "newer.backup"
    path.write_bytes(whole[:11] + bytes([SCHEMA_VERSION + 1]) + whole[12:])
    assert "version 2 of the schema" in refuse(path, tmp_path)


def test_what_is_foreign_is_refused(backup: Path, tmp_path: Path) -> None:
    assert "'kv', not of 'bank'" in refuse(backup, tmp_path, datatype="bank")
    assert "another name" in refuse(backup, tmp_path, cluster="shop")
    assert "cannot read" in refuse(tmp_path / "missing.backup", tmp_path)


def test_a_folder_in_which_something_is_stays_as_it_is(backup: Path, tmp_path: Path) -> None:
    used = tmp_path / "new" / "1"
    used.mkdir(parents=True)
    (used / "something").touch()
    with pytest.raises(UsageError, match="holds something"):
        restored(backup, tmp_path / "new", 3)
    assert list((tmp_path / "new").iterdir()) == [used]


def test_if_one_folder_cannot_be_made_none_is(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").mkdir()
    made = iter(range(2))
    flush = Journal.flush

    def full(journal: Journal) -> None:
        if next(made, None) is None:
            raise DiskFull("no space left")
        flush(journal)

    monkeypatch.setattr(Journal, "flush", full)
    with pytest.raises(StorageFault, match="no space"):
        restored(backup, tmp_path / "new", 3)
    assert not any((tmp_path / "new").iterdir())


def test_a_replica_that_is_set_up_is_restored_where_its_file_says(
    backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "replica.toml"
    config.write_text(f'cluster = "b"\ndata = "{tmp_path / "data"}"\n[members]\n0 = "localhost:1"')
    assert main(["restore", str(backup), "--config", str(config)]) == 0
    assert any((tmp_path / "data").glob("*.journal"))
    assert main(["restore", str(backup), "--config", str(config)]) == 2
    assert "holds something" in capsys.readouterr().err


def test_replicas_that_would_share_a_folder_are_not_restored(
    backup: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    members = '[members]\n0 = "localhost:1"\n1 = "localhost:2"\n'
    words = ["restore", str(backup)]
    for replica in range(2):
        Path(f"{replica}.toml").write_text(f'cluster = "b"\nreplica = {replica}\n{members}')
        words += ["--config", f"{replica}.toml"]
    assert main(words) == 2
    assert "share a folder: name one for each" in capsys.readouterr().err
    Path("0.toml").write_text(f'cluster = "b"\ndata = "."\n{members}')
    assert main(words[:4]) == 2
    assert "data is '.', where you are" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0.toml", "1.toml"]
