"""The same grid on a real cluster, with an executor killed while it runs: the same result."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from creek.pipeline import output
from creek.pipeline.grid import load_grid
from creek.pipeline.simulate import make_run
from tests.pipeline.standalone import Cluster, cluster

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it looks for processes"),
]

GRID = """
[[block]]
scheme = "creek"
warehouses = 1
load_tps = 2500
duration = "250ms"
seed = [0, 1, 2, 3, 4, 5]
"""


def files(folder: Path) -> dict[str, bytes]:
    found = sorted(each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): each.read_bytes() for each in found}


def kill_an_executor_at_work(spark: Cluster, out: Path, command: subprocess.Popen[str]) -> None:
    """As soon as both have begun, and there is something done and something left to do."""
    while command.poll() is None:
        executors = spark.executors()
        if len(executors) == 2 and any((out / "runs").glob("*")):
            os.kill(executors[0], signal.SIGKILL)
            return
        time.sleep(0.05)


def test_a_cluster_that_loses_an_executor_gives_the_same_runs(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    out, alone = tmp_path / "cluster", tmp_path / "alone"
    (tmp_path / "spark").mkdir()
    with cluster(tmp_path / "spark", workers=2) as spark:
        arguments = ["--grid", tmp_path / "grid.toml", "--out", out, "--master", spark.url]
        command = subprocess.Popen(
            [sys.executable, "-m", "creek", "pipeline", "simulate", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        kill_an_executor_at_work(spark, out, command)
        killed = command.poll() is None
        told, _ = command.communicate()
    assert command.returncode == 0, told
    assert killed
    assert "6 of 6 cells simulated" in told
    grid = load_grid(str(tmp_path / "grid.toml"))
    output.prepare(alone, grid)
    for cell in grid.cells:
        make_run(cell, alone)
    assert files(out / "runs") == files(alone / "runs")
