"""SQLAlchemy's own compliance suite for dialects: `python -m tests.sql_clients.compliance`.

Starts one replica and runs the suite against it in another process. Prints each failed test. Exits
with 0 if exactly the failures of `EXPECTED_FAILURES` occurred. `--sqlite` runs the suite on plain
SQLite instead, for comparison. Other arguments go to pytest. With arguments, the expected failures
need not occur.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.sql_clients.compliance_requirements import EXPECTED_FAILURES
from tests.sql_clients.threaded_cluster import ThreadedCluster

SUITE = """from sqlalchemy.testing.suite import *  # noqa: F403
"""
CONFTEST = """
import pytest
import sqlalchemy.testing
from tests.sql_clients import dialect
dialect.register()
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")
from sqlalchemy.testing.plugin.pytestplugin import *
"""
CONFIGURATION = """[pytest]
addopts = --tb=line -q -p no:asyncio -p no:anyio -p no:schemathesis -p no:warnings
python_files = test_suite.py
"""
SQLALCHEMY_CONFIGURATION = """[sqla_testing]
requirement_cls = tests.sql_clients.compliance_requirements:Requirements
profile_file = profiles.txt
"""
SQLITE_OPTION = "--sqlite"
ROOT = Path(__file__).parents[2]


def run_suite(arguments: list[str]) -> tuple[set[str], str]:
    """Return the names of the failed tests, and the summary of pytest."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ThreadedCluster(Path(directory) / "data", replicas=1) as cluster,
    ):
        suite = Path(directory) / "suite"
        suite.mkdir()
        (suite / "test_suite.py").write_text(SUITE)
        (suite / "conftest.py").write_text(CONFTEST)
        (suite / "pytest.ini").write_text(CONFIGURATION)
        (suite / "setup.cfg").write_text(SQLALCHEMY_CONFIGURATION)
        url = "sqlite://" if SQLITE_OPTION in arguments else f"creek://{cluster.addresses()}/"
        others = [each for each in arguments if each != SQLITE_OPTION]
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        finished = subprocess.run(
            [sys.executable, "-m", "pytest", "-rfE", "--color=no", "--dburi", url, *others],
            cwd=suite,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            capture_output=True,
            text=True,
            check=False,
        )
    if finished.returncode not in (0, 1):
        raise SystemExit(finished.stdout + finished.stderr)
    lines = finished.stdout.splitlines()
    failed = {
        re.sub(
            r"_(?:creek\+dbapi|sqlite\+pysqlite)[0-9_]*",
            "",
            line.split(" ", 2)[1].partition("::")[2],
        ).partition("[")[0]
        for line in lines
        if line.startswith(("FAILED ", "ERROR "))
    }
    return failed, "\n".join(lines) + finished.stderr


def main(arguments: list[str]) -> int:
    """Run the suite and compare its failures with the expected ones."""
    failed, output = run_suite(arguments)
    print(output)
    unexpected = sorted(failed - set(EXPECTED_FAILURES))
    for name in unexpected:
        print(f"unexpected failure: {name}")
    passed = [] if arguments else sorted(set(EXPECTED_FAILURES) - failed)
    for name in passed:
        print(f"expected to fail, but passed: {name}")
    return 1 if unexpected or passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
