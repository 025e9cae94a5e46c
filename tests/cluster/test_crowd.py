"""More connections than there can be: who has one goes on, and others are told."""

import asyncio
import resource
from pathlib import Path

import pytest

from creekdb.client import NotDone, connect
from creekdb.server.transport.client_connection import CONNECTION_LIMIT_FRAME
from creekdb.wire.addresses import parse_address
from tests.cluster.house import PATIENCE_S, house, run
from tests.cluster.processes import Processes

FILES = 120
"""That a replica may have: half of them are not for clients."""


def test_a_crowd_takes_no_files_from_the_journal(tmp_path: Path) -> None:
    async def story(processes: Processes) -> None:
        host, port = parse_address(processes.where(0)[1])
        async with processes.client(0) as db:
            files = (FILES, FILES)
            resource.prlimit(processes.process_id(0), resource.RLIMIT_NOFILE, files)
            crowd = [await asyncio.open_connection(host, port) for _ in range(2 * FILES)]
            assert await crowd[-1][0].read() == CONNECTION_LIMIT_FRAME
            for each in range(100):
                await db.strong.put(f"key {each}", each)
            status = await db.status()
            assert status["disk"] is None
            assert status["refused"]["crowded"] >= FILES
            for _, writer in crowd:
                writer.transport.abort()
            async with processes.client(0) as other:
                assert len(await other.strong.scan("key")) == 100

    often = {"CREEK_CHECKPOINT_EVERY": "10"}  # each begins a segment
    with Processes(tmp_path, 1, environment=often) as processes:
        run(asyncio.wait_for(story(processes), PATIENCE_S))
        assert "disk.failed" not in processes.said(0)
        assert "cannot write" not in processes.said(0)


def test_a_client_goes_from_a_crowd_to_another_replica(tmp_path: Path) -> None:
    async def turn_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CONNECTION_LIMIT_FRAME)
        writer.close()

    async def story() -> None:
        async with (
            await asyncio.start_server(turn_away, "127.0.0.1", 0) as crowded,
            house(tmp_path, 1) as cluster,
        ):
            there = "{}:{}".format(*crowded.sockets[0].getsockname())
            async with connect([there, cluster.config(0).clients]) as db:
                assert db.replica == 0
            with pytest.raises(NotDone, match=r"for 1 s: .*: this replica has no room for more"):
                async with connect(there, patience=1.0):
                    pass

    run(story())
