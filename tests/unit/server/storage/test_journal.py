"""The journal: what is written is found, images replace the past, one process has the folder."""

import errno
import os
from pathlib import Path

import pytest

from creekdb.errors import DirectoryInUse, DiskFailed, StorageFault
from creekdb.server.storage import journal as journal_module
from creekdb.server.storage.journal import Journal
from tests.unit.server.message_samples import found, image, record, records, segments, written
from tests.unit.server.storage.faulty_file_ops import FaultyCalls


def test_a_new_folder_is_made_and_holds_nothing(tmp_path: Path) -> None:
    assert found(tmp_path / "a" / "b") == []


def test_what_was_appended_is_found_in_order_and_positions_go_on(tmp_path: Path) -> None:
    written(tmp_path, records(0, 3), records(3, 1))
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
    assert found(tmp_path) == records(0, 6)


def test_what_is_appended_is_written_when_the_journal_is_closed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.open()
    journal.append(records(0, 2))
    journal.close()
    journal.close()

    assert found(tmp_path) == records(0, 2)
    with pytest.raises(StorageFault, match="not open"):
        journal.append(records(2, 1))


def test_a_record_that_cannot_be_encoded_appends_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.open()
    with pytest.raises(OverflowError):
        journal.append([record(0), record(2**70)])

    assert journal.append(records(0, 1)) == 1
    journal.close()
    assert found(tmp_path) == records(0, 1)


def test_segments_rotate_by_size(tmp_path: Path) -> None:
    written(tmp_path, *(records(i, 1, 100) for i in range(9)), segment_bytes=600)

    assert len(segments(tmp_path)) == 3
    assert all(path.stat().st_size <= 600 for path in segments(tmp_path))
    assert found(tmp_path) == records(0, 9, 100)


def test_a_record_greater_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    big = [record(1, 5000)]
    written(tmp_path, records(0, 1), big, records(2, 1), segment_bytes=600)

    assert found(tmp_path) == [*records(0, 1), *big, *records(2, 1)]


def test_what_is_too_much_for_one_sync_is_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "GROUP_BYTES_MAX", 500)
    journal = Journal(tmp_path)
    journal.open()
    journal.append(records(0, 10, 100))
    journal.flush()

    assert journal.sync_count == 3
    journal.close()
    assert found(tmp_path) == records(0, 10, 100)


def test_an_image_replaces_what_came_before_it(tmp_path: Path) -> None:
    written(tmp_path, records(0, 3), [*records(3, 1), image(4), *records(5, 2)])
    journal = Journal(tmp_path)

    assert journal.open() == [image(4), *records(5, 2)]
    assert journal.durable_position == 7
    assert [path.name for path in segments(tmp_path)] == ["000000000002.journal"]
    journal.close()


def test_older_segments_go_only_when_the_image_and_its_name_are_durable(tmp_path: Path) -> None:
    calls = FaultyCalls()
    journal = Journal(tmp_path, calls=calls)
    journal.open()
    journal.append(records(0, 1))
    journal.flush()
    calls.made.clear()
    journal.append([image(1)])
    journal.flush()
    journal.close()

    assert calls.made == [
        *("create", "write", "fdatasync", "rename", "sync_directory"),
        *("unlink", "sync_directory"),
    ]


def test_segments_that_cannot_be_removed_go_with_the_next_image(tmp_path: Path) -> None:
    calls, log = FaultyCalls(), list[str]()
    journal = Journal(tmp_path, calls=calls, log=log.append)
    journal.open()
    journal.append(records(0, 1))
    calls.errors = {"unlink": errno.EIO}
    journal.append([image(1)])
    journal.flush()

    assert journal.durable_position == 2
    assert journal.fault is None
    assert len(segments(tmp_path)) == 2
    assert len(log) == 1
    assert "cannot remove" in log[0]
    calls.errors = {}
    journal.append([image(2)])
    journal.flush()
    assert len(segments(tmp_path)) == 1
    journal.close()


def test_what_a_crash_left_over_is_removed(tmp_path: Path) -> None:
    written(tmp_path, [image(0)])
    kept = segments(tmp_path)[0].read_bytes()
    written(tmp_path, [image(1)])
    segments(tmp_path)[0].with_name("000000000001.journal").write_bytes(kept)
    (tmp_path / "000000000003.journal.new").write_bytes(b"half a hea")

    assert found(tmp_path) == [image(1)]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["000000000002.journal", "lock"]


# --- one process --------------------------------------------------------------------------------


def test_a_second_journal_in_the_same_folder_is_told_who_has_it(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    first.open()
    with pytest.raises(DirectoryInUse, match=f"in use by process {os.getpid()}: stop it first"):
        Journal(tmp_path).open()
    first.close()
    assert found(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFault, match="cannot use"):
        Journal(tmp_path / "file" / "journal").open()


def test_a_journal_that_could_not_be_opened_gives_the_folder_free(tmp_path: Path) -> None:
    written(tmp_path, records(0, 1))
    calls = FaultyCalls()
    calls.errors = {"fdatasync": errno.EIO}
    with pytest.raises(DiskFailed):
        Journal(tmp_path, calls=calls).open()

    assert found(tmp_path) == records(0, 1)
