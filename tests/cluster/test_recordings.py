"""Recordings of live replicas, merged into runs for checkers and the pipeline."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from creekdb.cli.app import main
from creekdb.errors import UsageError
from creekdb.history import History, merge_recordings
from creekdb.history.recording import (
    FRAME_LENGTH,
    RECORDING_SUFFIX,
    RECORDING_VERSION,
    RecordingStarted,
)
from creekdb.pipeline.stages import run_tables
from creekdb.protocol.extensions import EXTENSIONS
from creekdb.server.membership.changes import REMOVE_MEMBER
from tests.cluster.fault_scenario import check_history
from tests.cluster.in_process_cluster import TIMEOUT_S, running_cluster


async def record(directory: Path) -> History:
    """Record weak and strong calls at two replicas while a third one restarts."""
    recorded = str(directory / "recorded")
    async with running_cluster(directory / "data", record=recorded, record_orders=True) as cluster:
        async with cluster.client(0) as first_client, cluster.client(1) as second_client:
            for number in range(20):
                await asyncio.gather(
                    first_client.weak.increment("total"),
                    second_client.weak.put("last", number),
                    second_client.strong.increment("total"),
                    first_client.weak.get("total"),
                )
            await cluster.stop(2)
            await first_client.strong.put("without", 2)
            await cluster.start(2)
            await first_client.strong.put("with", 2)
        await cluster.until_quiescent()
    return merge_recordings(directory / "recorded")


async def test_a_recorded_run_passes_every_checker(tmp_path: Path) -> None:
    history = await record(tmp_path)
    assert len(history.operations) == 82
    assert [(log.replica, log.incarnation) for log in history.logs] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (2, 1),
    ]
    assert all(each.responses for each in history.operations)
    check_history(history)


async def test_tables_contain_the_calls_of_clients(tmp_path: Path) -> None:
    history = await record(tmp_path)
    tables = run_tables.tables_of_history("live", history)
    kinds = set(tables.operations["kind"].to_pylist())
    assert kinds == {"increment", "put", "get"}
    (row,) = tables.runs.to_pylist()
    assert row["source"] == "live"
    assert row["scheme"] == "creek"
    assert row["extensions"] == ",".join(EXTENSIONS), "all are on by default"
    assert row["executions"] >= row["to_execute"] > 80
    assert row["busy_us"] > 0
    assert row["core_us"] > 0
    assert row["bytes"] > 0
    assert row["messages"] > 0
    assert set(tables.samples["replica"].to_pylist()) == {0, 1, 2}


async def test_truncated_recordings_are_read_up_to_their_end(tmp_path: Path) -> None:
    whole = await record(tmp_path)
    file = tmp_path / "recorded" / f"1-0{RECORDING_SUFFIX}"
    body = file.read_bytes()
    file.write_bytes(body[: len(body) // 2])
    partial = merge_recordings(tmp_path / "recorded")
    assert len(partial.operations) < len(whole.operations)
    assert {final.replica for final in partial.final_states} == {0, 2}
    end = FRAME_LENGTH.size + FRAME_LENGTH.unpack_from(body)[0]
    file.write_bytes(body[:end] + b"\0" * 100)  # like the file of a killed replica
    assert {log.replica for log in merge_recordings(tmp_path / "recorded").logs} == {0, 2}
    file.write_bytes(b"")
    assert {log.replica for log in merge_recordings(tmp_path / "recorded").logs} == {0, 2}


async def test_a_recording_of_a_replica_killed_during_recovery_is_ignored(
    tmp_path: Path,
) -> None:
    whole = await record(tmp_path)
    path = tmp_path / "recorded" / f"2-1{RECORDING_SUFFIX}"
    body = path.read_bytes()
    for frames_left in (1, 2):
        end = 0
        for _ in range(frames_left):
            end += FRAME_LENGTH.size + FRAME_LENGTH.unpack_from(body, end)[0]
        path.write_bytes(body[:end])
        partial = merge_recordings(tmp_path / "recorded")
        assert len(partial.logs) == len(whole.logs) - 1
        assert {final.replica for final in partial.final_states} == {0, 1}
        check_history(partial)


async def test_a_removed_replica_is_marked_in_the_history(tmp_path: Path) -> None:
    recorded = str(tmp_path / "recorded")
    async with running_cluster(tmp_path / "data", record=recorded, record_orders=True) as cluster:
        async with cluster.client(0) as db:
            await db.strong(REMOVE_MEMBER, 2)
            await asyncio.wait_for(cluster.servers[2].stop_requested.wait(), TIMEOUT_S)
            await cluster.stop(2)
            await db.weak.put("without", 2)
        await cluster.until_quiescent()
    history = merge_recordings(tmp_path / "recorded")
    assert [log.replica for log in history.logs if log.is_removed] == [2]
    assert {final.replica for final in history.final_states} == {0, 1}
    check_history(history)


async def test_a_recording_of_a_later_version_is_rejected(tmp_path: Path) -> None:
    await record(tmp_path)
    path = tmp_path / "recorded" / f"1-0{RECORDING_SUFFIX}"
    rewrite_version(path, RECORDING_VERSION + 1, more=b"\x92\x63\x00")  # a frame of unknown type
    with pytest.raises(UsageError, match=f"version {RECORDING_VERSION + 1}; this Creek reads"):
        merge_recordings(tmp_path / "recorded")


def rewrite_version(path: Path, version: int, more: bytes = b"") -> None:
    body = path.read_bytes()
    end = FRAME_LENGTH.size + FRAME_LENGTH.unpack_from(body)[0]
    first_frame = msgspec.msgpack.decode(body[FRAME_LENGTH.size : end], type=RecordingStarted)
    encoded = msgspec.msgpack.encode(msgspec.structs.replace(first_frame, version=version))
    following = FRAME_LENGTH.pack(len(more)) + more if more else b""
    path.write_bytes(FRAME_LENGTH.pack(len(encoded)) + encoded + following + body[end:])


def test_a_directory_without_valid_recordings_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--record"):
        merge_recordings(tmp_path)
    garbage = tmp_path / f"0-0{RECORDING_SUFFIX}"
    garbage.write_bytes(FRAME_LENGTH.pack(1) + b"\xc0")
    assert main(["gather", str(tmp_path), "--out", str(tmp_path / "run")]) == 3
    assert not (tmp_path / "run").exists()


async def test_commands_gather_and_check_a_run(tmp_path: Path) -> None:
    await record(tmp_path)
    run = str(tmp_path / "run")
    assert main(["gather", str(tmp_path / "recorded"), "--out", run]) == 0
    assert main(["check", run]) == 0
