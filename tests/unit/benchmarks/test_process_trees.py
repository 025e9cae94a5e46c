"""Processor time of process trees."""

import os
from pathlib import Path

from benchmarks.process_trees import cpu_seconds


def write_process(proc: Path, process: int, parent: int, *ticks: int) -> None:
    """Write the state of a process: its user and system time, and those of its ended children."""
    (proc / str(process)).mkdir()
    before = " ".join(["0"] * 9)
    times = " ".join(map(str, ticks))
    (proc / str(process) / "stat").write_text(f"{process} (a) b) S {parent} {before} {times} 20\n")


def test_the_time_of_running_and_ended_children_counts(tmp_path: Path) -> None:
    second = os.sysconf("SC_CLK_TCK")
    write_process(tmp_path, 10, 1, second, second, 3 * second, 0)
    write_process(tmp_path, 11, 10, 5 * second, 0, 0, 0)
    write_process(tmp_path, 12, 11, 0, 7 * second, 0, second)
    write_process(tmp_path, 20, 1, 100 * second, 0, 0, 0)
    (tmp_path / "13").mkdir()  # it has ended
    (tmp_path / "self").mkdir()

    assert cpu_seconds([10], tmp_path) == 18
    assert cpu_seconds([20, 11], tmp_path) == 113
    assert cpu_seconds([99], tmp_path) == 0
