"""Clock and disk of a replica under the control of another process."""

import errno
import os
import runpy
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from creekdb.server.observability.latency import Histogram
from creekdb.torture.faults.replica_control import (
    MappedControl,
    ReplicaControl,
    controlled_file_ops,
    read_control,
    run,
    write_control,
)


def test_a_running_replica_observes_each_change(tmp_path: Path) -> None:
    path = tmp_path / "control"
    control = MappedControl(path)
    assert control.read() == ReplicaControl()

    changed = ReplicaControl(clock_offset_us=-5_000_000, disk_delay_us=7, is_disk_full=True)
    write_control(path, changed)

    assert control.read() == changed
    assert read_control(path) == changed


def test_a_restarted_replica_keeps_the_control(tmp_path: Path) -> None:
    write_control(tmp_path / "control", ReplicaControl(clock_offset_us=3))

    assert MappedControl(tmp_path / "control").read() == ReplicaControl(clock_offset_us=3)


def test_a_slow_disk_delays_each_durable_write(tmp_path: Path) -> None:
    path = tmp_path / "control"
    file_ops = controlled_file_ops(MappedControl(path))(Histogram())
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        write_control(path, ReplicaControl(disk_delay_us=30_000))
        assert not file_ops.start_durable_write(file, b"a", 0, lambda written: None)
        start_s = time.monotonic()
        file_ops.write_durably(file, b"a", 0)
        assert time.monotonic() - start_s >= 0.03
        assert os.pread(file, 9, 0) == b"a"
    finally:
        os.close(file)


@pytest.mark.parametrize("offset_us", [-3_600_000_000, 5_000_000])
def test_the_clock_of_a_replica_deviates_by_the_offset(tmp_path: Path, offset_us: int) -> None:
    path = tmp_path / "control"
    control = MappedControl(path)
    write_control(path, ReplicaControl(clock_offset_us=offset_us))
    observed_ns: list[int] = []
    start_ns = time.time_ns()
    with patch.object(runpy, "run_module", lambda *_, **__: observed_ns.append(time.time_ns())):
        run(control)
    end_ns = time.time_ns()
    assert start_ns <= observed_ns[0] - 1000 * offset_us <= end_ns


def test_a_full_disk_rejects_writes_until_there_is_space(tmp_path: Path) -> None:
    path = tmp_path / "control"
    file_ops = controlled_file_ops(MappedControl(path))(Histogram())
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        write_control(path, ReplicaControl(is_disk_full=True))
        assert not file_ops.start_durable_write(file, b"a", 0, lambda written: None)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            file_ops.write_durably(file, b"a", 0)
        assert os.fstat(file).st_size == 0

        write_control(path, ReplicaControl())
        file_ops.write_durably(file, b"a", 0)
        assert os.pread(file, 9, 0) == b"a"
    finally:
        os.close(file)
