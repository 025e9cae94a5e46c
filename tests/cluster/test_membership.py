"""Real processes. Replicas are added, removed and replaced under load."""

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
from creekdb.server.runtime.server import Server, ServerLimits
from creekdb.server.transport.peer_link import PeerLimits
from creekdb.torture.processes import ReplicaProcesses
from creekdb.wire.counters import ServerCounter
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.fault_scenario import fault_scenario
from tests.cluster.in_process_cluster import SHORT_WAITS, TIMEOUT_S, running_cluster

THREE_MEMBERS = Configuration(0, ((0, "a:1"), (1, "b:1"), (2, "c:1")))


async def test_checkers_accept_membership_changes_under_load(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        load = await cluster.load(240, at=((0, 2), (2, 0), (0, 2), (2, 0)))
        await load.until_completed(40)

        new = cluster.processes.join(0)
        await cluster.until(lambda statuses: all(each["epoch"] == 1 for each in statuses))
        await cluster.until(lambda statuses: all(each["is_member"] for each in statuses), new)
        joined = await cluster.load(60, at=((new,), (new, 0)))
        await load.until_completed(100)

        admin = await cluster.client(0)
        _, members, former = await admin.strong(REMOVE_MEMBER, 1)
        assert [number for number, _ in members] == [0, 2, new]
        assert former == (1,)
        assert await cluster.processes.exit_code(1) == 0
        assert "was removed from its cluster" in cluster.processes.output(1)
        await joined.until_completed(30)

        cluster.processes.kill(new)
        await load.until_completed(150)
        cluster.processes.start_joined(new)
        await cluster.until(
            lambda statuses: all(each["members"] == [0, 2, new] for each in statuses)
        )
        cluster.processes.kill(new)
        _, client_address = cluster.processes.addresses(0)
        cluster.processes.start_joined(
            new, "--join", client_address
        )  # with the options of its first start
        await cluster.until(
            lambda statuses: all(each["members"] == [0, 2, new] for each in statuses)
        )
        with pytest.raises(NotDone, match="replica 1 is not a member: the members are 0, 2, 3"):
            await admin.strong(REMOVE_MEMBER, 1)
        await load.until_completed(200)


async def test_member_replace_replaces_a_failed_replica(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with fault_scenario(tmp_path) as cluster:
        processes = cluster.processes
        load = await cluster.load(120, at=((0, 2), (2, 0)))
        await load.until_completed(30)
        processes.kill(1)
        await cluster.until(lambda statuses: all(1 not in each["connected"] for each in statuses))

        new = processes.allocate()
        address, _ = processes.addresses(new)
        _, client_address = processes.addresses(0)
        arguments = [
            "member",
            "replace",
            "1",
            address,
            "--data",
            str(processes.data_dir(new)),
            "--at",
            client_address,
        ]
        assert await asyncio.to_thread(main, arguments) == 0
        processes.start_joined(new)
        await cluster.until(
            lambda statuses: all(each["members"] == [0, 2, new] for each in statuses)
        )
        await cluster.until(lambda statuses: all(each["is_member"] for each in statuses))
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["member", "list", "--at", client_address]) == 0
        _, head, *rows = capsys.readouterr().out.splitlines()
        columns = [each.strip() for each in head.split("  ") if each]
        assert columns[-2:] == ["peer address", "client address"]
        assert rows[0].split() == ["0", *processes.addresses(0)]
        assert rows[-1].split() == [str(new), *processes.addresses(new)]
        assert await asyncio.to_thread(main, ["member", "remove", "1", "--at", client_address]) == 1
        await load.until_completed(80)


async def test_calls_of_a_removed_replica_that_is_partitioned_are_not_lost(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        load = await cluster.load(80, at=((2, 0), (2, 1)), weak_only=True)
        await load.until_completed(10)
        cluster.links.partition([2])
        admin = await cluster.client(0)
        await admin.strong(REMOVE_MEMBER, 2)
        await load.until_completed(40)
        assert (await cluster.processes.status(2))["is_member"]
        cluster.links.heal()
        assert await cluster.processes.exit_code(2) == 0


async def test_a_replica_removed_while_down_exits_on_restart(
    tmp_path: Path,
) -> None:
    with ReplicaProcesses(tmp_path, 3) as processes:
        async with processes.client(0) as db:
            await db.strong.put("lamp", 3)
            await processes.until_all_joined()
            processes.kill(1)
            await db.strong(REMOVE_MEMBER, 1)
            for _ in range(2):  # the second start reads the removal from the journal
                processes.start(1)
                assert await processes.exit_code(1) == 0
            assert processes.output(1).count("was removed from its cluster") == 2
            await db.strong.put("lamp", 2)


async def test_a_removed_replica_hands_over_to_members_added_later(tmp_path: Path) -> None:
    """Without the new members, the removed replica reaches no majority to hand over to."""
    with ReplicaProcesses(tmp_path, 3) as processes:
        async with processes.client(0) as db:
            await db.strong.put("lamp", 3)
            await processes.until_all_joined()
            processes.kill(2)
            await db.strong(REMOVE_MEMBER, 2)
            for _ in range(2):
                new = processes.join(0)
                async with processes.client(new) as client:
                    await client.strong.put("lamp", new)
            processes.start(2)
            assert await processes.exit_code(2) == 0


async def test_the_evidence_about_a_removed_replica_is_dropped_after_all_know_of_it(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client(0) as db:

        def sighted(replica: int) -> set[int]:
            evidence = cluster.servers[replica].rollback_guard.evidence()
            assert evidence is not None
            return {each.replica for each in evidence.sightings}

        assert [sighted(each) for each in (0, 1)] == [{1, 2}, {0, 2}]
        await cluster.stop(2)
        await db.strong(REMOVE_MEMBER, 2)
        async with asyncio.timeout(TIMEOUT_S):
            while (sighted(0), sighted(1)) != ({1}, {0}):
                await asyncio.sleep(0.01)


async def test_a_removed_replica_is_dialled_while_it_is_connected(tmp_path: Path) -> None:
    limits = ServerLimits(peers=PeerLimits(redial_pause_s_max=0.05))
    async with running_cluster(tmp_path, limits=limits) as cluster, cluster.client(0) as db:
        links = [cluster.servers[each].peers.links[2] for each in (0, 1)]
        (address,) = {link.address for link in links}
        for link in links:
            link.address = (address[0], 1)  # no process listens there
            link.abort()
        await db.strong(REMOVE_MEMBER, 2)
        async with asyncio.timeout(TIMEOUT_S):
            for each in (0, 1):
                rejection = cluster.servers[each].rejections
                while 2 in cluster.servers[each].membership.configuration.replica_ids:
                    await asyncio.sleep(0.01)
                before = rejection[ServerCounter.PEER_UNREACHABLE]
                while rejection[ServerCounter.PEER_UNREACHABLE] < before + 3:
                    await asyncio.sleep(0.01)
            assert not cluster.servers[2].stop_requested.is_set()
            for link in links:
                link.address = address
            await cluster.servers[2].stop_requested.wait()
        assert cluster.servers[2].failure is None


async def add_two_members(processes: ReplicaProcesses, db: Database) -> None:
    """Add two members to the single replica of `db`. Each of them puts its number."""
    await db.strong.put("lamp", 3)
    for _ in range(2):
        new = processes.join(0)
        async with processes.client(new) as client:
            await client.strong.put("lamp", new)


async def test_a_single_replica_gains_members(tmp_path: Path) -> None:
    with ReplicaProcesses(tmp_path, 1) as processes:
        async with processes.client(0) as db:
            await add_two_members(processes, db)
            assert await db.strong.get("lamp") == 2


@pytest.mark.parametrize("scheme", ["smr", "bayou", "archie"])
async def test_schemes_with_fixed_members_reject_changes(scheme: str, tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2, scheme=scheme) as cluster, cluster.client(0) as db:
        with pytest.raises(NotDone, match="members of this scheme are fixed"):
            await db.strong(ADD_MEMBER, "d:1")
        await db.strong.put("lamp", 3)


def test_invalid_membership_changes_are_rejected_with_the_reason() -> None:
    def rejection(name: str, *arguments: object, reachable: tuple[int, ...] = (0, 1, 2)) -> str:
        with pytest.raises(BadValue) as caught:
            validate_change(name, arguments, THREE_MEMBERS, list(reachable))
        return str(caught.value)

    assert "requires the address" in rejection(ADD_MEMBER)
    assert "write HOST:PORT" in rejection(ADD_MEMBER, "nowhere")
    assert "replica 1 has the address b:1" in rejection(ADD_MEMBER, "b:1")
    assert "'d..e' is not the name of a host" in rejection(ADD_MEMBER, "d..e:1")
    assert "peers cannot connect to d:0" in rejection(ADD_MEMBER, "d:0")
    assert "peers cannot connect to 0.0.0.0:7203" in rejection(ADD_MEMBER, "0.0.0.0:7203")
    assert "requires the number" in rejection(REMOVE_MEMBER, "two")
    assert "replica 7 is not a member" in rejection(REMOVE_MEMBER, 7)
    message = rejection(REMOVE_MEMBER, 1, reachable=(0, 1))
    assert "only 1 of the 2 members would be reachable (missing: 1, 2)" in message
    assert "only 2 of the 4 members would be reachable" in rejection(
        ADD_MEMBER, "d:1", reachable=(0, 1)
    )


def test_a_join_ticket_is_stored_beside_the_journal(tmp_path: Path) -> None:
    after = THREE_MEMBERS.apply(THREE_MEMBERS.add_operation(3, "d:1"))
    ticket = make_ticket(after.register_value(), "d:1")
    make_data_dir(tmp_path / "3")
    write_ticket(ticket, tmp_path / "3")

    assert read_ticket(tmp_path / "3") == ticket
    assert ticket.configuration == THREE_MEMBERS
    assert ticket.addresses == {0: "a:1", 1: "b:1", 2: "c:1", 3: "d:1"}
    assert read_ticket(tmp_path) is None
    (tmp_path / "3" / "member.json").write_text("{")
    with pytest.raises(StorageFault, match="cannot read"):
        read_ticket(tmp_path / "3")


def test_a_new_replica_requires_an_empty_data_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "used").write_text("")

    assert main(["member", "add", "127.0.0.1:1", "--data", str(tmp_path)]) == 2
    assert "is not empty: a new replica needs an empty data directory" in capsys.readouterr().err
    assert main(["serve", "--join", "127.0.0.1:1"]) == 2
    assert "--join requires --listen" in capsys.readouterr().err


async def test_a_half_completed_replacement_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(*_: object) -> dict[str, object]:
        raise NotDone(RejectReason.NO_MAJORITY, "too few")

    monkeypatch.setattr(member, "_remove_member", fail)
    async with running_cluster(tmp_path / "data", 2) as cluster:
        arguments = [
            "member",
            "replace",
            "1",
            "127.0.0.1:7203",
            "--data",
            str(tmp_path / "new"),
        ]
        assert await asyncio.to_thread(main, [*arguments, "--at", *cluster.addresses(0)]) == 1
        async with asyncio.timeout(TIMEOUT_S):
            while cluster.servers[0].status()["members"] != [0, 1, 2]:
                await asyncio.sleep(0.01)
    output = capsys.readouterr().err
    assert "replica 2 was added, but replica 1 was not removed: too few; " in output
    assert "to complete the replacement, start replica 2, then run: " in output
    assert "member remove 1" in output


async def test_a_replica_that_cannot_start_does_not_become_a_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_cluster(tmp_path / "there", 1) as cluster:
        (client_address,) = cluster.addresses(0)

        async def rejection(*options: str, listen: str = "127.0.0.1:7203") -> str:
            arguments = ["serve", "--join", client_address, "--listen", listen]
            arguments += ["--data", str(tmp_path / "here"), *options]
            assert await asyncio.to_thread(main, arguments) == 2
            assert cluster.servers[0].status()["members"] == [0]
            return capsys.readouterr().err

        assert "'creek' in the cluster; set cluster" in await rejection("--cluster", "shop")
        assert "'kv' in the cluster; set datatype" in await rejection("--datatype", "bank")
        assert "'creek' in the cluster; set scheme" in await rejection("--scheme", "basic")
        assert "no module 'nothing'" in await rejection("--datatype", "nothing:here")
        assert "'nowhere' is not an address" in await rejection("--http", "nowhere")
        assert "without encryption" in await rejection("--clients", "10.0.0.4:7100")
        assert "without encryption" in await rejection(listen="10.0.0.4:7203")
        assert "peers cannot connect to 127.0.0.1:0" in await rejection(listen="127.0.0.1:0")


async def test_a_replica_that_loses_its_disk_after_a_change_must_be_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def log_messages() -> list[str]:
        return [
            each.getMessage()
            for each in caplog.records
            if "the journal was empty" in each.getMessage()
        ]

    limits = ServerLimits(report_after_s=0.2)
    async with running_cluster(tmp_path, 4, limits) as cluster, cluster.client(0) as db:
        await db.strong(REMOVE_MEMBER, 3)
        await cluster.stop(1)
        shutil.rmtree(tmp_path / "1")
        await cluster.start(1, limits=SHORT_WAITS._replace(report_after_s=0.2))
        async with asyncio.timeout(TIMEOUT_S):
            while not any("creek member replace 1" in each for each in log_messages()):
                await asyncio.sleep(0.01)
        async with cluster.client(1) as client:
            with pytest.raises(NotDone, match="creek member replace 1"):
                await client.weak.get("a")
        arguments = [
            "member",
            "replace",
            "1",
            "127.0.0.1:7203",
            "--data",
            str(tmp_path / "new"),
        ]
        assert await asyncio.to_thread(main, [*arguments, "--at", *cluster.addresses(0)]) == 0
        async with asyncio.timeout(TIMEOUT_S):
            while cluster.servers[0].status()["members"] != [0, 2, 4]:
                await asyncio.sleep(0.01)


async def test_an_added_replica_without_its_journal_does_not_vote(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The join ticket is still there, but the ballots that the replica promised are lost."""
    async with running_cluster(tmp_path, 3) as cluster, cluster.client(0) as db:
        address = f"127.0.0.1:{free_port()}"
        directory = tmp_path / "new"
        make_data_dir(directory)
        write_ticket(make_ticket(await db.strong(ADD_MEMBER, address), address), directory)
        settings = {"data": str(directory), "clients": "127.0.0.1:0", "fresh": True}
        config = msgspec.structs.replace(cluster.config(0), **settings)

        async def start() -> None:
            cluster.servers[3] = Server(config, ServerLimits(report_after_s=0.2))
            await cluster.servers[3].start()

        def has_joined() -> bool:
            status = cluster.servers[3].status()
            return bool(status["is_member"]) and status["waits_for"] is None

        async def until(condition: Callable[[], bool]) -> None:
            async with asyncio.timeout(TIMEOUT_S):
                while not condition():
                    await asyncio.sleep(0.01)

        await start()
        await cluster.stop(3)  # possibly before its admission
        await start()
        await until(has_joined)
        await cluster.stop(2)
        await db.strong.put("a", 1)  # three of four

        await cluster.stop(3)
        for file in (*directory.glob("*.journal"), directory / "owner.json"):
            file.unlink()
        for _ in range(2):  # the second start finds a journal without a promise
            caplog.clear()
            await start()
            await until(lambda: bool(cluster.servers[3].status()["is_member"]))
            await until(lambda: "creek member replace 3" in caplog.text)
            assert not has_joined()
            with pytest.raises((CallFailed, TimeoutError)):
                await db.strong.within(0.5).put("a", 2)
            await cluster.stop(3)
        await cluster.start(2)
        await db.strong.put("a", 3)


async def test_the_first_member_without_its_disk_does_not_start_alone(tmp_path: Path) -> None:
    with ReplicaProcesses(tmp_path, 1) as processes:
        async with processes.client(0) as db:
            await add_two_members(processes, db)
        processes.kill(0)
        shutil.rmtree(processes.data_dir(0))
        processes.start(0)
        assert await processes.exit_code(0) == 3
        assert "creek member replace 0" in processes.output(0)
        async with processes.client(1) as db:
            assert await db.strong.get("lamp") == 2
