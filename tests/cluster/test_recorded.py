"""What live replicas record of themselves, as a run that every checker and the pipeline take."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from creekdb.cli.app import main
from creekdb.errors import UsageError
from creekdb.history import History, merge_recordings
from creekdb.history.recording import (
    FRAME_LENGTH,
    READABLE_VERSIONS,
    RECORDING_SUFFIX,
    RECORDING_VERSION,
    RecordingStarted,
)
from creekdb.pipeline.stages import run_tables
from creekdb.server.membership.changes import REMOVE_MEMBER
from tests.cluster.faults_story import judge
from tests.cluster.house import PATIENCE_S, house


def record(folder: Path) -> History:
    """Two clients on two replicas, weak and strong, and a replica that is stopped for a while."""

    async def story() -> None:
        recorded = str(folder / "recorded")
        async with house(folder / "data", record=recorded, record_orders=True) as built:
            async with built.client(0) as one, built.client(1) as other:
                for number in range(20):
                    await asyncio.gather(
                        one.weak.increment("total"),
                        other.weak.put("last", number),
                        other.strong.increment("total"),
                        one.weak.get("total"),
                    )
                await built.stop(2)
                await one.strong.put("without", 2)
                await built.start(2)
                await one.strong.put("with", 2)
            await built.until_settled()

    asyncio.run(story())
    return merge_recordings(folder / "recorded")


def test_a_recorded_run_passes_every_checker(tmp_path: Path) -> None:
    history = record(tmp_path)
    assert len(history.operations) == 82
    assert [(log.replica, log.incarnation) for log in history.logs] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (2, 1),
    ]
    assert all(each.answers for each in history.operations)
    judge(history)


def test_tables_tell_what_clients_called(tmp_path: Path) -> None:
    history = record(tmp_path)
    made = run_tables.tables_of_history("live", history)
    kinds = set(made.operations["kind"].to_pylist())
    assert kinds == {"increment", "put", "get"}
    (row,) = made.runs.to_pylist()
    assert row["source"] == "live"
    assert row["scheme"] == "creek"
    assert row["executions"] >= row["to_execute"] > 80
    assert row["busy_us"] > 0
    assert row["core_us"] > 0
    assert row["bytes"] > 0
    assert row["messages"] > 0
    assert set(made.samples["replica"].to_pylist()) == {0, 1, 2}


def test_recordings_that_break_off_are_read_up_to_there(tmp_path: Path) -> None:
    whole = record(tmp_path)
    file = tmp_path / "recorded" / f"1-0{RECORDING_SUFFIX}"
    body = file.read_bytes()
    file.write_bytes(body[: len(body) // 2])
    cut = merge_recordings(tmp_path / "recorded")
    assert len(cut.operations) < len(whole.operations)
    assert {final.replica for final in cut.final_states} == {0, 2}
    end = FRAME_LENGTH.size + FRAME_LENGTH.unpack_from(body)[0]
    file.write_bytes(body[:end] + b"\0" * 100)  # as a replica leaves it that was killed
    assert {log.replica for log in merge_recordings(tmp_path / "recorded").logs} == {0, 2}
    file.write_bytes(b"")
    assert {log.replica for log in merge_recordings(tmp_path / "recorded").logs} == {0, 2}


def test_a_replica_that_was_killed_while_it_read_its_disk_has_forgotten_nothing(
    tmp_path: Path,
) -> None:
    whole = record(tmp_path)
    path = tmp_path / "recorded" / f"2-1{RECORDING_SUFFIX}"
    body = path.read_bytes()
    for frames_left in (1, 2):
        end = 0
        for _ in range(frames_left):
            end += FRAME_LENGTH.size + FRAME_LENGTH.unpack_from(body, end)[0]
        path.write_bytes(body[:end])
        cut = merge_recordings(tmp_path / "recorded")
        assert len(cut.logs) == len(whole.logs) - 1
        assert {final.replica for final in cut.final_states} == {0, 1}
        judge(cut)


def test_a_replica_that_was_removed_is_told_to_have_left(tmp_path: Path) -> None:
    async def story() -> None:
        recorded = str(tmp_path / "recorded")
        async with house(tmp_path / "data", record=recorded, record_orders=True) as built:
            async with built.client(0) as db:
                await db.strong(REMOVE_MEMBER, 2)
                await asyncio.wait_for(built.servers[2].stop_requested.wait(), PATIENCE_S)
                await built.stop(2)
                await db.weak.put("without", 2)
            await built.until_settled()

    asyncio.run(story())
    history = merge_recordings(tmp_path / "recorded")
    assert [log.replica for log in history.logs if log.is_removed] == [2]
    assert {final.replica for final in history.final_states} == {0, 1}
    judge(history)


def test_a_recording_of_a_later_release_is_refused_for_its_version(tmp_path: Path) -> None:
    whole = record(tmp_path)
    for path in (tmp_path / "recorded").iterdir():
        as_version(path, min(READABLE_VERSIONS))
    assert merge_recordings(tmp_path / "recorded") == whole
    path = tmp_path / "recorded" / f"1-0{RECORDING_SUFFIX}"
    as_version(path, RECORDING_VERSION + 1, more=b"\x92\x63\x00")  # a frame that nobody knows
    with pytest.raises(UsageError, match=f"version {RECORDING_VERSION + 1}; this Creek reads"):
        merge_recordings(tmp_path / "recorded")


def as_version(path: Path, version: int, more: bytes = b"") -> None:
    body = path.read_bytes()
    end = FRAME_LENGTH.size + FRAME_LENGTH.unpack_from(body)[0]
    started = msgspec.msgpack.decode(body[FRAME_LENGTH.size : end], type=RecordingStarted)
    first = msgspec.msgpack.encode(msgspec.structs.replace(started, version=version))
    following = FRAME_LENGTH.pack(len(more)) + more if more else b""
    path.write_bytes(FRAME_LENGTH.pack(len(first)) + first + following + body[end:])


def test_a_folder_without_recordings_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--record"):
        merge_recordings(tmp_path)
    garbage = tmp_path / f"0-0{RECORDING_SUFFIX}"
    garbage.write_bytes(FRAME_LENGTH.pack(1) + b"\xc0")
    assert main(["gather", str(tmp_path), "--out", str(tmp_path / "run")]) == 3
    assert not (tmp_path / "run").exists()


def test_a_run_is_gathered_and_checked_by_commands(tmp_path: Path) -> None:
    record(tmp_path)
    run = str(tmp_path / "run")
    assert main(["gather", str(tmp_path / "recorded"), "--out", run]) == 0
    assert main(["check", run]) == 0
