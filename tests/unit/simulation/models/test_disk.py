"""Disk: group commit, crashes, torn records, and checkpoints that replace earlier records."""

import pytest

from creekdb.errors import BadValue
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import Ballot, Checkpoint, CheckpointRecord, Received, Record, encode
from creekdb.simulation.kernel.seeds import derive_generator
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.disk import Disk
from creekdb.simulation.models.parameters import DiskModel
from tests.unit.simulation.toy_replica import request


class DiskHarness:
    def __init__(self, fsync_us: int, seed: int = 0) -> None:
        self.heap = EventHeap()
        self.durable: list[tuple[int, int]] = []
        self.written_us: list[int] = []
        model = DiskModel(fsync_us_min=fsync_us, fsync_us_max=fsync_us)
        self.disk = Disk(
            self.heap, model, derive_generator(seed, "disk"), self._on_durable, lambda: None
        )

    def write_checkpoint(self, slot: int) -> None:
        self.disk.write_checkpoint(slot, [encode(checkpoint_record())], self._on_written)

    def _on_written(self) -> None:
        self.written_us.append(self.heap.now_us)

    def _on_durable(self) -> None:
        self.durable.append((self.heap.now_us, self.disk.durable_position))


def record(event: int) -> Record:
    return Received(request(event))


def checkpoint_record() -> Record:
    checkpoint = Checkpoint(0, 0, Dots(), 0, (), ())
    return CheckpointRecord(checkpoint, Ballot(0, 0), (), (), ())


def test_records_that_arrive_during_an_fsync_share_the_next_one() -> None:
    harness = DiskHarness(fsync_us=100)
    for at_us in (0, 10, 20, 30):
        harness.heap.schedule_at(at_us, harness.disk.append, (record(at_us + 1),))
    harness.heap.run()
    assert harness.durable == [(100, 1), (200, 4)]
    assert harness.disk.fsyncs == 2


def test_records_are_durable_at_once_without_fsync_latency() -> None:
    harness = DiskHarness(fsync_us=0)
    harness.disk.append((record(1),))
    assert harness.disk.durable_position == harness.disk.end_position == 1
    harness.heap.run()
    assert harness.heap.processed_events == 0


def test_extra_latency_delays_a_disk_without_fsync_latency() -> None:
    harness = DiskHarness(fsync_us=0)
    harness.disk.extra_fsync_us = 70
    harness.disk.append((record(1),))
    harness.disk.extra_fsync_us = 0
    harness.disk.append((record(2),))
    assert harness.disk.durable_position == 0
    harness.heap.run()
    assert harness.durable == [(70, 1), (70, 2)]


def test_a_crash_keeps_durable_records_and_a_prefix_of_the_rest() -> None:
    surviving_counts, torn = set[int](), 0
    for seed in range(200):
        harness = DiskHarness(fsync_us=100, seed=seed)
        records = [record(event) for event in range(1, 7)]
        harness.disk.append(tuple(records[:2]))
        harness.heap.run()
        harness.disk.append(tuple(records[2:]))
        harness.disk.crash()
        records_read = harness.disk.read()
        assert records_read == records[: len(records_read)]
        assert harness.disk.lost_records == 6 - len(records_read)
        assert harness.disk.durable_position == harness.disk.end_position == len(records_read)
        surviving_counts.add(len(records_read))
        torn += harness.disk.torn_records
        harness.heap.run()
        assert harness.durable == [(100, 2)], "an fsync that a crash interrupted never reports"
    assert surviving_counts == {2, 3, 4, 5, 6}
    assert 0 < torn < 200


def test_a_disk_continues_after_its_surviving_records() -> None:
    harness = DiskHarness(fsync_us=100)
    harness.disk.append((record(1),))
    harness.heap.run()
    harness.disk.crash()
    harness.disk.append((record(2),))
    harness.heap.run()
    assert harness.disk.read() == [record(1), record(2)]


def test_a_durable_checkpoint_replaces_all_earlier_records() -> None:
    harness = DiskHarness(fsync_us=100)
    harness.disk.append((record(1), record(2)))
    harness.heap.run()
    harness.disk.append((record(3), checkpoint_record(), record(4)))
    assert len(harness.disk.read()) == 5, "earlier records stay until the checkpoint is durable"
    harness.heap.run()
    assert harness.disk.read() == [checkpoint_record(), record(4)]
    assert harness.disk.durable_position == harness.disk.end_position == 5, (
        "positions continue to count"
    )


def test_a_checkpoint_lost_in_a_crash_replaces_nothing() -> None:
    lengths = set[int]()
    for seed in range(50):
        harness = DiskHarness(fsync_us=100, seed=seed)
        harness.disk.append((record(1),))
        harness.heap.run()
        harness.disk.append((checkpoint_record(),))
        harness.disk.crash()
        records_read = harness.disk.read()
        assert records_read in ([record(1)], [checkpoint_record()])
        lengths.add(isinstance(records_read[0], CheckpointRecord))
    assert lengths == {False, True}


def test_the_fsync_callback_runs_once_in_the_middle_of_the_next_fsync() -> None:
    harness = DiskHarness(fsync_us=100)
    called_us: list[int] = []
    harness.disk.on_next_fsync = lambda: called_us.append(harness.heap.now_us)
    harness.disk.append((record(1),))
    harness.heap.run()
    harness.disk.append((record(2),))
    harness.heap.run()
    assert len(called_us) == 1
    assert 0 <= called_us[0] <= 100


def test_an_inverted_latency_range_is_rejected() -> None:
    with pytest.raises(BadValue, match="smaller one first"):
        DiskModel(fsync_us_min=5, fsync_us_max=1)


def test_a_streamed_checkpoint_replaces_the_records_before_its_reserved_position() -> None:
    harness = DiskHarness(fsync_us=100)
    disk = harness.disk
    disk.append((record(1),))
    position = disk.reserve_checkpoint()
    disk.append((record(2),))
    harness.heap.run()
    assert (position, disk.durable_position) == (1, 3)
    assert disk.read() == [record(1), record(2)], "the reserved position is not read"
    harness.write_checkpoint(position)
    harness.heap.run()
    assert disk.read() == [checkpoint_record(), record(2)]
    assert (disk.durable_position, disk.end_position) == (3, 3)
    assert len(harness.written_us) == 1


def test_a_crash_leaves_nothing_of_a_checkpoint_in_progress() -> None:
    harness = DiskHarness(fsync_us=100)
    disk = harness.disk
    disk.append((record(1),))
    position = disk.reserve_checkpoint()
    harness.heap.run()
    harness.write_checkpoint(position)
    disk.crash()
    harness.heap.run()
    assert disk.read() == [record(1)]
    assert harness.written_us == []


def test_a_streamed_checkpoint_is_written_after_the_records_before_it() -> None:
    harness = DiskHarness(fsync_us=100)
    disk = harness.disk
    disk.append((record(1),))
    position = disk.reserve_checkpoint()
    harness.write_checkpoint(position)
    harness.heap.run()
    assert harness.durable == [(100, 1), (200, 2)]
    assert harness.written_us == [300]


def test_some_writes_of_streamed_checkpoints_fail_and_leave_the_records() -> None:
    records = set()
    for seed in range(30):
        harness = DiskHarness(fsync_us=0, seed=seed)
        position = harness.disk.reserve_checkpoint()
        harness.write_checkpoint(position)
        harness.heap.run()
        assert len(harness.written_us) == 1
        records.add(len(harness.disk.read()))
    assert records == {0, 1}


def test_the_later_of_two_streamed_checkpoints_wins() -> None:
    harness = DiskHarness(fsync_us=0)
    disk = harness.disk
    first = disk.reserve_checkpoint()
    disk.append((record(1),))
    second = disk.reserve_checkpoint()
    disk.append((record(2),))
    harness.write_checkpoint(second)
    harness.write_checkpoint(first)
    harness.heap.run()
    assert disk.read() == [checkpoint_record(), record(2)]


def test_a_failing_disk_makes_nothing_durable_until_a_write_succeeds() -> None:
    for fsync_us in (0, 100):
        harness = DiskHarness(fsync_us=fsync_us)
        disk = harness.disk
        disk.failing = 1
        disk.append((record(1),))
        harness.heap.schedule_at(1_000, setattr, disk, "failing", 0)
        faults: list[bool] = []
        harness.heap.schedule_at(500, lambda seen=faults, of=disk: seen.append(of.has_fault))
        harness.heap.run()
        assert harness.durable == [(2_000 + 2 * fsync_us, 1)]
        assert (faults, disk.has_fault) == ([True], False)


def test_a_crash_ends_the_fault_of_a_disk() -> None:
    harness = DiskHarness(fsync_us=100)
    harness.disk.failing = 1
    harness.disk.append((record(1),))
    harness.heap.schedule_at(500, harness.disk.crash)
    harness.heap.run()
    assert not harness.disk.has_fault
    assert harness.durable == []
    assert harness.disk.durable_position == harness.disk.end_position


def test_the_replica_may_learn_late_that_records_are_durable() -> None:
    heap = EventHeap()
    learned: list[tuple[int, int]] = []
    model = DiskModel(fsync_us_min=100, fsync_us_max=100, notice_us_max=50)
    disk = Disk(
        heap,
        model,
        derive_generator(0, "disk"),
        lambda: learned.append((heap.now_us, disk.durable_position)),
        lambda: None,
    )
    disk.append((record(1),))
    heap.schedule_at(100, lambda: learned.append((heap.now_us, disk.durable_position)))
    heap.run()
    assert learned[0] == (100, 1)
    assert 100 <= learned[1][0] <= 150


def test_an_older_copy_replaces_the_records_and_positions_continue() -> None:
    harness = DiskHarness(fsync_us=100)
    harness.disk.append((record(1),))
    harness.heap.run()
    harness.disk.append((record(2),))
    copy = harness.disk.copy()
    harness.heap.run()
    harness.disk.crash()
    harness.disk.replace(copy)
    assert harness.disk.read() == [record(1)]
    assert harness.disk.durable_position == harness.disk.end_position == 3
    harness.disk.append((record(3),))
    harness.heap.run()
    assert harness.disk.read() == [record(1), record(3)]


def test_each_failed_write_is_reported() -> None:
    heap, failures = EventHeap(), list[int]()
    model = DiskModel(fsync_us_min=100, fsync_us_max=100)
    disk = Disk(
        heap,
        model,
        derive_generator(0, "disk"),
        lambda: None,
        lambda: failures.append(heap.now_us),
    )
    disk.failing = 1
    disk.append((record(1),))
    heap.schedule_at(150, setattr, disk, "failing", 0)
    heap.run()

    assert failures == [100]
    assert disk.durable_position == 1


def test_an_erased_disk_has_no_records() -> None:
    harness = DiskHarness(fsync_us=0)
    harness.disk.append((record(1), record(2)))
    harness.disk.erase()

    assert harness.disk.read() == []
    assert list(harness.disk.read_durable()) == []
    assert harness.disk.durable_position == harness.disk.end_position == 2
