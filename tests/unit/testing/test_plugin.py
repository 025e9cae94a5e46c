"""The fixtures of the plugin, in a test suite of their own."""

import subprocess
import sys
from pathlib import Path

SUITE = """
from creekdb.testing import assert_converges
from tests.unit.testing.seat_types import book, seats

def test_simulation(creek_simulation):
    cluster = creek_simulation(seats, replicas=5, seed=3)
    assert cluster.client(4).strong(book, 9, "ann").stable == 9
    assert assert_converges(cluster) == {9: "ann"}

def test_cluster(creek_cluster):
    cluster = creek_cluster(seats, replicas=1)
    with cluster.connect() as db:
        assert db.strong(book, 9, "ann") == 9
"""


def test_a_suite_uses_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    plugins = ["-p", "creekdb.testing.plugin", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    # With a directory of its own, the suite does not delete those of earlier runs at its end.
    options = ["-q", *plugins, f"--basetemp={tmp_path / 'temporary'}"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path / "test_suite.py")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "2 passed" in result.stdout, result.stdout + result.stderr
