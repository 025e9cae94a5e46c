"""Change log: appended frames are read back, across restarts, gaps, damage and retention."""

import errno
from pathlib import Path
from zlib import crc32

import pytest

from creekdb.errors import StorageFault, UsageError
from creekdb.server.changes.log import ChangeLog
from creekdb.server.changes.retention import Retention
from creekdb.server.changes.segments import FRAME_HEADER_BYTES, Frame
from tests.unit.server.storage.faulty_file_ops import FaultyFileOps

HOUR = Retention(3600.0)
HOUR_US = 3600 * 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now_us = 10**15

    def __call__(self) -> int:
        return self.now_us


def opened(
    path: Path, retention: Retention = HOUR, owner: int = 7, clock: Clock | None = None
) -> ChangeLog:
    log = ChangeLog(path, retention, owner, now_us=clock or Clock())
    log.open()
    return log


def append(log: ChangeLog, *bodies: bytes, width: int = 1) -> None:
    for body in bodies:
        log.append(Frame(log.next_index, log.next_index + width, body))


def read_all(log: ChangeLog, start: int, bytes_max: int = 1000) -> list[Frame]:
    """Read like a reader: until the end, or until a change that is not kept."""
    frames: list[Frame] = []
    while start < log.next_index:
        segment = log.find(start)
        if segment is None:
            return frames
        part = segment.read(start, bytes_max)
        if not part:
            return frames
        frames += part
        start = part[-1].end
    return frames


def bodies(frames: list[Frame]) -> list[bytes]:
    return [frame.body for frame in frames]


def test_appended_frames_are_read_in_order(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"one", b"two", b"three")

    assert bodies(read_all(log, 1)) == [b"one", b"two", b"three"]
    assert bodies(read_all(log, 2)) == [b"two", b"three"]
    assert log.next_index == 4


def test_a_read_within_a_frame_begins_with_that_frame(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"ten", b"more", width=10)

    assert read_all(log, 5)[0] == Frame(1, 11, b"ten")


def test_a_read_is_bounded_but_never_empty(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"x" * 5000, b"y" * 10, b"z" * 10)
    segment = log.find(1)
    assert segment is not None

    assert bodies(segment.read(1, 100)) == [b"x" * 5000]
    assert bodies(segment.read(2, 15)) == [b"y" * 10]
    assert bodies(segment.read(2, 100)) == [b"y" * 10, b"z" * 10]


def test_reads_find_every_index_of_a_long_segment(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, *[bytes([number % 256]) * 900 for number in range(300)])
    segment = log.find(1)
    assert segment is not None
    assert len(segment.marks) > 10
    for index in (1, 2, 17, 18, 19, 150, 299, 300):
        assert segment.read(index, 1)[0].first == index


@pytest.mark.parametrize("closes", [True, False])
def test_a_restarted_log_continues(tmp_path: Path, closes: bool) -> None:
    log = opened(tmp_path)
    append(log, b"one", b"two")
    if closes:
        log.close()
    log = opened(tmp_path)
    assert log.next_index == 3
    append(log, b"three")

    assert bodies(read_all(log, 1)) == [b"one", b"two", b"three"]
    assert log.first_index == 1


@pytest.mark.parametrize("cut", range(1, FRAME_HEADER_BYTES + 5))
def test_a_torn_tail_is_cut(tmp_path: Path, cut: int) -> None:
    log = opened(tmp_path)
    append(log, b"one", b"last.")
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-cut])

    log = opened(tmp_path)
    assert log.next_index == 2
    append(log, b"again")
    assert bodies(read_all(log, 1)) == [b"one", b"again"]


def test_damage_in_the_last_segment_ends_the_log_there(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"one", b"two", b"three")
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[data.index(b"two")] ^= 1
    path.write_bytes(data)

    assert opened(tmp_path).next_index == 2


def test_damage_in_a_closed_segment_ends_reads_there(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"one", b"two", b"three")
    log.close()
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[data.index(b"two")] ^= 1
    path.write_bytes(data)

    log = opened(tmp_path)
    assert log.next_index == 4
    assert bodies(read_all(log, 1)) == [b"one"]
    segment = log.find(3)
    assert segment is not None
    assert segment.read(3, 100) == []


def damage(path: Path, body: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(body)] ^= 1
    path.write_bytes(data)


def test_a_damaged_segment_ends_before_the_damage_and_stays_so(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"one", b"two", b"three")
    log.close()
    (path,) = tmp_path.iterdir()
    damage(path, b"two")
    log = opened(tmp_path)
    append(log, b"four")
    segment = log.find(3)
    assert segment is not None
    assert log.drop_damage(segment, 1) == 0
    assert log.drop_damage(segment, 3) == 2

    for each in (log, opened(tmp_path)):
        assert each.gaps() == [(2, 4)]
        assert bodies(read_all(each, 1)) == [b"one"]
        assert bodies(read_all(each, 4)) == [b"four"]
        assert each.first_index == 4
    log.fill([Frame(2, 4, b"copied")], 1)
    for each in (log, opened(tmp_path)):
        assert bodies(read_all(each, 1)) == [b"one", b"copied", b"four"]


def test_a_segment_that_is_damaged_at_its_start_is_removed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"one", b"two")
    log.close()
    (path,) = tmp_path.iterdir()
    damage(path, b"one")
    log = opened(tmp_path)
    segment = log.find(1)
    assert segment is not None
    assert log.drop_damage(segment, 1) == 1
    assert not path.exists()
    assert (log.gaps(), log.next_index) == ([(1, 3)], 3)
    assert log.drop_damage(segment, 1) == 0


def test_a_segment_that_is_written_is_not_cut(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"one", b"two")
    (path,) = tmp_path.iterdir()
    damage(path, b"one")
    segment = log.find(1)
    assert segment is not None
    assert log.drop_damage(segment, 1) == 0
    append(log, b"three")
    assert (log.next_index, log.gaps()) == (4, [])
    assert opened(tmp_path).next_index == 1


def test_no_read_passes_a_gap(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"one", b"two")
    log.skip_to(10)
    append(log, b"ten")

    assert bodies(read_all(log, 1)) == [b"one", b"two"]
    assert log.find(3) is None
    assert log.find(9) is None
    assert bodies(read_all(log, 10)) == [b"ten"]
    assert (log.earliest_index, log.first_index) == (1, 10)
    log = opened(tmp_path)
    assert (log.earliest_index, log.first_index, log.next_index) == (1, 10, 11)


def test_old_segments_expire(tmp_path: Path) -> None:
    clock = Clock()
    log = opened(tmp_path, clock=clock)
    append(log, b"one")
    clock.now_us += HOUR_US // 4
    append(log, b"two")
    clock.now_us += HOUR_US // 4
    append(log, b"three")
    log.expire()
    assert log.first_index == 1
    clock.now_us += HOUR_US // 2 + 1
    log.expire()

    assert log.first_index == 2
    assert log.find(1) is None
    assert len(list(tmp_path.glob("*.changes"))) == 2
    (tmp_path / "dropped").write_bytes(b"x")  # a damaged file is as good as none
    assert opened(tmp_path, clock=clock).gaps() == [(1, 2)]


def test_the_size_is_bounded(tmp_path: Path) -> None:
    retention = Retention(3600.0, 1024**2)
    log = opened(tmp_path, retention)
    append(log, *[b"x" * 50_000 for _ in range(60)])
    log.expire()

    assert log.size_bytes <= retention.bytes_max
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= retention.bytes_max + 2000
    assert 1 < log.first_index < 60


def test_changes_that_have_expired_are_no_gap_after_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    log = opened(tmp_path, clock=clock)
    append(log, b"one")
    clock.now_us += HOUR_US // 2
    append(log, b"two")
    clock.now_us += HOUR_US // 2 + 1
    log.expire()
    assert log.first_index == 2

    assert opened(tmp_path, clock=clock).gaps() == []


def test_a_sync_makes_the_name_of_a_new_segment_durable(tmp_path: Path) -> None:
    file_ops = FaultyFileOps()
    log = ChangeLog(tmp_path / "changes", HOUR, file_ops=file_ops)
    log.open()
    assert file_ops.called == ["sync_directory"]
    append(log, b"one")
    file_ops.called.clear()
    log.sync()

    assert file_ops.called == ["fdatasync", "sync_directory"]


def test_a_segment_is_closed_after_its_changes_are_durable(tmp_path: Path) -> None:
    """Otherwise, a power failure could leave a closed segment without some of its changes."""
    file_ops = FaultyFileOps()
    log = ChangeLog(tmp_path, HOUR, file_ops=file_ops)
    log.open()
    append(log, b"one", b"two")
    file_ops.called.clear()
    log.close()
    assert file_ops.called == ["fdatasync", "sync_directory", "write"]

    log = ChangeLog(tmp_path, HOUR, file_ops=file_ops)
    log.open()
    append(log, b"three")
    file_ops.errors["fdatasync"] = errno.EIO  # what was written since may be lost
    log.close()
    last = max(tmp_path.glob("*.changes"))
    data = last.read_bytes()
    last.write_bytes(data.replace(b"three", bytes(5)))
    assert opened(tmp_path, owner=0).next_index == 3


def test_a_restart_makes_the_changes_of_a_killed_process_durable(tmp_path: Path) -> None:
    """A later sync covers the segment that the new process writes."""
    append(opened(tmp_path), b"one", b"two")
    file_ops = FaultyFileOps()
    log = ChangeLog(tmp_path, HOUR, owner=7, file_ops=file_ops)
    log.open()
    assert file_ops.called == ["truncate", "fdatasync", "sync_directory", "write"]
    assert bodies(read_all(log, 1)) == [b"one", b"two"]
    file_ops.called.clear()
    again = ChangeLog(tmp_path, HOUR, owner=7, file_ops=file_ops)
    again.open()
    assert again.next_index == 3
    assert file_ops.called == [], "the segment is closed"


def test_a_log_opens_on_a_full_disk(tmp_path: Path) -> None:
    append(opened(tmp_path), b"one", b"two")
    file_ops = FaultyFileOps()
    file_ops.errors["write"] = errno.ENOSPC
    log = ChangeLog(tmp_path, HOUR, owner=7, file_ops=file_ops)
    log.open()
    assert bodies(read_all(log, 1)) == [b"one", b"two"]


def test_the_last_segment_is_kept(tmp_path: Path) -> None:
    clock = Clock()
    log = opened(tmp_path, clock=clock)
    append(log, b"one")
    clock.now_us += 10 * HOUR_US
    log.expire()

    assert bodies(read_all(log, 1)) == [b"one"]


def test_a_segment_of_another_replica_is_rejected(tmp_path: Path) -> None:
    append(opened(tmp_path, owner=7), b"one")

    with pytest.raises(UsageError, match="written by another replica"):
        opened(tmp_path, owner=8)


def test_another_format_version_is_rejected(tmp_path: Path) -> None:
    append(opened(tmp_path), b"one")
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[11] = 2
    data[32:36] = crc32(data[:32]).to_bytes(4)
    path.write_bytes(data)

    with pytest.raises(StorageFault, match="format version 2"):
        opened(tmp_path)


def test_a_segment_without_a_complete_header_is_removed(tmp_path: Path) -> None:
    append(opened(tmp_path), b"one")
    (tmp_path / "00000000000000000002.changes").write_bytes(b"CREEK")
    log = opened(tmp_path)

    assert log.next_index == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_many_segments_follow_each_other(tmp_path: Path) -> None:
    log = opened(tmp_path, Retention(3600.0, 1024**2))
    append(log, *[b"x" * 9_000 for _ in range(50)])
    assert len(list(tmp_path.iterdir())) > 3
    log = opened(tmp_path, Retention(3600.0, 1024**2))

    assert [frame.first for frame in read_all(log, 1)] == list(range(1, 51))
    assert log.first_index == 1
