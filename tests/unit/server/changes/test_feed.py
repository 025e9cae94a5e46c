"""Change feed: visible once durable, written once, in commit order, with gaps where it has none."""

import errno
from pathlib import Path

from creekdb.protocol.effects import ChangesSkipped, ReportedChange
from creekdb.server.changes.feed import SLICE_CHANGES_MAX, ChangeFeed
from creekdb.server.changes.log import ChangeLog
from creekdb.server.changes.retention import Retention
from creekdb.server.changes.segments import Frame
from creekdb.server.storage.file_ops import SYSTEM_FILE_OPS, FileOps
from creekdb.wire.changes import Change, decode_changes
from tests.unit.server.changes.reported import ManualTurns, change_at, deletion_at, noop_at
from tests.unit.server.storage.faulty_file_ops import FaultyFileOps


class FeedFixture:
    def __init__(
        self,
        path: Path,
        file_ops: FileOps = SYSTEM_FILE_OPS,
        unwritten_max: int = 1000,
        unwritten_bytes_max: int = 1_000_000,
    ) -> None:
        self.turns = ManualTurns()
        self.log = ChangeLog(path, Retention(3600.0), file_ops=file_ops)
        self.log.open()
        self.now_us = 0
        self.feed = ChangeFeed(
            self.log, self.turns.ports(), unwritten_max, lambda: self.now_us, unwritten_bytes_max
        )

    def record(self, *changes: ReportedChange, position: int = 0) -> None:
        self.feed.record(changes, position)
        self.feed.release(0)
        self.turns.run()

    def frames(self, start: int = 1) -> list[Frame]:
        frames: list[Frame] = []
        while (segment := self.log.find(start)) is not None:
            frames += segment.read(start, 1_000_000)
            start = frames[-1].end
        return frames

    def changes(self, start: int = 1) -> list[Change]:
        return [each for frame in self.frames(start) for each in decode_changes(frame.body)]

    def indices(self, start: int = 1) -> list[int]:
        return [each.index for each in self.changes(start)]


def test_a_change_is_encoded_as_the_client_called_it(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    fixture.record(change_at(1, "x"), deletion_at(2))

    put, deletion = fixture.changes()
    assert (put.operation, put.arguments, put.client, put.number) == ("put", ("a", "x"), "ann", 1)
    assert (put.writes, put.deleted, put.before) == ((("a", "x"),), (), None)
    assert (put.strong, put.changed, put.timestamp, put.replica) == (True, False, 1_001, 0)
    assert (deletion.writes, deletion.deleted) == ((), ("a",))
    assert (deletion.before, deletion.changed, deletion.value) == ((("a", 7),), None, True)


def test_the_commit_timestamp_is_the_time_of_the_report(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    for index in (1, 2):
        fixture.now_us = 100 * index
        fixture.feed.record((change_at(index),), index)
    fixture.now_us = 900  # the journal is durable later
    fixture.feed.release(2)
    fixture.turns.run()

    assert [each.commit_timestamp for each in fixture.changes()] == [100, 200]


def test_changes_wait_for_the_journal(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    fixture.feed.record((change_at(1),), 5)
    fixture.feed.record((change_at(2),), 6)
    fixture.feed.release(4)
    fixture.turns.run()
    assert fixture.frames() == []
    assert (fixture.feed.received_index, fixture.feed.written_index) == (2, 0)
    fixture.feed.release(5)
    fixture.turns.run()
    assert fixture.indices() == [1]
    fixture.feed.release(6)
    fixture.turns.run()
    assert fixture.indices() == [1, 2]


def test_internal_requests_have_an_index_but_no_change(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    fixture.record(change_at(1), noop_at(2), change_at(3), noop_at(4))

    assert fixture.indices() == [1, 3]
    assert fixture.log.next_index == 5
    assert fixture.frames()[-1].end == 5


def test_many_changes_are_written_in_slices(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    fixture.feed.record([change_at(index) for index in range(1, 1001)], 0)
    fixture.feed.release(0)
    assert fixture.turns.run(1) == 1
    assert fixture.log.next_index - 1 == SLICE_CHANGES_MAX
    fixture.turns.run()

    assert fixture.indices() == list(range(1, 1001))


def test_a_replay_repeats_nothing(tmp_path: Path) -> None:
    FeedFixture(tmp_path).record(*map(change_at, range(1, 6)))
    fixture = FeedFixture(tmp_path)
    fixture.record(ChangesSkipped(2), *map(change_at, range(3, 9)))

    assert fixture.indices() == list(range(1, 9))
    assert fixture.feed.gaps == 0


def test_a_snapshot_makes_a_gap(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    fixture.record(change_at(1), change_at(2), ChangesSkipped(10), change_at(11))

    assert fixture.indices() == [1, 2]
    assert fixture.indices(11) == [11]
    assert fixture.log.find(3) is None
    assert fixture.feed.gaps == 1
    assert fixture.log.first_index == 11


def test_a_snapshot_without_later_changes_makes_a_gap_at_once(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    fixture.record(change_at(1), ChangesSkipped(10))

    assert fixture.feed.written_index == 10
    assert fixture.log.find(2) is None


def test_waiters_are_notified_once(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    notified: list[int] = []
    for index in (1, 2, 5):
        fixture.feed.notify_after(index, lambda index=index: notified.append(index))  # type: ignore[misc]
    fixture.record(change_at(1), change_at(2))
    assert notified == [1, 2]
    fixture.record(*map(change_at, range(3, 8)))
    assert notified == [1, 2, 5]
    fixture.feed.notify_after(4, lambda: notified.append(4))
    assert notified[-1] == 4


def test_a_cancelled_waiter_is_not_notified(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    notified: list[int] = []

    def wake() -> None:
        notified.append(1)

    fixture.feed.notify_after(1, wake)
    fixture.feed.cancel(wake)
    fixture.record(change_at(1))
    assert notified == []


def test_a_failed_write_is_repeated(tmp_path: Path) -> None:
    file_ops = FaultyFileOps()
    fixture = FeedFixture(tmp_path, file_ops)
    fixture.record(change_at(1))
    file_ops.errors["write"] = errno.ENOSPC
    fixture.record(change_at(2), change_at(3))
    assert fixture.indices() == [1]
    assert len(fixture.turns.lines) == 1
    fixture.turns.run_delayed()
    assert len(fixture.turns.lines) == 1
    file_ops.errors.clear()
    fixture.turns.run_delayed()
    fixture.record(change_at(4))

    assert fixture.indices() == [1, 2, 3, 4]
    assert fixture.feed.gaps == 0


def test_too_many_unwritten_changes_are_dropped_as_a_gap(tmp_path: Path) -> None:
    file_ops = FaultyFileOps()
    fixture = FeedFixture(tmp_path, file_ops, unwritten_max=3)
    fixture.record(change_at(1))
    file_ops.errors["write"] = errno.ENOSPC
    fixture.record(*map(change_at, range(2, 8)))
    file_ops.errors.clear()
    fixture.turns.run_delayed()
    fixture.record(change_at(8))

    assert fixture.feed.unwritten_count == 0
    assert fixture.indices() == [1]
    assert fixture.indices(8) == [8]
    assert fixture.feed.gaps == 1


def test_unwritten_changes_are_bounded_by_their_size(tmp_path: Path) -> None:
    file_ops = FaultyFileOps()
    fixture = FeedFixture(tmp_path, file_ops, unwritten_bytes_max=10_000)
    file_ops.errors["write"] = errno.ENOSPC
    file_ops.errors["create"] = errno.ENOSPC
    fixture.record(change_at(1, "x" * 4_000))  # the call and its write
    assert fixture.feed.unwritten_count == 1
    for index in range(2, 5):
        fixture.record(change_at(index))
        fixture.turns.run_delayed()
    assert fixture.feed.unwritten_count == 4
    fixture.record(change_at(5, "x" * 4_000))
    fixture.turns.run_delayed()
    assert fixture.feed.unwritten_count == 0
    fixture.record(change_at(6, "x" * 4_000))
    fixture.turns.run_delayed()
    assert fixture.feed.unwritten_count == 1, "the size is counted anew"


def test_a_closed_feed_has_written_all_durable_changes(tmp_path: Path) -> None:
    fixture = FeedFixture(tmp_path)
    fixture.feed.record([change_at(index) for index in range(1, 500)], 3)
    fixture.feed.record([change_at(500)], 9)
    fixture.feed.close(3)

    assert FeedFixture(tmp_path).indices() == list(range(1, 500))
