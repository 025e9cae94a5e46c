"""Replicas that are started one after the other with a module that has more operations."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import creekdb
from creekdb.client import NotDone
from creekdb.errors import MissingOperation
from tests.cluster.house import PATIENCE_S, House, house, run

before = creekdb.DataType("rooms")
after = creekdb.DataType("rooms")
OLD, NEW = f"{__name__}:before", f"{__name__}:after"


@before.operation(name="book")
def book(tx: creekdb.Transaction, room: str) -> str:
    tx.put(room, "booked")
    return room


@after.operation(name="book")
def book_for(tx: creekdb.Transaction, room: str, who: str = "booked") -> str:
    tx.put(room, who)
    return room


@after.operation
def leave(tx: creekdb.Transaction, room: str) -> None:
    tx.delete(room)


@after.operation(readonly=True)
def booked(tx: creekdb.Transaction, room: str) -> Any:
    return tx.get(room)


def test_what_another_replica_does_not_know_yet_is_refused_and_nobody_stops(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = House(tmp_path, datatype=NEW)
        await cluster.start(0, 1)
        await cluster.start(2, datatype=OLD)
        await cluster.until_connected()
        async with cluster.client(0) as db:
            assert await db.strong.book("blue") == "blue"  # all can
            for strong in (True, False):
                caller = db.strong if strong else db.weak
                with pytest.raises(NotDone, match="replica 2 has no operation 'leave'") as found:
                    await caller.leave("blue")
                assert found.value.reason == "unknown_operation"
                with pytest.raises(NotDone, match="'book', or none to be called so"):
                    await caller.book("blue", "ann")
            assert await db.weak.booked("blue") == "booked"  # which nobody else carries out
            await cluster.until_settled()
            assert not any(server.failure for server in cluster.servers.values())
            await cluster.stop(2)
            await cluster.until_missed(2)
            await cluster.start(2)
            await cluster.until_connected()
            await db.strong.book("blue", "ann")
            await db.weak.leave("blue")
            await cluster.until_settled()
        await cluster.stop()

    run(story())


@pytest.mark.parametrize("execution", ["inline", "threads"])
@pytest.mark.parametrize("strong", [True, False])
def test_one_that_was_away_and_cannot_carry_it_out_stops_before_it_does_anything_else(
    tmp_path: Path, execution: str, strong: bool
) -> None:
    async def story() -> None:
        cluster = House(tmp_path, datatype=NEW, execution=execution)
        await cluster.start(0, 1)
        await cluster.start(2, datatype=OLD)
        await cluster.until_connected()
        async with cluster.client(0) as db:
            await db.strong.book("blue")
            await cluster.stop(2)
            await cluster.until_missed(2)
            await (db.strong if strong else db.weak).book("blue", "ann")
            for _ in range(2):  # its journal has it, then
                await cluster.start(2, datatype=OLD)
                late = cluster.servers[2]
                async with asyncio.timeout(PATIENCE_S):
                    await late.stop_requested.wait()
                assert isinstance(late.failure, MissingOperation)
                said = "book('blue', 'ann'), which replica 0 took from a client, calls no operation"
                assert said in str(late.failure)
                await cluster.stop(2)
                await cluster.until_missed(2)
            assert await db.strong.booked("blue") == "ann"  # the others go on
            await cluster.start(2)
            await cluster.until_connected()
            await cluster.until_settled()
            async with cluster.client(2) as other:
                assert await other.strong.booked("blue") == "ann"
            assert not any(server.failure for server in cluster.servers.values())
        await cluster.stop()

    run(story())


def test_whose_own_call_is_unknown_to_an_older_module_is_told_so_in_a_line(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1, datatype=NEW) as cluster, cluster.client() as db:
            await db.strong.leave("blue")

    run(story())
    given = ["--member", "0=127.0.0.1:0", "--data", str(tmp_path / "0"), "--datatype", OLD]
    ended = subprocess.run(
        [sys.executable, "-m", "creekdb", "serve", *given],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 2
    *_, last = ended.stderr.splitlines()
    assert last == (
        "creek: leave('blue'), which replica 0 took from a client, calls no operation that 'rooms' "
        "has here. Start this replica again with the module that replica 0 had then: nothing is "
        "lost"
    )
    assert "Traceback" not in ended.stdout + ended.stderr


def test_one_that_was_just_started_asks_the_others_before_it_takes_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        cluster = House(tmp_path, datatype=OLD)
        loop = asyncio.get_running_loop()
        dial = loop.create_connection
        ports = [port for _, port in cluster.config(0).peers.values()]

        async def from_far_away(protocol: Any, host: str, port: int, **more: Any) -> Any:
            if port in ports:
                await asyncio.sleep(0.3)
            return await dial(protocol, host, port, **more)

        await cluster.start()
        await cluster.until_connected()
        async with cluster.client(1) as db:
            await db.strong.book("blue")
        await cluster.until_settled()
        await cluster.stop(0)
        monkeypatch.setattr(loop, "create_connection", from_far_away)
        await cluster.start(0, datatype=NEW)
        async with cluster.client(0) as db:
            with pytest.raises(NotDone, match="has no operation 'leave'"):
                await db.weak.leave("blue")
            await db.strong.book("blue")
        await cluster.until_settled()
        assert not any(server.failure for server in cluster.servers.values())
        await cluster.stop()

    run(story())
