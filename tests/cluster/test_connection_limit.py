"""Connection limit. Existing connections continue, and new ones are rejected."""

import asyncio
import resource
from pathlib import Path

import pytest

from creekdb.client import NotDone, connect
from creekdb.server.transport.client_connection import CONNECTION_LIMIT_FRAME
from creekdb.torture.processes import ReplicaProcesses
from creekdb.wire.addresses import parse_address
from creekdb.wire.counters import ServerCounter
from tests.cluster.in_process_cluster import TIMEOUT_S, running_cluster

OPEN_FILES_MAX = 120
"""Open files of the replica. Half of them are reserved, not for clients."""


async def test_excess_connections_leave_open_files_for_the_journal(tmp_path: Path) -> None:
    environment = {"CREEK_CHECKPOINT_EVERY": "10"}  # each checkpoint starts a segment
    with ReplicaProcesses(tmp_path, 1, environment=environment) as processes:
        host, port = parse_address(processes.addresses(0)[1])
        async with asyncio.timeout(TIMEOUT_S), processes.client(0) as db:
            files = (OPEN_FILES_MAX, OPEN_FILES_MAX)
            resource.prlimit(processes.process_id(0), resource.RLIMIT_NOFILE, files)
            connections = [
                await asyncio.open_connection(host, port) for _ in range(2 * OPEN_FILES_MAX)
            ]
            assert await connections[-1][0].read() == CONNECTION_LIMIT_FRAME
            for each in range(100):
                await db.strong.put(f"key {each}", each)
            status = await db.status()
            assert status["disk"] is None
            assert status["refused"][ServerCounter.CONNECTION_LIMIT] >= OPEN_FILES_MAX
            for _, writer in connections:
                writer.transport.abort()
            async with processes.client(0) as other:
                assert len(await other.strong.scan("key")) == 100

        assert "disk.failed" not in processes.output(0)
        assert "cannot write" not in processes.output(0)


async def test_a_client_leaves_a_full_replica_for_another(tmp_path: Path) -> None:
    async def reject(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CONNECTION_LIMIT_FRAME)
        writer.close()

    async with (
        await asyncio.start_server(reject, "127.0.0.1", 0) as full_server,
        running_cluster(tmp_path, 1) as cluster,
    ):
        full_address = "{}:{}".format(*full_server.sockets[0].getsockname())
        async with connect([full_address, cluster.config(0).clients]) as db:
            assert db.replica == 0
        with pytest.raises(NotDone, match=r"for 1 s: .*: this replica has reached its conn"):
            async with connect(full_address, patience=1.0):
                pass
