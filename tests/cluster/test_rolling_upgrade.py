"""Replicas that are upgraded one by one to a module with more operations."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import creekdb
from creekdb.client import NotDone
from creekdb.errors import MissingOperation
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster

bookings_v1 = creekdb.DataType("bookings")
bookings_v2 = creekdb.DataType("bookings")
V1, V2 = f"{__name__}:bookings_v1", f"{__name__}:bookings_v2"


@bookings_v1.operation(name="book")
def book(tx: creekdb.Transaction, slot: str) -> str:
    tx.put(slot, "booked")
    return slot


@bookings_v2.operation(name="book")
def book_for(tx: creekdb.Transaction, slot: str, holder: str = "booked") -> str:
    tx.put(slot, holder)
    return slot


@bookings_v2.operation
def release(tx: creekdb.Transaction, slot: str) -> None:
    tx.delete(slot)


@bookings_v2.operation(readonly=True)
def holder_of(tx: creekdb.Transaction, slot: str) -> Any:
    return tx.get(slot)


async def test_operations_that_a_peer_does_not_support_are_rejected(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, datatype=V2)
    await cluster.start(0, 1)
    await cluster.start(2, datatype=V1)
    await cluster.until_connected()
    async with cluster.client(0) as db:
        assert await db.strong.book("blue") == "blue"  # all replicas support this call
        for strong in (True, False):
            caller = db.strong if strong else db.weak
            with pytest.raises(NotDone, match="replica 2 does not support 'release'") as rejection:
                await caller.release("blue")
            assert rejection.value.reason == RejectReason.UNKNOWN_OPERATION
            with pytest.raises(NotDone, match="does not support 'book' with these arguments"):
                await caller.book("blue", "ann")
        assert await db.weak.holder_of("blue") == "booked"  # reads run on one replica only
        await cluster.until_quiescent()
        assert not any(server.failure for server in cluster.servers.values())
        await cluster.stop(2)
        await cluster.until_disconnected(2)
        await cluster.start(2)
        await cluster.until_connected()
        await db.strong.book("blue", "ann")
        await db.weak.release("blue")
        await cluster.until_quiescent()
    await cluster.stop()


@pytest.mark.parametrize("execution", ["inline", "threads"])
@pytest.mark.parametrize("strong", [True, False])
async def test_a_restarted_replica_stops_at_an_unsupported_operation(
    tmp_path: Path, execution: str, strong: bool
) -> None:
    cluster = InProcessCluster(tmp_path, datatype=V2, execution=execution)
    await cluster.start(0, 1)
    await cluster.start(2, datatype=V1)
    await cluster.until_connected()
    async with cluster.client(0) as db:
        await db.strong.book("blue")
        await cluster.stop(2)
        await cluster.until_disconnected(2)
        await (db.strong if strong else db.weak).book("blue", "ann")
        for _ in range(2):  # the second start finds the request in the journal
            await cluster.start(2, datatype=V1)
            outdated = cluster.servers[2]
            async with asyncio.timeout(TIMEOUT_S):
                await outdated.stop_requested.wait()
            assert isinstance(outdated.failure, MissingOperation)
            expected = (
                "cannot execute book('blue', 'ann'), issued by replica 0: "
                "'bookings' has no such operation on this replica"
            )
            assert expected in str(outdated.failure)
            await cluster.stop(2)
            await cluster.until_disconnected(2)
        assert await db.strong.holder_of("blue") == "ann"  # the other replicas continue
        await cluster.start(2)
        await cluster.until_connected()
        await cluster.until_quiescent()
        async with cluster.client(2) as other:
            assert await other.strong.holder_of("blue") == "ann"
        assert not any(server.failure for server in cluster.servers.values())
    await cluster.stop()


async def test_serve_reports_an_unsupported_operation_in_one_line(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, replicas=1, datatype=V2) as cluster,
        cluster.client() as db,
    ):
        await db.strong.release("blue")
    options = ["--member", "0=127.0.0.1:0", "--data", str(tmp_path / "0"), "--datatype", V1]
    completed = subprocess.run(
        [sys.executable, "-m", "creekdb", "serve", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert completed.returncode == 2
    *_, last = completed.stderr.splitlines()
    assert last == (
        "creek: cannot execute release('blue'), issued by replica 0: 'bookings' has no such "
        "operation on this replica; restart it with the module that replica 0 used, no data is lost"
    )
    assert "Traceback" not in completed.stdout + completed.stderr


async def test_a_started_replica_queries_its_peers_before_it_admits_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = InProcessCluster(tmp_path, datatype=V1)
    loop = asyncio.get_running_loop()
    dial = loop.create_connection
    ports = [port for _, port in cluster.config(0).peers.values()]

    async def delayed_dial(protocol: Any, host: str, port: int, **more: Any) -> Any:
        if port in ports:
            await asyncio.sleep(0.3)
        return await dial(protocol, host, port, **more)

    await cluster.start()
    await cluster.until_connected()
    async with cluster.client(1) as db:
        await db.strong.book("blue")
    await cluster.until_quiescent()
    await cluster.stop(0)
    monkeypatch.setattr(loop, "create_connection", delayed_dial)
    await cluster.start(0, datatype=V2)
    async with cluster.client(0) as db:
        with pytest.raises(NotDone, match="does not support 'release'"):
            await db.weak.release("blue")
        await db.strong.book("blue")
    await cluster.until_quiescent()
    assert not any(server.failure for server in cluster.servers.values())
    await cluster.stop()
