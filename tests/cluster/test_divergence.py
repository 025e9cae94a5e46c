"""Replicas with diverging states detect the divergence and stop."""

import asyncio
import os
from pathlib import Path

import pytest

from creekdb.client import NotDone, Unknown
from creekdb.errors import NotDeterministic
from creekdb.execution.python_runtime import build_kind
from creekdb.server.runtime import server as server_module
from creekdb.server.runtime.server import Server
from creekdb.torture.processes import ReplicaProcesses
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster

EXACT = "tests.cluster.nondeterministic_types:exact"
ROUNDED = "tests.cluster.nondeterministic_types:rounded"


async def until_failed(server: Server) -> str:
    async with asyncio.timeout(TIMEOUT_S):
        await server.stop_requested.wait()
    assert isinstance(server.failure, NotDeterministic)
    return str(server.failure)


async def until_agreed(cluster: InProcessCluster, length: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        for server in cluster.servers.values():
            while any(
                comparison.same_at < length
                for peer, comparison in server.divergence.comparisons.items()
                if peer in cluster.servers
            ):
                await asyncio.sleep(0.01)


async def test_replicas_report_that_their_digests_agree(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client(0) as db:
        for number in range(10):
            await db.strong.put(f"key {number}", number)
        await until_agreed(cluster, 10)
        digests = [server.status()["digests"] for server in cluster.servers.values()]
        assert {each["agreed"] for each in digests} == {10}
        assert len({each["digest"] for each in digests}) == 1
        assert digests[0]["with"] == {"1": 10, "2": 10}
        assert not any(each["differs_from"] for each in digests)


async def test_the_diverging_replica_stops_and_names_the_operation(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, datatype=EXACT)
    await cluster.start(0, 1)
    await cluster.start(2, datatype=ROUNDED)
    await cluster.until_connected()
    async with cluster.client(0) as db:
        await db.strong.put("a", 1)
        await db.strong.tax(20)  # both types agree on this amount
        await until_agreed(cluster, 2)
        await db.strong.put("b", 2)
        await db.strong.tax(24)
        failure = await until_failed(cluster.servers[2])
        assert "replica 2 has digest" in failure
        assert "1 × put, 1 × tax" in failure
        assert "4: tax(24)" in failure
        assert "tax(20)" not in failure
        assert await db.strong.tax(25) == 5  # the majority continues
        assert all(cluster.servers[each].failure is None for each in (0, 1))
        assert cluster.servers[0].status()["digests"]["differs_from"] == [2]
    async with cluster.client(2, patience=0.5) as other:
        with pytest.raises((NotDone, Unknown), match="this replica has failed"):
            await other.weak.put("a", 1)
    await cluster.stop()


async def test_both_replicas_stop_without_an_agreeing_majority(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, 2, datatype=EXACT)
    await cluster.start(0)
    await cluster.start(1, datatype=ROUNDED)
    await cluster.until_connected()
    async with cluster.client(0) as db:
        await db.strong.tax(24)
        for server in cluster.servers.values():
            assert "tax" in await until_failed(server)
    await cluster.stop()
    assert list((tmp_path / "0").glob("*.journal")), "the journal is kept"


async def test_a_recovered_state_keeps_its_digest(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, checkpoint_every=8)
    await cluster.start()
    async with cluster.client(0) as db:
        for number in range(20):
            await db.strong.put(f"key {number % 5}", number)
        await cluster.stop(2)
        for number in range(40):
            await db.strong.put(f"key {number % 5}", number)
    await cluster.stop()
    await cluster.start()
    async with cluster.client(1) as db:
        await db.strong.put("last", 1)
        length = cluster.servers[1].driver.replica.view.committed_length()
        await until_agreed(cluster, length)
    await cluster.stop()


async def test_an_operation_that_depends_on_its_process_stops_all_replicas(tmp_path: Path) -> None:
    options = ("--datatype", "tests.cluster.nondeterministic_types:by_process")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path.cwd()), prepend=os.pathsep)
        with ReplicaProcesses(tmp_path, 3, *options) as cluster:
            async with cluster.client(0) as db:
                await db.strong.tax(20)
            for replica in range(3):
                process = cluster._running.pop(replica)
                assert process.wait(TIMEOUT_S) not in (0, -9)
                output = (tmp_path / f"{replica}.out").read_text()
                assert "not deterministic" in output
                assert "tax" in output


async def test_replicas_report_another_kind_of_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = InProcessCluster(tmp_path, 3)
    await cluster.start(0, 1)
    monkeypatch.setattr(server_module, "build_kind", lambda: "another")
    await cluster.start(2)
    await cluster.until_connected()
    reported = [each.status()["differing_builds"] for each in cluster.servers.values()]
    await cluster.stop()
    assert reported[:2] == [{"2": "another"}] * 2
    assert reported[2] == {"0": build_kind(), "1": build_kind()}
