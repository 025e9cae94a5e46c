"""Executors that share neither packages nor temporary files with the driver."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.pipeline.foreign_machine import foreign_machine, missing_permission
from tests.pipeline.standalone_cluster import standalone_cluster

REASON = missing_permission()

pytestmark = [
    pytest.mark.xdist_group("spark processes"),
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
]

GRID = """
[[block]]
scheme = ["creek", "smr"]
warehouses = 1
load_tps = 500
duration = "40ms"
"""


class ForeignCluster(NamedTuple):
    url: str
    directory: Path
    shared: Path
    """Directory that driver and executors share."""

    def creek(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        """Run the `creek` command with this cluster as its master."""
        environ = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
        command = [sys.executable, "-m", "creekdb", *map(str, arguments), "--master", self.url]
        return subprocess.run(
            command,
            cwd=self.directory,
            env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignCluster]:
    directory = tmp_path_factory.mktemp("foreign")
    shared = directory / "shared"
    shared.mkdir()
    (directory / "grid.toml").write_text(GRID)
    with standalone_cluster(directory, 1, foreign_machine(directory, shared)) as spark:
        yield ForeignCluster(spark.url, directory, shared)


def test_a_grid_runs_with_a_packed_environment(cluster: ForeignCluster) -> None:
    archive = cluster.directory / "environment.tar.gz"
    pack = [sys.executable, "-m", "creekdb", "pipeline", "pack", "--out", str(archive)]
    assert f"--archives {archive}#environment" in subprocess.check_output(pack, text=True)
    out = cluster.shared / "out"
    result = cluster.creek(
        *("pipeline", "run", "--grid", "grid.toml", "--out", out),
        *("--archives", f"{archive}#environment"),
    )
    assert result.returncode == 0, result.stderr
    for part in (
        "2 of 2 experiments simulated",
        "2 runs measured",
        "2 runs checked, no violation",
    ):
        assert part in result.stdout


def test_missing_packages_are_named_before_the_first_job(cluster: ForeignCluster) -> None:
    out = cluster.shared / "unpacked"
    result = cluster.creek("pipeline", "simulate", "--grid", "grid.toml", "--out", out)
    assert result.returncode == 2, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("creek: executors on ")
    for name in ("msgspec", "numpy", "pyarrow", "sortedcontainers"):
        assert f"{name} (No module named '{name}')" in line
    assert "; send the packages: 'creek pipeline pack" in line
    assert not list((out / "runs").glob("*"))


def test_a_missing_interpreter_is_named_before_the_first_job(cluster: ForeignCluster) -> None:
    missing = "spark.pyspark.python=/missing/python"
    out = cluster.shared / "no-python"
    result = cluster.creek(
        "pipeline", "simulate", "--grid", "grid.toml", "--out", out, "--conf", missing
    )
    assert result.returncode == 2, result.stderr
    (line,) = result.stderr.splitlines()
    assert "cannot start '/missing/python': it does not exist; install Python" in line
