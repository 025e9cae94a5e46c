"""A grid on a standalone Spark cluster, with one executor killed during the run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from creekdb.pipeline.schemas import RUN_SCHEMAS
from creekdb.pipeline.stages import output_dir, simulate
from creekdb.pipeline.stages.grid import load_grid
from creekdb.pipeline.storage import Location
from tests.pipeline.standalone_cluster import Machine, StandaloneCluster, standalone_cluster

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


@pytest.fixture(scope="module")
def scheme_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the scheme, from which driver and executors import it."""
    directory = tmp_path_factory.mktemp("scheme")
    (directory / "blocking.py").write_text(BLOCKING_SCHEME)
    return directory


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, scheme_directory: Path
) -> Iterator[StandaloneCluster]:
    machine = Machine(environ={**os.environ, "PYTHONPATH": str(scheme_directory)})
    with standalone_cluster(tmp_path_factory.mktemp("spark"), EXECUTORS, machine) as cluster:
        yield cluster


def test_runs_are_equal_after_the_loss_of_an_executor(
    cluster: StandaloneCluster, scheme_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = scheme_directory
    (directory / "grid.toml").write_text(GRID)
    monkeypatch.syspath_prepend(directory)
    out, expected = directory / "out", directory / "expected"
    arguments = ["--grid", directory / "grid.toml", "--out", out, "--master", cluster.url]
    command = subprocess.Popen(
        [sys.executable, "-m", "creekdb", "pipeline", "simulate", *map(str, arguments)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(directory), *sys.path]),
            "PYSPARK_PYTHON": sys.executable,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while len(list(directory.glob("waiting-*"))) < EXECUTORS and command.poll() is None:
        time.sleep(0.05)
    executors = cluster.executors()
    os.kill(executors[0], signal.SIGKILL)
    (directory / "released").touch()
    output, _ = command.communicate()
    assert command.returncode == 0, output
    assert len(executors) == EXECUTORS
    assert "4 of 4 experiments simulated" in output
    grid = load_grid(str(directory / "grid.toml"))
    output_dir.prepare_output_dir(Location.parse(expected), grid)
    for group in simulate.group_by_cost(grid.cells):
        simulate.run_batch(simulate.batch(group), Location.parse(expected))
    for table in RUN_SCHEMAS:
        assert files(out / table) == files(expected / table)
    assert len(files(out / "runs")) == 4


def test_executors_that_exit_again_and_again_are_reported(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    """A standalone master restarts them without end."""
    (tmp_path / "grid.toml").write_text(GRID.replace("blocking:BlockingReplica", "creek"))
    arguments = ["--grid", tmp_path / "grid.toml", "--out", tmp_path / "out"]
    arguments += ["--master", cluster.url, "--conf", BROKEN_EXECUTORS]
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
