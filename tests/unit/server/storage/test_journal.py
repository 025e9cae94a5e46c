"""The journal: recovery of records, checkpoints, and the lock of the directory."""

import errno
import os
from itertools import groupby
from pathlib import Path

import pytest

from creekdb.errors import DirectoryInUse, DiskFailed, StorageFault
from creekdb.server.storage.journal import Journal, JournalLimits
from tests.unit.server.message_samples import (
    checkpoint_record,
    read_journal,
    record,
    records,
    segment_paths,
    write_journal,
)
from tests.unit.server.storage.faulty_file_ops import FaultyFileOps


def test_a_new_directory_is_created_and_empty(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "a" / "b") == []


def test_appended_records_are_read_in_order_and_positions_continue(tmp_path: Path) -> None:
    write_journal(tmp_path, records(0, 3), records(3, 1))
    journal = Journal(tmp_path)

    assert journal.open() == records(0, 4)
    assert journal.durable_position == journal.end_position == 4
    assert journal.append(records(4, 2)) == 6
    assert journal.durable_position == 4
    assert journal.pending_bytes > 0
    journal.flush()
    assert journal.durable_position == 6
    assert journal.pending_bytes == 0
    journal.close()
    assert read_journal(tmp_path) == records(0, 6)


def test_closing_the_journal_writes_the_pending_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.open()
    journal.append(records(0, 2))
    journal.close()
    journal.close()

    assert read_journal(tmp_path) == records(0, 2)
    with pytest.raises(StorageFault, match="not open"):
        journal.append(records(2, 1))


def test_no_record_is_appended_if_one_cannot_be_encoded(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.open()
    with pytest.raises(OverflowError):
        journal.append([record(0), record(2**70)])

    assert journal.append(records(0, 1)) == 1
    journal.close()
    assert read_journal(tmp_path) == records(0, 1)


def test_segments_rotate_by_size(tmp_path: Path) -> None:
    write_journal(tmp_path, *(records(i, 1, 100) for i in range(9)), segment_bytes=600)

    assert len(segment_paths(tmp_path)) == 3
    assert all(path.stat().st_size <= 600 for path in segment_paths(tmp_path))
    assert read_journal(tmp_path) == records(0, 9, 100)


def test_a_record_larger_than_a_segment_gets_its_own_segment(tmp_path: Path) -> None:
    big = [record(1, 5000)]
    write_journal(tmp_path, records(0, 1), big, records(2, 1), segment_bytes=600)

    assert read_journal(tmp_path) == [*records(0, 1), *big, *records(2, 1)]


def test_records_beyond_the_group_limit_take_several_syncs(tmp_path: Path) -> None:
    journal = Journal(tmp_path, limits=JournalLimits(group_bytes_max=500))
    journal.open()
    journal.append(records(0, 10, 100))
    journal.flush()

    assert journal.sync_count == 3
    journal.close()
    assert read_journal(tmp_path) == records(0, 10, 100)


def test_a_checkpoint_replaces_the_earlier_records(tmp_path: Path) -> None:
    write_journal(tmp_path, records(0, 3), [*records(3, 1), checkpoint_record(4), *records(5, 2)])
    journal = Journal(tmp_path)

    assert journal.open() == [checkpoint_record(4), *records(5, 2)]
    assert journal.durable_position == 7
    names = [path.name for path in segment_paths(tmp_path)]
    assert names == ["000000000002.journal", "000000000003.journal"]
    journal.close()


def test_older_segments_are_removed_once_the_checkpoint_and_its_name_are_durable(
    tmp_path: Path,
) -> None:
    file_ops = FaultyFileOps()
    journal = Journal(tmp_path, file_ops=file_ops)
    journal.open()
    journal.append(records(0, 1))
    journal.flush()
    file_ops.called.clear()
    journal.append([checkpoint_record(1)])
    journal.flush()
    journal.close()

    assert [call for call, _ in groupby(file_ops.called)] == [
        *("create", "write", "fdatasync", "rename", "sync_directory"),
        *("unlink", "sync_directory"),
    ]


def test_the_next_checkpoint_removes_segments_that_could_not_be_removed(tmp_path: Path) -> None:
    file_ops, log = FaultyFileOps(), list[str]()
    journal = Journal(tmp_path, file_ops=file_ops, log=log.append)
    journal.open()
    journal.append(records(0, 1))
    file_ops.errors = {"unlink": errno.EIO}
    journal.append([checkpoint_record(1)])
    journal.flush()

    assert journal.durable_position == 2
    assert journal.fault is None
    assert len(segment_paths(tmp_path)) == 2
    assert len(log) == 1
    assert "cannot remove" in log[0]
    file_ops.errors = {}
    journal.append([checkpoint_record(2)])
    journal.flush()
    assert len(segment_paths(tmp_path)) == 1
    journal.close()


def test_leftovers_of_a_crash_are_removed(tmp_path: Path) -> None:
    write_journal(tmp_path, [checkpoint_record(0)])
    older = segment_paths(tmp_path)[0].read_bytes()
    write_journal(tmp_path, [checkpoint_record(1)])
    segment_paths(tmp_path)[0].with_name("000000000001.journal").write_bytes(older)
    (tmp_path / "000000000003.journal.new").write_bytes(b"half a hea")

    assert read_journal(tmp_path) == [checkpoint_record(1)]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["000000000002.journal", "lock"]


# --- the lock of the directory ------------------------------------------------------------------


def test_a_second_journal_fails_and_names_the_process_that_uses_the_directory(
    tmp_path: Path,
) -> None:
    first = Journal(tmp_path)
    first.open()
    with pytest.raises(DirectoryInUse, match=f"in use by process {os.getpid()}; stop that process"):
        Journal(tmp_path).open()
    first.close()
    assert read_journal(tmp_path) == []


def test_a_directory_that_cannot_be_created_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFault, match="cannot use"):
        Journal(tmp_path / "file" / "journal").open()


def test_a_journal_that_cannot_be_opened_unlocks_the_directory(tmp_path: Path) -> None:
    write_journal(tmp_path, records(0, 1))
    file_ops = FaultyFileOps()
    file_ops.errors = {"fdatasync": errno.EIO}
    with pytest.raises(DiskFailed):
        Journal(tmp_path, file_ops=file_ops).open()

    assert read_journal(tmp_path) == records(0, 1)
