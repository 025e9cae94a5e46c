"""Real processes: replicas are added, removed and replaced while clients go on calling."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from creekdb.cli.app import main
from creekdb.cli.commands import member
from creekdb.client import CallFailed, Database, NotDone
from creekdb.errors import BadValue, StorageFault
from creekdb.load.local_cluster import free_port
from creekdb.protocol.membership.configuration import Configuration
from creekdb.server.membership.changes import ADD_MEMBER, REMOVE_MEMBER, validate_change
from creekdb.server.membership.join_ticket import (
    make_data_dir,
    make_ticket,
    read_ticket,
    write_ticket,
)
from creekdb.server.runtime import startup
from creekdb.server.runtime.server import Server
from creekdb.server.transport import peer_link
from tests.cluster.faults_story import Cluster, tell
from tests.cluster.house import PATIENCE_S, house, run
from tests.cluster.processes import Processes

THREE = Configuration(0, ((0, "a:1"), (1, "b:1"), (2, "c:1")))


def test_members_change_under_load_and_every_checker_is_content(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        load = await cluster.load(240, at=((0, 2), (2, 0), (0, 2), (2, 0)))
        await load.reaches(40)

        new = cluster.processes.join(0)
        await cluster.until(lambda said: all(each["epoch"] == 1 for each in said))
        await cluster.until(lambda said: all(each["is_member"] for each in said), new)
        joined = await cluster.load(60, at=((new,), (new, 0)))
        await load.reaches(100)

        admin = await cluster.client(0)
        _, members, former = await admin.strong(REMOVE_MEMBER, 1)
        assert [number for number, _ in members] == [0, 2, new]
        assert former == (1,)
        assert await cluster.processes.exit_code(1) == 0
        assert "was removed from its cluster" in cluster.processes.said(1)
        await joined.reaches(30)

        cluster.processes.kill(new)
        await load.reaches(150)
        cluster.processes.start_joined(new)
        await cluster.until(lambda said: all(each["members"] == [0, 2, new] for each in said))
        cluster.processes.kill(new)
        _, at = cluster.processes.where(0)
        cluster.processes.start_joined(new, "--join", at)  # as it was started first
        await cluster.until(lambda said: all(each["members"] == [0, 2, new] for each in said))
        with pytest.raises(NotDone, match="replica 1 is no member: members are 0, 2, 3"):
            await admin.strong(REMOVE_MEMBER, 1)
        await load.reaches(200)

    tell(tmp_path, story)


def test_a_replica_that_does_not_come_back_is_replaced_by_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(cluster: Cluster) -> None:
        processes = cluster.processes
        load = await cluster.load(120, at=((0, 2), (2, 0)))
        await load.reaches(30)
        processes.kill(1)
        await cluster.until(lambda said: all(1 not in each["connected"] for each in said))

        new = processes.new()
        address, _ = processes.where(new)
        _, at = processes.where(0)
        words = ["member", "replace", "1", address, "--data", str(processes.data(new)), "--at", at]
        assert await asyncio.to_thread(main, words) == 0
        processes.start_joined(new)
        await cluster.until(lambda said: all(each["members"] == [0, 2, new] for each in said))
        await cluster.until(lambda said: all(each["is_member"] for each in said))
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["member", "list", "--at", at]) == 0
        _, head, *rows = capsys.readouterr().out.splitlines()
        assert head.split("  ")[-2:] == ["others find it at", "clients at"]
        assert rows[0].split() == ["0", *processes.where(0)]
        assert rows[-1].split() == [str(new), *processes.where(new)]
        assert await asyncio.to_thread(main, ["member", "remove", "1", "--at", at]) == 1
        await load.reaches(80)

    tell(tmp_path, story)


def test_what_one_answers_before_it_hears_that_it_was_removed_is_not_lost(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        load = await cluster.load(80, at=((2, 0), (2, 1)), weak_only=True)
        await load.reaches(10)
        cluster.links.divide([2])
        admin = await cluster.client(0)
        await admin.strong(REMOVE_MEMBER, 2)
        await load.reaches(40)
        assert (await cluster.processes.status(2))["is_member"]
        cluster.links.mend()
        assert await cluster.processes.exit_code(2) == 0

    tell(tmp_path, story)


def test_a_replica_that_was_away_when_it_was_removed_is_told_when_it_comes_back(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        with Processes(tmp_path, 3) as processes:
            async with processes.client(0) as db:
                await db.strong.put("lamp", 3)
                await processes.until_all_take_part()
                processes.kill(1)
                await db.strong(REMOVE_MEMBER, 1)
                for _ in range(2):  # the second time it knows
                    processes.start(1)
                    assert await processes.exit_code(1) == 0
                assert processes.said(1).count("was removed from its cluster") == 2
                await db.strong.put("lamp", 2)

    run(story())


def test_one_that_was_removed_is_heard_by_those_who_came_after_it(tmp_path: Path) -> None:
    """Without these there is no majority that it could leave to the others."""

    async def story() -> None:
        with Processes(tmp_path, 3) as processes:
            async with processes.client(0) as db:
                await db.strong.put("lamp", 3)
                await processes.until_all_take_part()
                processes.kill(2)
                await db.strong(REMOVE_MEMBER, 2)
                for _ in range(2):
                    new = processes.join(0)
                    async with processes.client(new) as there:
                        await there.strong.put("lamp", new)
                processes.start(2)
                assert await processes.exit_code(2) == 0

    run(story())


def test_one_that_was_removed_is_dialled_while_it_talks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_link, "PAUSE_MAX_S", 0.05)

    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as db:
            ways = [cluster.servers[each].peers.links[2] for each in (0, 1)]
            (port,) = {way._port for way in ways}
            for way in ways:
                way._port = 1  # where nobody listens
                way.abort()
            await db.strong(REMOVE_MEMBER, 2)
            async with asyncio.timeout(PATIENCE_S):
                for each in (0, 1):
                    refused = cluster.servers[each].rejections
                    while 2 in cluster.servers[each].membership.configuration.replica_ids:
                        await asyncio.sleep(0.01)
                    before = refused["could not reach a peer"]
                    while refused["could not reach a peer"] < before + 3:
                        await asyncio.sleep(0.01)
                assert not cluster.servers[2].stop_requested.is_set()
                for way in ways:
                    way._port = port
                await cluster.servers[2].stop_requested.wait()
            assert cluster.servers[2].failure is None

    run(story())


async def get_company(processes: Processes, db: Database) -> None:
    """Of the one that `db` calls, and that is alone: two more, and each puts its number."""
    await db.strong.put("lamp", 3)
    for _ in range(2):
        new = processes.join(0)
        async with processes.client(new) as there:
            await there.strong.put("lamp", new)


def test_a_replica_that_is_alone_gets_company(tmp_path: Path) -> None:
    async def story() -> None:
        with Processes(tmp_path, 1) as processes:
            async with processes.client(0) as db:
                await get_company(processes, db)
                assert await db.strong.get("lamp") == 2

    run(story())


@pytest.mark.parametrize("scheme", ["smr", "bayou", "archie"])
def test_schemes_whose_members_do_not_change_say_so(scheme: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, 2, scheme=scheme) as built, built.client(0) as db:
            with pytest.raises(NotDone, match="members of this scheme do not change"):
                await db.strong(ADD_MEMBER, "d:1")
            await db.strong.put("lamp", 3)

    run(story())


def test_what_a_member_is_asked_for_is_refused_with_the_reason() -> None:
    def refused(name: str, *arguments: object, reached: tuple[int, ...] = (0, 1, 2)) -> str:
        with pytest.raises(BadValue) as caught:
            validate_change(name, arguments, THREE, list(reached))
        return str(caught.value)

    assert "takes the address" in refused(ADD_MEMBER)
    assert "write HOST:PORT" in refused(ADD_MEMBER, "nowhere")
    assert "is where replica 1 is found" in refused(ADD_MEMBER, "b:1")
    assert "is not where others find a replica" in refused(ADD_MEMBER, "d:0")
    assert "is not where others find a replica" in refused(ADD_MEMBER, "0.0.0.0:7203")
    assert "takes the number" in refused(REMOVE_MEMBER, "two")
    assert "replica 7 is no member" in refused(REMOVE_MEMBER, 7)
    without = refused(REMOVE_MEMBER, 1, reached=(0, 1))
    assert "of the 2 members that there would be, only 1 can be reached" in without
    assert "only 2 can be reached" in refused(ADD_MEMBER, "d:1", reached=(0, 1))


def test_a_ticket_is_kept_beside_the_journal(tmp_path: Path) -> None:
    after = THREE.apply(THREE.add_operation(3, "d:1"))
    ticket = make_ticket(after.register_value(), "d:1")
    make_data_dir(tmp_path / "3")
    write_ticket(ticket, tmp_path / "3")

    assert read_ticket(tmp_path / "3") == ticket
    assert ticket.configuration == THREE
    assert ticket.addresses == {0: "a:1", 1: "b:1", 2: "c:1", 3: "d:1"}
    assert read_ticket(tmp_path) is None
    (tmp_path / "3" / "member.json").write_text("{")
    with pytest.raises(StorageFault, match="cannot read"):
        read_ticket(tmp_path / "3")


def test_a_new_replica_needs_a_folder_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "used").write_text("")

    assert main(["member", "add", "127.0.0.1:1", "--data", str(tmp_path)]) == 2
    assert "is not empty: a new replica needs a folder of its own" in capsys.readouterr().err
    assert main(["serve", "--join", "127.0.0.1:1"]) == 2
    assert "--join needs --listen" in capsys.readouterr().err


def test_a_replacement_that_ends_halfway_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fails(*_: object) -> dict[str, object]:
        raise NotDone("no_majority", "too few")

    async def story() -> None:
        monkeypatch.setattr(member, "_removed", fails)
        async with house(tmp_path / "data", 2) as built:
            words = ["member", "replace", "1", "127.0.0.1:7203", "--data", str(tmp_path / "new")]
            assert await asyncio.to_thread(main, [*words, "--at", *built.addresses(0)]) == 1
            async with asyncio.timeout(PATIENCE_S):
                while built.servers[0].status()["members"] != [0, 1, 2]:
                    await asyncio.sleep(0.01)

    run(story())
    said = capsys.readouterr().err
    assert "replica 2 was added, and replica 1 stays: too few. To do the rest, start" in said
    assert "member remove 1" in said


def test_a_replica_that_could_not_start_does_not_become_a_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        async with house(tmp_path / "there", 1) as built:
            (at,) = built.addresses(0)

            async def refused(*options: str, listen: str = "127.0.0.1:7203") -> str:
                words = ["serve", "--join", at, "--listen", listen]
                words += ["--data", str(tmp_path / "here"), *options]
                assert await asyncio.to_thread(main, words) == 2
                assert built.servers[0].status()["members"] == [0]
                return capsys.readouterr().err

            assert "the cluster there is 'creek'" in await refused("--cluster", "shop")
            assert "the datatype there is 'kv'" in await refused("--datatype", "bank")
            assert "the scheme there is 'creek'" in await refused("--scheme", "basic")
            assert "no module 'nothing'" in await refused("--datatype", "nothing:here")
            assert "'nowhere' is not an address" in await refused("--http", "nowhere")
            assert "nothing is encrypted" in await refused("--clients", "10.0.0.4:7100")
            assert "nothing is encrypted" in await refused(listen="10.0.0.4:7203")
            assert "is not where others find" in await refused(listen="127.0.0.1:0")

    run(story())


def test_who_lost_its_folder_after_members_changed_is_told_to_be_replaced_and_can_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "TELL_S", 0.2)

    def told() -> list[str]:
        return [
            each.getMessage()
            for each in caplog.records
            if "its journal was empty" in each.getMessage()
        ]

    async def story() -> None:
        async with house(tmp_path, 4) as cluster, cluster.client(0) as db:
            await db.strong(REMOVE_MEMBER, 3)
            await cluster.stop(1)
            shutil.rmtree(tmp_path / "1")
            await cluster.start(1)
            async with asyncio.timeout(PATIENCE_S):
                while not any("creek member replace 1" in each for each in told()):
                    await asyncio.sleep(0.01)
            async with cluster.client(1) as waits:
                with pytest.raises(NotDone, match="creek member replace 1"):
                    await waits.weak.within(1).get("a")
            words = ["member", "replace", "1", "127.0.0.1:7203", "--data", str(tmp_path / "new")]
            assert await asyncio.to_thread(main, [*words, "--at", *cluster.addresses(0)]) == 0
            async with asyncio.timeout(PATIENCE_S):
                while cluster.servers[0].status()["members"] != [0, 2, 4]:
                    await asyncio.sleep(0.01)

    run(story())


def test_who_was_added_and_lost_its_journal_has_no_vote_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ticket and its signature are still there, and what it promised is not."""
    monkeypatch.setattr(startup, "TELL_S", 0.2)

    async def story() -> None:
        async with house(tmp_path, 3) as cluster, cluster.client(0) as db:
            address = f"127.0.0.1:{free_port()}"
            folder = tmp_path / "new"
            make_data_dir(folder)
            write_ticket(make_ticket(await db.strong(ADD_MEMBER, address), address), folder)
            place = {"data": str(folder), "clients": "127.0.0.1:0", "fresh": True}
            config = msgspec.structs.replace(cluster.config(0), **place)

            async def start() -> None:
                cluster.servers[3] = Server(config)
                await cluster.servers[3].start()

            def takes_part() -> bool:
                status = cluster.servers[3].status()
                return bool(status["is_member"]) and status["waits_for"] is None

            async def until(holds: Callable[[], bool]) -> None:
                async with asyncio.timeout(PATIENCE_S):
                    while not holds():
                        await asyncio.sleep(0.01)

            await start()
            await cluster.stop(3)  # before it was let in, perhaps
            await start()
            await until(takes_part)
            await cluster.stop(2)
            await db.strong.put("a", 1)  # three of four

            await cluster.stop(3)
            for file in (*folder.glob("*.journal"), folder / "owner.json"):
                file.unlink()
            for _ in range(2):  # the second time there is a journal, without a promise
                caplog.clear()
                await start()
                await until(lambda: bool(cluster.servers[3].status()["is_member"]))
                await until(lambda: "creek member replace 3" in caplog.text)
                assert not takes_part()
                with pytest.raises((CallFailed, TimeoutError)):
                    await db.strong.within(0.5).put("a", 2)
                await cluster.stop(3)
            await cluster.start(2)
            await db.strong.put("a", 3)

    run(story())


def test_who_let_the_others_in_and_lost_its_folder_does_not_go_on_alone(tmp_path: Path) -> None:
    async def story() -> None:
        with Processes(tmp_path, 1) as processes:
            async with processes.client(0) as db:
                await get_company(processes, db)
            processes.kill(0)
            shutil.rmtree(processes.data(0))
            processes.start(0)
            assert await processes.exit_code(0) == 3
            assert "creek member replace 0" in processes.said(0)
            async with processes.client(1) as db:
                assert await db.strong.get("lamp") == 2

    run(story())
