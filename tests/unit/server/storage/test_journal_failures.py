"""A full or failing disk: appended records wait, and nothing else changes."""

import errno
from pathlib import Path

import pytest

from creekdb.errors import DiskFailed, DiskFull, StorageFault
from creekdb.protocol.messages import encode
from creekdb.server.storage.journal import Journal, JournalLimits
from tests.unit.server.message_samples import (
    checkpoint_record,
    read_journal,
    record,
    records,
    segment_paths,
)
from tests.unit.server.storage.faulty_file_ops import FaultyFileOps


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EIO, DiskFailed)],
)
@pytest.mark.parametrize(
    "call", ["write", "fdatasync", "create", "rename", "sync_directory", "truncate"]
)
def test_records_that_cannot_be_written_wait_and_are_written_later(
    tmp_path: Path, call: str, code: int, kind: type[StorageFault]
) -> None:
    file_ops, failures, durable_positions = FaultyFileOps(), list[StorageFault](), list[int]()
    journal = Journal(
        tmp_path,
        file_ops=file_ops,
        on_failure=failures.append,
    )
    journal.subscribe(lambda: durable_positions.append(journal.durable_position))
    journal.open()
    journal.append(records(0, 2))
    journal.flush()
    file_ops.errors = {call: code}
    if call == "truncate":
        file_ops.errors["fdatasync"] = code
    starts_segment = call in ("create", "rename", "sync_directory")
    journal.append([checkpoint_record(2) if starts_segment else record(2)])

    for attempt in (1, 2):
        with pytest.raises(kind):
            journal.flush()
        assert journal.fault is failures[-1]
        assert len(failures) == attempt
        assert journal.durable_position == 2
        assert journal.pending_bytes > 0
        with pytest.raises(kind):
            journal.flush()
        assert len(failures) == attempt
        journal.append(records(2 + attempt, 1))
        journal.retry()
    file_ops.errors = {}
    journal.flush()

    assert durable_positions == [2, 3, 5]
    assert journal.fault is None
    assert journal.pending_bytes == 0
    journal.close()
    assert read_journal(tmp_path) == (
        [checkpoint_record(2), *records(3, 2)] if starts_segment else records(0, 5)
    )


def test_bytes_of_a_partial_write_are_truncated(tmp_path: Path) -> None:
    file_ops = FaultyFileOps()
    journal = Journal(tmp_path, file_ops=file_ops)
    journal.open()
    journal.append(records(0, 1))
    journal.flush()
    (path,) = segment_paths(tmp_path)
    end = len(path.read_bytes().rstrip(b"\0"))
    file_ops.errors, file_ops.write_bytes_max = {"write": errno.ENOSPC}, 50
    journal.append(records(1, 1, 100))
    with pytest.raises(DiskFull, match="no space left"):
        journal.flush()

    assert end <= path.stat().st_size <= end + 1
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".new"] == []
    journal.close()
    assert read_journal(tmp_path) == records(0, 1)


def test_short_writes_are_completed(tmp_path: Path) -> None:
    file_ops = FaultyFileOps()
    file_ops.write_bytes_max = 50
    journal = Journal(tmp_path, file_ops=file_ops, limits=JournalLimits(segment_bytes=2000))
    journal.open()
    journal.append(records(0, 5, 60))
    journal.close()

    assert read_journal(tmp_path) == records(0, 5, 60)


def test_records_of_a_failed_sync_are_written_to_another_segment(tmp_path: Path) -> None:
    file_ops = FaultyFileOps()
    journal = Journal(tmp_path, file_ops=file_ops)
    journal.open()
    journal.append(records(0, 1))
    journal.flush()
    file_ops.errors = {"fdatasync": errno.EIO, "truncate": errno.EIO}
    journal.append(records(1, 1))
    with pytest.raises(DiskFailed):
        journal.flush()
    file_ops.errors = {}
    journal.retry()
    journal.flush()
    journal.close()

    abandoned, other = (path.read_bytes().count(b"GRP\xc1") for path in segment_paths(tmp_path))
    assert abandoned == 2, "the failed group is still there, and is not read twice"
    assert other == 1
    assert read_journal(tmp_path) == records(0, 2)


def test_closing_a_journal_with_a_full_disk_logs_the_lost_records(tmp_path: Path) -> None:
    file_ops, log = FaultyFileOps(), list[str]()
    journal = Journal(tmp_path, file_ops=file_ops, log=log.append)
    journal.open()
    file_ops.errors = {"create": errno.ENOSPC}
    journal.append(records(0, 3))
    journal.close()

    assert len(log) == 1
    assert log[0].startswith("3 records were never written: no space left")
    assert read_journal(tmp_path) == []


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("call", ["fdatasync", "rename", "sync_directory"])
def test_a_segment_that_failed_at_its_creation_after_a_checkpoint_slot_is_skipped(
    tmp_path: Path, call: str, is_written: bool
) -> None:
    file_ops = FaultyFileOps()
    journal = Journal(tmp_path, file_ops=file_ops)
    journal.open()
    journal.append(records(0, 2))
    journal.flush()
    slot = journal.reserve_checkpoint()
    journal.flush()
    file_ops.errors = {call: errno.EIO}
    journal.append(records(3, 2))
    with pytest.raises(DiskFailed):
        journal.flush()
    file_ops.errors = {}
    journal.retry()
    journal.flush()
    if is_written:
        journal.write_checkpoint(slot, [encode(checkpoint_record(2))])
    journal.append(records(5, 1))
    journal.close()

    first = [checkpoint_record(2)] if is_written else records(0, 2)
    assert read_journal(tmp_path) == [*first, *records(3, 3)]


def test_retries_of_a_checkpoint_use_one_segment_number(tmp_path: Path) -> None:
    """A segment header has one byte for the number of checkpoints before it."""
    file_ops = FaultyFileOps()
    journal = Journal(tmp_path, file_ops=file_ops)
    journal.open()
    journal.append(records(0, 1))
    journal.flush()
    file_ops.errors["write"] = errno.ENOSPC
    journal.append_checkpoint(iter([encode(checkpoint_record(1))]))
    for _ in range(300):
        journal.retry()
        with pytest.raises(DiskFull):
            journal.flush()
    file_ops.errors.clear()
    journal.retry()
    journal.append(records(2, 1))
    journal.close()
    assert read_journal(tmp_path) == [checkpoint_record(1), *records(2, 1)]
