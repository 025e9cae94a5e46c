"""A grid on a standalone Spark cluster, with one executor killed during the run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from creekdb.pipeline.schemas import RUN_SCHEMAS
from creekdb.pipeline.stages import output_dir, simulate
from creekdb.pipeline.stages.grid import load_grid
from creekdb.pipeline.storage import Location
from tests.pipeline.standalone_cluster import Machine, standalone_cluster

pytestmark = [
    pytest.mark.xdist_group("spark processes"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="requires /proc"),
]

BROKEN_EXECUTORS = "spark.executor.extraJavaOptions=-agentlib:missing"
GRID = """
[[block]]
scheme = "blocking:BlockingReplica"
warehouses = 1
load_tps = 11000
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
    machine = Machine(environ={**os.environ, "PYTHONPATH": str(tmp_path)})
    with standalone_cluster(tmp_path / "spark", EXECUTORS, machine) as spark:
        arguments = ["--grid", tmp_path / "grid.toml", "--out", out, "--master", spark.url]
        command = subprocess.Popen(
            [sys.executable, "-m", "creekdb", "pipeline", "simulate", *map(str, arguments)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
                "PYSPARK_PYTHON": sys.executable,
            },
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
    output_dir.prepare_output_dir(Location.parse(expected), grid)
    for group in simulate.group_by_cost(grid.cells):
        simulate.run_batch(simulate.batch(group), Location.parse(expected))
    for table in RUN_SCHEMAS:
        assert files(out / table) == files(expected / table)
    assert len(files(out / "runs")) == 4


def test_executors_that_exit_again_and_again_are_reported(tmp_path: Path) -> None:
    """A standalone master restarts them without end."""
    (tmp_path / "grid.toml").write_text(GRID.replace("blocking:BlockingReplica", "creek"))
    with standalone_cluster(tmp_path, 1) as spark:
        arguments = ["--grid", tmp_path / "grid.toml", "--out", tmp_path / "out"]
        arguments += ["--master", spark.url, "--conf", BROKEN_EXECUTORS]
        result = subprocess.run(
            [sys.executable, "-m", "creekdb", "pipeline", "simulate", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "creek: executors on 127.0.0.1 exit at once: Command exited with code 1; "
        "see the logs of its worker\n"
    )
