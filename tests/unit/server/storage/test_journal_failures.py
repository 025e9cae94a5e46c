"""A disk that is full or fails: what was appended waits, and nothing else changes."""

import errno
from pathlib import Path

import pytest

from creekdb.errors import DiskFailed, DiskFull, StorageFault
from creekdb.protocol.messages import encode
from creekdb.server.storage.journal import Journal
from tests.unit.server.message_samples import found, image, record, records, segments
from tests.unit.server.storage.faulty_file_ops import FaultyCalls


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EIO, DiskFailed)],
)
@pytest.mark.parametrize(
    "call", ["write", "fdatasync", "create", "rename", "sync_directory", "truncate"]
)
def test_what_could_not_be_written_waits_and_is_written_later(
    tmp_path: Path, call: str, code: int, kind: type[StorageFault]
) -> None:
    calls, failures, told = FaultyCalls(), list[StorageFault](), list[int]()
    journal = Journal(
        tmp_path,
        calls=calls,
        on_failure=failures.append,
        on_durable=lambda: told.append(journal.durable_position),
    )
    journal.open()
    journal.append(records(0, 2))
    journal.flush()
    calls.errors = {call: code}
    if call == "truncate":
        calls.errors["fdatasync"] = code
    begins = call in ("create", "rename", "sync_directory")
    journal.append([image(2) if begins else record(2)])

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
    calls.errors = {}
    journal.flush()

    assert told == [2, 3, 5]
    assert journal.fault is None
    assert journal.pending_bytes == 0
    journal.close()
    assert found(tmp_path) == ([image(2), *records(3, 2)] if begins else records(0, 5))


def test_bytes_of_a_write_that_failed_half_way_are_truncated(tmp_path: Path) -> None:
    calls = FaultyCalls()
    journal = Journal(tmp_path, calls=calls)
    journal.open()
    journal.append(records(0, 1))
    journal.flush()
    (path,) = segments(tmp_path)
    end = len(path.read_bytes().rstrip(b"\0"))
    calls.errors, calls.write_most = {"write": errno.ENOSPC}, 50
    journal.append(records(1, 1, 100))
    with pytest.raises(DiskFull, match="no space left"):
        journal.flush()

    assert end <= path.stat().st_size <= end + 1
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".new"] == []
    journal.close()
    assert found(tmp_path) == records(0, 1)


def test_short_writes_are_completed(tmp_path: Path) -> None:
    calls = FaultyCalls()
    calls.write_most = 50
    journal = Journal(tmp_path, calls=calls, segment_bytes=2000)
    journal.open()
    journal.append(records(0, 5, 60))
    journal.close()

    assert found(tmp_path) == records(0, 5, 60)


def test_what_a_failed_sync_covered_is_written_to_another_segment(tmp_path: Path) -> None:
    calls = FaultyCalls()
    journal = Journal(tmp_path, calls=calls)
    journal.open()
    journal.append(records(0, 1))
    journal.flush()
    calls.errors = {"fdatasync": errno.EIO, "truncate": errno.EIO}
    journal.append(records(1, 1))
    with pytest.raises(DiskFailed):
        journal.flush()
    calls.errors = {}
    journal.retry()
    journal.flush()
    journal.close()

    left, other = (path.read_bytes().count(b"GRP\xc1") for path in segments(tmp_path))
    assert left == 2, "what failed is still there, and is not read twice"
    assert other == 1
    assert found(tmp_path) == records(0, 2)


def test_a_journal_that_is_closed_with_a_full_disk_says_what_it_lost(tmp_path: Path) -> None:
    calls, log = FaultyCalls(), list[str]()
    journal = Journal(tmp_path, calls=calls, log=log.append)
    journal.open()
    calls.errors = {"create": errno.ENOSPC}
    journal.append(records(0, 3))
    journal.close()

    assert len(log) == 1
    assert log[0].startswith("3 records were never written: no space left")
    assert found(tmp_path) == []


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("call", ["fdatasync", "rename", "sync_directory"])
def test_a_segment_behind_an_image_that_failed_when_it_was_begun_is_read_past(
    tmp_path: Path, call: str, drawn: bool
) -> None:
    calls = FaultyCalls()
    journal = Journal(tmp_path, calls=calls)
    journal.open()
    journal.append(records(0, 2))
    journal.flush()
    room = journal.reserve_checkpoint()
    journal.flush()
    calls.errors = {call: errno.EIO}
    journal.append(records(3, 2))
    with pytest.raises(DiskFailed):
        journal.flush()
    calls.errors = {}
    journal.retry()
    journal.flush()
    if drawn:
        journal.write_checkpoint(room, [encode(image(2))])
    journal.append(records(5, 1))
    journal.close()

    begin = [image(2)] if drawn else records(0, 2)
    assert found(tmp_path) == [*begin, *records(3, 3)]


def test_an_image_that_is_tried_again_and_again_takes_one_number(tmp_path: Path) -> None:
    """A segment tells in a byte how many were given to images before it."""
    calls = FaultyCalls()
    journal = Journal(tmp_path, calls=calls)
    journal.open()
    journal.append(records(0, 1))
    journal.flush()
    calls.errors["write"] = errno.ENOSPC
    journal.append_checkpoint(iter([encode(image(1))]))
    for _ in range(300):
        journal.retry()
        with pytest.raises(DiskFull):
            journal.flush()
    calls.errors.clear()
    journal.retry()
    journal.append(records(2, 1))
    journal.close()
    assert found(tmp_path) == [image(1), *records(2, 1)]
