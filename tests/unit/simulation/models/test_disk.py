"""The disk: group commit, what a crash keeps, torn tails, and images that replace the past."""

import pytest

from creekdb.errors import BadValue
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import Ballot, Checkpoint, CheckpointRecord, Received, Record, encode
from creekdb.simulation.kernel.seeds import derive_generator
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.disk import Disk
from creekdb.simulation.models.parameters import DiskModel
from tests.unit.simulation.toy_replica import request


class Bench:
    def __init__(self, fsync_us: int, seed: int = 0) -> None:
        self.heap = EventHeap()
        self.durable: list[tuple[int, int]] = []
        model = DiskModel(fsync_us_min=fsync_us, fsync_us_max=fsync_us)
        self.disk = Disk(self.heap, model, derive_generator(seed, "disk"), self._on_durable)

    def _on_durable(self) -> None:
        self.durable.append((self.heap.now_us, self.disk.durable_position))


def record(event: int) -> Record:
    return Received(request(event))


def image() -> Record:
    checkpoint = Checkpoint(0, 0, Dots(), 0, (), ())
    return CheckpointRecord(checkpoint, Ballot(0, 0), (), (), ())


def test_records_that_arrive_during_an_fsync_share_the_next_one() -> None:
    bench = Bench(fsync_us=100)
    for at_us in (0, 10, 20, 30):
        bench.heap.schedule_at(at_us, bench.disk.append, (record(at_us + 1),))
    bench.heap.run()
    assert bench.durable == [(100, 1), (200, 4)]
    assert bench.disk.fsyncs == 2


def test_a_disk_that_takes_no_time_is_durable_at_once_without_an_event() -> None:
    bench = Bench(fsync_us=0)
    bench.disk.append((record(1),))
    assert bench.disk.durable_position == bench.disk.end_position == 1
    bench.heap.run()
    assert bench.heap.processed_events == 0


def test_a_slow_disk_delays_even_a_disk_that_takes_no_time() -> None:
    bench = Bench(fsync_us=0)
    bench.disk.extra_fsync_us = 70
    bench.disk.append((record(1),))
    bench.disk.extra_fsync_us = 0
    bench.disk.append((record(2),))
    assert bench.disk.durable_position == 0
    bench.heap.run()
    assert bench.durable == [(70, 1), (70, 2)]


def test_a_crash_keeps_all_that_is_durable_and_a_prefix_of_the_rest() -> None:
    kept, torn = set[int](), 0
    for seed in range(200):
        bench = Bench(fsync_us=100, seed=seed)
        records = [record(event) for event in range(1, 7)]
        bench.disk.append(tuple(records[:2]))
        bench.heap.run()
        bench.disk.append(tuple(records[2:]))
        bench.disk.crash()
        found = bench.disk.read()
        assert found == records[: len(found)]
        assert bench.disk.lost_records == 6 - len(found)
        assert bench.disk.durable_position == bench.disk.end_position == len(found)
        kept.add(len(found))
        torn += bench.disk.torn_records
        bench.heap.run()
        assert bench.durable == [(100, 2)], "an fsync that a crash interrupted never reports"
    assert kept == {2, 3, 4, 5, 6}
    assert 0 < torn < 200


def test_a_restarted_disk_goes_on_behind_what_it_kept() -> None:
    bench = Bench(fsync_us=100)
    bench.disk.append((record(1),))
    bench.heap.run()
    bench.disk.crash()
    bench.disk.append((record(2),))
    bench.heap.run()
    assert bench.disk.read() == [record(1), record(2)]


def test_a_durable_image_takes_the_place_of_everything_before_it() -> None:
    bench = Bench(fsync_us=100)
    bench.disk.append((record(1), record(2)))
    bench.heap.run()
    bench.disk.append((record(3), image(), record(4)))
    assert len(bench.disk.read()) == 5, "not before it is durable"
    bench.heap.run()
    assert bench.disk.read() == [image(), record(4)]
    assert bench.disk.durable_position == bench.disk.end_position == 5, "positions go on counting"


def test_an_image_that_a_crash_cost_replaces_nothing() -> None:
    lengths = set[int]()
    for seed in range(50):
        bench = Bench(fsync_us=100, seed=seed)
        bench.disk.append((record(1),))
        bench.heap.run()
        bench.disk.append((image(),))
        bench.disk.crash()
        found = bench.disk.read()
        assert found in ([record(1)], [image()])
        lengths.add(isinstance(found[0], CheckpointRecord))
    assert lengths == {False, True}


def test_doom_strikes_once_in_the_middle_of_the_next_fsync() -> None:
    bench = Bench(fsync_us=100)
    struck: list[int] = []
    bench.disk.on_next_fsync = lambda: struck.append(bench.heap.now_us)
    bench.disk.append((record(1),))
    bench.heap.run()
    bench.disk.append((record(2),))
    bench.heap.run()
    assert len(struck) == 1
    assert 0 <= struck[0] <= 100


def test_an_fsync_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(BadValue, match="smaller one first"):
        DiskModel(fsync_us_min=5, fsync_us_max=1)


def test_an_image_that_takes_its_time_replaces_what_came_before_its_room() -> None:
    bench = Bench(fsync_us=100)
    disk = bench.disk
    disk.append((record(1),))
    position = disk.reserve_checkpoint()
    disk.append((record(2),))
    bench.heap.run()
    assert (position, disk.durable_position) == (1, 3)
    assert disk.read() == [record(1), record(2)], "as if there were none"
    disk.write_checkpoint(position, encode(image()))
    bench.heap.run()
    assert disk.read() == [image(), record(2)]
    assert (disk.durable_position, disk.end_position) == (3, 3)


def test_a_crash_leaves_nothing_of_an_image_that_is_being_written() -> None:
    bench = Bench(fsync_us=100)
    disk = bench.disk
    disk.append((record(1),))
    position = disk.reserve_checkpoint()
    bench.heap.run()
    disk.write_checkpoint(position, encode(image()))
    disk.crash()
    bench.heap.run()
    assert disk.read() == [record(1)]


def test_of_two_images_the_later_one_stays() -> None:
    bench = Bench(fsync_us=0)
    disk = bench.disk
    first = disk.reserve_checkpoint()
    disk.append((record(1),))
    second = disk.reserve_checkpoint()
    disk.append((record(2),))
    disk.write_checkpoint(second, encode(image()))
    disk.write_checkpoint(first, encode(image()))
    bench.heap.run()
    assert disk.read() == [image(), record(2)]
