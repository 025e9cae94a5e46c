"""What a journal makes of files that are not as it left them."""

import os
from pathlib import Path

import pytest

from creekdb.errors import StorageFault
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Received
from creekdb.protocol.request import Operation, Request
from creekdb.server.storage.journal import Journal
from tests.unit.server.message_samples import found, records, segments, written


def damage(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def offset_of(path: Path, nth: int) -> int:
    """Where the nth group of a segment begins."""
    at = -1
    for _ in range(nth + 1):
        at = path.read_bytes().index(b"GRP\xc1", at + 1)
    return at


def test_a_torn_tail_is_cut_off_and_reported(tmp_path: Path) -> None:
    written(tmp_path, records(0, 2), records(2, 2))
    (path,) = segments(tmp_path)
    at = offset_of(path, 1)
    damage(path, at + 40)
    log: list[str] = []
    journal = Journal(tmp_path, log=log.append)

    assert journal.open() == records(0, 2)
    assert journal.torn_tail is not None
    assert journal.torn_tail.path == path
    assert journal.torn_tail.offset == at
    assert log == [str(journal.torn_tail)]
    assert f"{path} at byte {at}" in log[0]
    journal.append(records(2, 1))
    journal.close()
    assert found(tmp_path) == records(0, 3)


@pytest.mark.parametrize("kept", [0, 1, 10, 27, 28, 29, 60])
def test_a_tail_may_end_anywhere(tmp_path: Path, kept: int) -> None:
    written(tmp_path, records(0, 2), records(2, 2))
    (path,) = segments(tmp_path)
    os.truncate(path, offset_of(path, 1) + kept)

    assert found(tmp_path) == records(0, 2)
    journal = Journal(tmp_path)
    journal.open()
    assert journal.torn_tail is None
    journal.close()


def test_zeros_behind_the_records_are_not_a_torn_tail(tmp_path: Path) -> None:
    written(tmp_path, records(0, 2))
    journal = Journal(tmp_path)
    journal.open()

    assert journal.torn_tail is None
    journal.close()


@pytest.mark.parametrize("byte", [0, 5, 20, 26, 30, 50])
def test_damage_before_what_was_synced_later_is_a_fault(tmp_path: Path, byte: int) -> None:
    written(tmp_path, records(0, 2), records(2, 2), records(4, 2))
    (path,) = segments(tmp_path)
    at = offset_of(path, 1)
    damage(path, at + byte)
    before = path.read_bytes()

    with pytest.raises(StorageFault, match="counted as safe: move") as error:
        Journal(tmp_path).open()
    assert f"{path} is damaged at byte {at}: records from 2 on" in str(error.value)
    assert path.read_bytes() == before


def test_the_first_records_of_a_segment_are_never_a_torn_tail(tmp_path: Path) -> None:
    written(tmp_path, records(0, 2))
    (path,) = segments(tmp_path)
    damage(path, 80)

    with pytest.raises(StorageFault, match="first records are not sound"):
        Journal(tmp_path).open()


def test_damage_in_an_earlier_segment_is_a_fault(tmp_path: Path) -> None:
    written(tmp_path, *(records(i, 1, 100) for i in range(6)), segment_bytes=600)
    first, _ = segments(tmp_path)
    at = offset_of(first, 2)
    damage(first, at + 60)

    with pytest.raises(StorageFault, match=f"{first} is damaged at byte {at}"):
        Journal(tmp_path).open()


def test_a_segment_that_is_missing_is_a_fault(tmp_path: Path) -> None:
    written(tmp_path, *(records(i, 1, 100) for i in range(9)), segment_bytes=600)
    first, second, _ = segments(tmp_path)
    second.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageFault, match=f"{first} is damaged"):
        Journal(tmp_path).open()
    (tmp_path / "elsewhere").rename(second)
    first.unlink()
    with pytest.raises(StorageFault, match="files are missing"):
        Journal(tmp_path).open()


@pytest.mark.parametrize(
    ("offset", "message"),
    [(0, "does not begin like"), (8, "version 4278190082"), (16, "checksum of its header")],
)
def test_a_header_that_is_not_ours_is_a_fault(tmp_path: Path, offset: int, message: str) -> None:
    written(tmp_path, records(0, 1))
    damage(segments(tmp_path)[0], offset)

    with pytest.raises(StorageFault, match=message):
        Journal(tmp_path).open()


def test_a_header_that_is_cut_short_or_under_another_name_is_a_fault(tmp_path: Path) -> None:
    written(tmp_path, records(0, 1))
    (path,) = segments(tmp_path)
    renamed = path.rename(tmp_path / "000000000007.journal")
    with pytest.raises(StorageFault, match=r"was written as 000000000001\.journal"):
        Journal(tmp_path).open()
    os.truncate(renamed, 10)
    with pytest.raises(StorageFault, match="cut short"):
        Journal(tmp_path).open()


def test_a_value_that_holds_another_journal_is_not_taken_for_this_one(tmp_path: Path) -> None:
    written(tmp_path / "stolen", *(records(event, 1) for event in range(9)))
    stolen = segments(tmp_path / "stolen")[0].read_bytes()[:1000]
    thief = Received(Request(1, Dot(0, 1), Operation("put", (stolen,)), False))
    written(tmp_path, records(0, 1), [thief])
    (path,) = segments(tmp_path)
    damage(path, offset_of(path, 1) + 40)

    assert found(tmp_path) == records(0, 1)
