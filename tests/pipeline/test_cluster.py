"""A grid on a standalone Spark cluster, with one executor killed during the run."""

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
from tests.pipeline.standalone_cluster import standalone_cluster

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="requires /proc"),
]

GRID = """
[[block]]
scheme = "blocking:BlockingReplica"
warehouses = 1
load_tps = 2500
duration = "40ms"
seed = [0, 1, 2, 3]
"""

# After the first completed run, further runs announce themselves and wait for the release file.
BLOCKING_SCHEME = """
import os
import time
from pathlib import Path

from creekdb.schemes.creek import CreekReplica

DIRECTORY = Path(__file__).parent


class BlockingReplica(CreekReplica):
    def __init__(self, index, settings, datatype):
        super().__init__(index, settings, datatype)
        if any((DIRECTORY / "out" / "runs").glob("*")):
            (DIRECTORY / f"waiting-{os.getpid()}").touch()
            while not (DIRECTORY / "released").exists():
                time.sleep(0.02)
"""
EXECUTORS = 2


def files(directory: Path) -> dict[str, bytes]:
    paths = sorted(each for each in directory.rglob("*") if each.is_file())
    return {str(each.relative_to(directory)): each.read_bytes() for each in paths}


def test_runs_are_equal_after_the_loss_of_an_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    (tmp_path / "blocking.py").write_text(BLOCKING_SCHEME)
    monkeypatch.syspath_prepend(tmp_path)
    out, expected = tmp_path / "out", tmp_path / "expected"
    (tmp_path / "spark").mkdir()
    with standalone_cluster(tmp_path / "spark", EXECUTORS, code=tmp_path) as spark:
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
        (tmp_path / "released").touch()
        output, _ = command.communicate()
    assert command.returncode == 0, output
    assert len(executors) == EXECUTORS
    assert "4 of 4 experiments simulated" in output
    grid = load_grid(str(tmp_path / "grid.toml"))
    output_dir.prepare_output_dir(expected, grid)
    for cell in grid.cells:
        simulate_cell(cell, expected)
    assert files(out / "runs") == files(expected / "runs")
