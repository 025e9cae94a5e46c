"""Damaged journal files: torn tails are cut off, other damage is a fault."""

import os
from pathlib import Path

import pytest

from creekdb.errors import StorageFault
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Received
from creekdb.protocol.request import Operation, Request
from creekdb.server.storage.journal import Journal
from tests.unit.server.message_samples import read_journal, records, segment_paths, write_journal


def damage(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def group_offset(path: Path, index: int) -> int:
    """Return the offset of a group in a segment, by its index."""
    at = -1
    for _ in range(index + 1):
        at = path.read_bytes().index(b"GRP\xc1", at + 1)
    return at


def test_a_torn_tail_is_cut_off_and_reported(tmp_path: Path) -> None:
    write_journal(tmp_path, records(0, 2), records(2, 2))
    (path,) = segment_paths(tmp_path)
    at = group_offset(path, 1)
    damage(path, at + 40)
    log: list[str] = []
    journal = Journal(tmp_path, log=log.append)

    assert journal.open() == records(0, 2)
    (line,) = log
    assert line.startswith(f"truncated {path} at byte {at}: a crash left an incomplete write of ")
    journal.append(records(2, 1))
    journal.close()
    assert read_journal(tmp_path) == records(0, 3)


@pytest.mark.parametrize("tail_bytes", [0, 1, 10, 27, 28, 29, 60])
def test_a_tail_may_be_truncated_anywhere(tmp_path: Path, tail_bytes: int) -> None:
    write_journal(tmp_path, records(0, 2), records(2, 2))
    (path,) = segment_paths(tmp_path)
    os.truncate(path, group_offset(path, 1) + tail_bytes)

    assert read_journal(tmp_path) == records(0, 2)
    log: list[str] = []
    journal = Journal(tmp_path, log=log.append)
    journal.open()
    assert not log
    journal.close()


def test_zeros_after_the_records_are_not_a_torn_tail(tmp_path: Path) -> None:
    write_journal(tmp_path, records(0, 2))
    log: list[str] = []
    journal = Journal(tmp_path, log=log.append)
    journal.open()

    assert not log
    journal.close()


@pytest.mark.parametrize("byte", [0, 5, 20, 26, 30, 50])
def test_damage_before_a_later_group_is_a_fault(tmp_path: Path, byte: int) -> None:
    write_journal(tmp_path, records(0, 2), records(2, 2), records(4, 2))
    (path,) = segment_paths(tmp_path)
    at = group_offset(path, 1)
    damage(path, at + byte)
    before = path.read_bytes()

    with pytest.raises(StorageFault, match="Durable records are lost: move") as error:
        Journal(tmp_path).open()
    assert f"{path} is damaged at byte {at}: records from 2 on" in str(error.value)
    assert path.read_bytes() == before


def test_the_first_records_of_a_segment_are_never_a_torn_tail(tmp_path: Path) -> None:
    write_journal(tmp_path, records(0, 2))
    (path,) = segment_paths(tmp_path)
    damage(path, 80)

    with pytest.raises(StorageFault, match="first records are damaged"):
        Journal(tmp_path).open()


def test_damage_in_an_earlier_segment_is_a_fault(tmp_path: Path) -> None:
    write_journal(tmp_path, *(records(i, 1, 100) for i in range(6)), segment_bytes=600)
    first, _ = segment_paths(tmp_path)
    at = group_offset(first, 2)
    damage(first, at + 60)

    with pytest.raises(StorageFault, match=f"{first} is damaged at byte {at}"):
        Journal(tmp_path).open()


def test_a_missing_segment_is_a_fault(tmp_path: Path) -> None:
    write_journal(tmp_path, *(records(i, 1, 100) for i in range(9)), segment_bytes=600)
    first, second, _ = segment_paths(tmp_path)
    second.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageFault, match=f"{first} is damaged"):
        Journal(tmp_path).open()
    (tmp_path / "elsewhere").rename(second)
    first.unlink()
    with pytest.raises(StorageFault, match="earlier records are missing"):
        Journal(tmp_path).open()


@pytest.mark.parametrize(
    ("offset", "message"),
    [(0, "not a journal segment"), (8, "version 4278190083"), (16, "header checksum")],
)
def test_a_damaged_segment_header_is_a_fault(tmp_path: Path, offset: int, message: str) -> None:
    write_journal(tmp_path, records(0, 1))
    damage(segment_paths(tmp_path)[0], offset)

    with pytest.raises(StorageFault, match=message):
        Journal(tmp_path).open()


def test_a_truncated_or_renamed_segment_is_a_fault(tmp_path: Path) -> None:
    write_journal(tmp_path, records(0, 1))
    (path,) = segment_paths(tmp_path)
    renamed = path.rename(tmp_path / "000000000007.journal")
    with pytest.raises(StorageFault, match=r"the header is that of 000000000001\.journal"):
        Journal(tmp_path).open()
    os.truncate(renamed, 10)
    with pytest.raises(StorageFault, match="the header is truncated"):
        Journal(tmp_path).open()


def test_a_value_that_contains_a_journal_is_not_read_as_groups(tmp_path: Path) -> None:
    write_journal(tmp_path / "other", *(records(event, 1) for event in range(9)))
    other = segment_paths(tmp_path / "other")[0].read_bytes()[:1000]
    holder = Received(Request(1, Dot(0, 1), Operation("put", (other,)), False))
    write_journal(tmp_path, records(0, 1), [holder])
    (path,) = segment_paths(tmp_path)
    damage(path, group_offset(path, 1) + 40)

    assert read_journal(tmp_path) == records(0, 1)
