"""Stages on a Spark Connect server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from creekdb.cli import main
from creekdb.errors import UsageError
from creekdb.pipeline.spark import connect
from creekdb.pipeline.spark.configuration import SparkOptions
from creekdb.pipeline.spark.session import spark_session
from tests.pipeline.connect_server import connect_server

pytestmark = pytest.mark.xdist_group("spark processes")

GRID = """
[[block]]
scheme = ["creek", "smr"]
warehouses = 1
load_tps = 500
duration = "40ms"
"""
RESULTS = ("measures", "latencies", "over_time", "summary", "peaks", "verdicts")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("grpc", reason="requires creekdb[connect]")
    pytest.importorskip("grpc_status", reason="requires creekdb[connect]")
    with connect_server(tmp_path) as url:
        yield url


def creek(url: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run the `creek` command on the server, in a process without another session."""
    return subprocess.run(
        [sys.executable, "-m", "creekdb", *map(str, arguments), "--remote", url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )


def result_rows(out: Path) -> dict[str, list[dict[str, Any]]]:
    return {name: pq.read_table(out / name).to_pylist() for name in RESULTS}


@pytest.mark.usefixtures("spark")
def test_measure_and_verify_give_the_same_tables_on_a_connect_server(
    tmp_path: Path, server: str
) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    out = tmp_path / "out"
    grid = ["--grid", str(tmp_path / "grid.toml"), "--out", str(out)]
    assert main(["pipeline", "simulate", *grid]) == 0
    assert main(["pipeline", "measure", str(out)]) == 0
    assert main(["pipeline", "verify", str(out)]) == 0
    expected = result_rows(out)
    assert all(expected[name] for name in ("measures", "verdicts"))

    for stage, summary in (("measure", "2 runs measured"), ("verify", "2 runs checked")):
        result = creek(server, "pipeline", stage, out)
        assert (result.returncode, result.stderr) == (0, "")
        assert summary in result.stdout
    assert result_rows(out) == expected


@pytest.fixture
def no_active_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the session that other tests share."""
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)


@pytest.mark.usefixtures("no_active_session")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SparkOptions(remote="sc://127.0.0.1:1"), "cannot connect to a Spark Connect server at"),
        (SparkOptions(remote="127.0.0.1:1"), "not the URL of a Spark Connect server; expected sc"),
        (
            SparkOptions(remote="sc://127.0.0.1:1", driver_memory="2g"),
            "cannot set the driver's memory",
        ),
        (
            SparkOptions(remote="sc://127.0.0.1:1", master="local[1]"),
            "a Connect server has its own master",
        ),
    ],
)
def test_a_wrong_server_is_reported_without_delay(options: SparkOptions, message: str) -> None:
    pytest.importorskip("grpc", reason="requires creekdb[connect]")
    with pytest.raises(UsageError, match=message), spark_session(options):
        pass


@pytest.mark.usefixtures("no_active_session")
def test_missing_packages_are_reported_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
    with (
        pytest.raises(UsageError, match=r"pip install 'creekdb\[connect\]'"),
        spark_session(SparkOptions(remote="sc://127.0.0.1:1")),
    ):
        pass
    assert connect.INSTALL_HINT.endswith("'creekdb[connect]'")
