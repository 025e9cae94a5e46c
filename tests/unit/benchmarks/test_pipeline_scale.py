"""The benchmark of the pipeline's growth: its selection, its costs and its table."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.pipeline_scale import Cost, ProcessCosts, markdown
from benchmarks.registry import BENCHMARKS, LONG_BENCHMARKS
from benchmarks.result import Benchmark, Result
from benchmarks.scale import TINY, Scale

RESULT = Result(what="it", explanation="Cost of it.", value=1.0)


def yield_result(scale: Scale) -> Iterator[Result]:
    yield RESULT


def test_a_long_benchmark_runs_only_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "BENCHMARKS", {})
    monkeypatch.setattr(command, "LONG_BENCHMARKS", {"long": Benchmark("long", 1, yield_result)})

    assert list(command.measure((), TINY)) == []
    assert list(command.measure(("long",), TINY)) == [RESULT]
    assert not BENCHMARKS.keys() & LONG_BENCHMARKS.keys()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="requires /proc")
def test_costs_include_those_of_child_processes() -> None:
    code = "import time\nwhile time.process_time() < 0.5: pass"
    with ProcessCosts() as costs:
        subprocess.run([sys.executable, "-c", code], check=True)

    assert costs.cpu_s >= 0.5
    assert costs.wall_s > 0
    assert costs.peak_mib > 0


def test_the_table_has_costs_per_million_operations() -> None:
    cost = Cost("short runs", 2_000_000, "verify", cpu_s=30.0, wall_s=20.0, peak_mib=1234.5)

    *_, row = markdown([cost])

    assert row == "| 2,000,000 | short runs | verify | 30.0 | 15.0 | 10.0 | 1,234 |"
