"""Owners of journal segments, and files that do not belong to a journal."""

import struct
from pathlib import Path
from zlib import crc32

import pytest

from creekdb.errors import UsageError
from creekdb.server.storage.data_dir import DataDirOwner
from creekdb.server.storage.journal import Journal, JournalLimits
from creekdb.server.storage.segments import SEGMENT_HEADER_BYTES, UNKNOWN_OWNER
from tests.unit.server.message_samples import checkpoint_record, records, segment_paths

OURS = DataDirOwner(cluster="shop", replica=1, datatype="kv").segment_owner
OTHERS = [
    DataDirOwner(cluster="shop-2", replica=1, datatype="kv").segment_owner,
    DataDirOwner(cluster="shop", replica=2, datatype="kv").segment_owner,
    DataDirOwner(cluster="shop", replica=1, datatype="bank").segment_owner,
]
OWNER_BYTES = 8
CRC_BYTES = 4


def write_segments(directory: Path, owner: int, with_checkpoint: bool = False) -> None:
    """Write three segments, or two after a checkpoint."""
    journal = Journal(directory, limits=JournalLimits(segment_bytes=600), owner=owner)
    journal.open()
    if with_checkpoint:
        journal.append([checkpoint_record(1)])
    for first in (1, 2, 3):
        journal.append(records(first, 1, size=500))
        journal.flush()
    journal.close()


def read_records(directory: Path, owner: int) -> int:
    journal = Journal(directory, owner=owner)
    try:
        return len(journal.open())
    finally:
        journal.close()


def as_version_2(path: Path) -> None:
    """Rewrite a segment without an owner, as earlier releases wrote it."""
    data = path.read_bytes()
    header = bytearray(data[: SEGMENT_HEADER_BYTES - OWNER_BYTES - CRC_BYTES])
    struct.pack_into(">I", header, 8, 2)
    body = data[SEGMENT_HEADER_BYTES:]
    path.write_bytes(bytes(header) + struct.pack(">I", crc32(header)) + body)


@pytest.mark.parametrize("with_checkpoint", [False, True])
@pytest.mark.parametrize("other", OTHERS)
def test_segments_of_another_owner_are_rejected_and_kept(
    tmp_path: Path, other: int, with_checkpoint: bool
) -> None:
    write_segments(tmp_path, other, with_checkpoint)
    before = {path: path.read_bytes() for path in segment_paths(tmp_path)}
    with pytest.raises(UsageError, match="was written by another replica"):
        read_records(tmp_path, OURS)
    assert {path: path.read_bytes() for path in segment_paths(tmp_path)} == before
    assert read_records(tmp_path, other) == 3 + with_checkpoint


def test_a_checkpoint_of_another_owner_is_rejected(tmp_path: Path) -> None:
    journal = Journal(tmp_path, owner=OTHERS[0])
    journal.open()
    journal.append([checkpoint_record(1)])
    journal.flush()
    journal.close()
    with pytest.raises(UsageError, match="was written by another replica"):
        read_records(tmp_path, OURS)


@pytest.mark.parametrize("copied", [0, 1, 2])
def test_one_copied_segment_of_another_owner_is_rejected(tmp_path: Path, copied: int) -> None:
    write_segments(tmp_path / "ours", OURS)
    write_segments(tmp_path / "theirs", OTHERS[1])
    ours, theirs = (segment_paths(tmp_path / each)[copied] for each in ("ours", "theirs"))
    ours.write_bytes(theirs.read_bytes())
    with pytest.raises(UsageError, match=f"{ours} was written by another replica"):
        read_records(tmp_path / "ours", OURS)


def test_segments_of_earlier_releases_have_no_owner(tmp_path: Path) -> None:
    write_segments(tmp_path, OTHERS[0])
    for path in segment_paths(tmp_path):
        as_version_2(path)
    assert read_records(tmp_path, OURS) == 3
    journal = Journal(tmp_path, owner=OURS)
    journal.open()
    journal.append(records(4, 1))
    journal.flush()
    journal.close()
    assert read_records(tmp_path, OURS) == 4


def test_a_journal_without_an_owner_reads_all_segments(tmp_path: Path) -> None:
    write_segments(tmp_path, OURS)
    assert read_records(tmp_path, UNKNOWN_OWNER) == 3


def test_files_of_other_programs_are_neither_read_nor_removed(tmp_path: Path) -> None:
    write_segments(tmp_path, OURS)
    others = [tmp_path / "notes.new", tmp_path / "000000000009.journal.bak"]
    for path in others:
        path.write_text("text")
    assert read_records(tmp_path, OURS) == 3
    assert all(path.read_text() == "text" for path in others)
    (tmp_path / "system.journal").write_text("text")
    with pytest.raises(UsageError, match=r"system.journal is not a segment"):
        read_records(tmp_path, OURS)
