"""Backups of a cluster that runs, and clusters that begin with one."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from creek.client import NotDone
from creek.client.copying import copy
from creek.client.line import dial
from creek.cluster import copies, wire
from creek.cluster.backup import (
    SCHEMA_VERSION,
    Head,
    kept_as,
    read_head,
    registers_of,
    requests_of,
)
from creek.cluster.config import Security
from creek.cluster.journal import Journal
from creek.cluster.once import CLIENTS
from creek.cluster.restore import restore
from creek.cluster.server import Server
from creek.datatypes.kv import KV
from creek.errors import CreekError, DiskFull, StorageFault, UsageError
from creek.protocol import admission
from creek.protocol.dots import Dot
from creek.protocol.effects import Committed, Event
from tests.cluster.house import PATIENCE_S, House, house, run

NEVER_REFUSED = {
    admission.BAD_DOTS,
    admission.BAD_ID,
    admission.BAD_CHECKPOINT,
    admission.ID_REUSED,
    admission.NOT_OURS,
}
"""What would be, if the past of a restored replica were not that of the others."""


async def back_up(cluster: House, path: Path, replica: int = 0, **how: Any) -> Head:
    with kept_as(path) as file:
        await copy(cluster.addresses(replica), file.write, **how)
    return read_head(path)


def restored(path: Path, folder: Path, replicas: int, **how: Any) -> Head:
    members = tuple(range(replicas))
    folders = {each: folder / str(each) for each in members}
    named = {"cluster": "another", "datatype": "kv", **how}
    return restore(path, folders, members=members, **named)


def own_state(path: Path) -> dict[Any, Any]:
    """Without what calls came to."""
    return {
        key: value
        for key, value in registers_of(path)
        if not (isinstance(key, tuple) and key[0] == CLIENTS)
    }


class Asking:
    """A client whose calls are numbered by the test."""

    def __init__(self, address: str, client: str) -> None:
        self._address = address
        self._client = client

    async def ask(self, number: int, operation: str, *arguments: Any) -> wire.Answer:
        """Strongly; the stable answer."""
        heard: asyncio.Queue[wire.ToClient] = asyncio.Queue()
        hello = wire.Hello(wire.WIRE_VERSION, self._client)
        line, _ = await dial(
            wire.address_of(self._address), hello, heard.put_nowait, None, PATIENCE_S
        )
        try:
            line.write(wire.frame_of(wire.Call(number, operation, arguments, strong=True)))
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    said = await heard.get()
                    if isinstance(said, wire.Answer) and said.kind == "stable":
                        return said
        finally:
            line.close()


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
            assert (head.first, len(list(requests_of(path)))) == (0, head.length)

    run(story())


def test_operations_come_from_the_last_checkpoint_on(tmp_path: Path) -> None:
    async def story() -> None:
        recorded: list[tuple[int, Dot]] = []

        def observe(events: tuple[Event, ...]) -> None:
            recorded.extend((each.index, each.id) for each in events if isinstance(each, Committed))

        built = House(tmp_path / "data", replicas=1, checkpoint_every=20)
        config = built.config(0)
        server = Server(config, observe)
        await server.start()
        built.servers[0] = server
        for number in range(70):  # not as a client: what its calls come to would be kept as well
            server.driver.invoke(KV.call("put", f"key {number % 3}", number), number % 5 == 4, 0)
            await built.until_settled() if number % 5 == 4 else None
        path = tmp_path / "one.backup"
        head = await back_up(built, path, operations=True)
        await built.stop()
        assert 0 < head.first < head.length == len(recorded)
        told = [(place, each.id) for place, each in enumerate(requests_of(path), head.first)]
        assert told == recorded[head.first :]

    run(story())


def test_what_is_larger_than_a_frame_comes_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "PIECE_BYTES", 1000)

    async def story() -> None:
        async with house(tmp_path / "data", replicas=1) as cluster:
            async with cluster.client(0) as db:
                for number in range(50):
                    await db.weak.put(f"key {number}", "x" * number * 100)
                await db.strong.put("last", 0)
            seen: list[tuple[int, int]] = []
            path = tmp_path / "large.backup"
            head = await back_up(cluster, path, progress=lambda *told: seen.append(told))
            assert len(seen) > 100
            assert seen == sorted(seen)
            assert seen[-1] == (head.registers, head.registers)
            assert own_state(path)["key 49"] == "x" * 4900

    run(story())


def test_one_copy_at_a_time_and_none_for_who_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path / "data", replicas=1) as cluster:
            heard: asyncio.Queue[wire.ToClient] = asyncio.Queue()
            (address,) = cluster.addresses(0)
            hello = wire.Hello(wire.WIRE_VERSION, "somebody")
            line, _ = await dial(
                wire.address_of(address), hello, heard.put_nowait, None, PATIENCE_S
            )
            line.write(wire.frame_of(wire.CopyRequest(1)))
            async with asyncio.timeout(PATIENCE_S):
                assert isinstance(await heard.get(), wire.CopyBegun)
            path = tmp_path / "second.backup"
            with pytest.raises(NotDone, match="already"):
                await back_up(cluster, path)
            assert not any(tmp_path.glob(".*partial"))
            line.close()
            async with asyncio.timeout(PATIENCE_S):
                while cluster.servers[0].desk.connections:
                    await asyncio.sleep(0.01)
            await back_up(cluster, path)
            assert read_head(path).length == 0

    run(story())


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    async def story() -> None:
        security = Security(tokens={"ann": "secret"})
        async with house(tmp_path / "data", replicas=1, security=security) as cluster:
            with pytest.raises(UsageError, match="token"):
                await back_up(cluster, tmp_path / "one.backup")
            await back_up(cluster, tmp_path / "one.backup", token="secret")

    run(story())


def test_an_earlier_backup_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "one.backup"
    path.write_bytes(b"earlier")
    with pytest.raises(UsageError, match="--force"), kept_as(path):
        pass
    with pytest.raises(UsageError, match="not a backup"), kept_as(path, force=True) as file:
        file.write(b"nonsense")
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


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
                refused = server.driver.replica.refused
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
        read_head(path)
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
