"""The same grid on a real cluster, with an executor killed while it runs: the same result."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from creekdb.pipeline.stages import output_dir
from creekdb.pipeline.stages.grid import load_grid
from creekdb.pipeline.stages.simulate import simulate_cell
from tests.pipeline.standalone import cluster

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it looks for processes"),
]

GRID = """
[[block]]
scheme = "held:Held"
warehouses = 1
load_tps = 2500
duration = "40ms"
seed = [0, 1, 2, 3]
"""

# As soon as one run is done, whoever begins another says so and waits until it is let go.
HELD = """
import os
import time
from pathlib import Path

from creekdb.schemes.creek import CreekReplica

HERE = Path(__file__).parent


class Held(CreekReplica):
    def __init__(self, index, settings, datatype):
        super().__init__(index, settings, datatype)
        if any((HERE / "out" / "runs").glob("*")):
            (HERE / f"waiting-{os.getpid()}").touch()
            while not (HERE / "let-go").exists():
                time.sleep(0.02)
"""
EXECUTORS = 2


def files(folder: Path) -> dict[str, bytes]:
    found = sorted(each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): each.read_bytes() for each in found}


def test_a_cluster_that_loses_an_executor_gives_the_same_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    (tmp_path / "held.py").write_text(HELD)
    monkeypatch.syspath_prepend(tmp_path)
    out, alone = tmp_path / "out", tmp_path / "alone"
    (tmp_path / "spark").mkdir()
    with cluster(tmp_path / "spark", EXECUTORS, code=tmp_path) as spark:
        arguments = ["--grid", tmp_path / "grid.toml", "--out", out, "--master", spark.url]
        command = subprocess.Popen(
            [sys.executable, "-m", "creekdb", "pipeline", "simulate", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        while len(list(tmp_path.glob("waiting-*"))) < EXECUTORS and command.poll() is None:
            time.sleep(0.05)
        executors = spark.executors()
        os.kill(executors[0], signal.SIGKILL)
        (tmp_path / "let-go").touch()
        told, _ = command.communicate()
    assert command.returncode == 0, told
    assert len(executors) == EXECUTORS
    assert "4 of 4 experiments simulated" in told
    grid = load_grid(str(tmp_path / "grid.toml"))
    output_dir.prepare_output_dir(alone, grid)
    for cell in grid.cells:
        simulate_cell(cell, alone)
    assert files(out / "runs") == files(alone / "runs")
