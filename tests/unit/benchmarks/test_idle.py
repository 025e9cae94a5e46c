"""Processor time of idle processes."""

import os

from benchmarks.idle import BAR, measure_idle


def test_the_share_is_a_mean_of_all_processes_in_per_cent() -> None:
    result = measure_idle({"replica 0": os.getpid(), "replica 1": 0}, 0.001)

    assert result.bar == BAR * 100
    assert result.value is not None
    assert result.explanation.startswith("Mean of 2 replicas")
