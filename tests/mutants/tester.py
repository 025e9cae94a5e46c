"""Runs tests on a copy of the package: `tester.py DIRECTORY TEST ...`.

The script is a separate process with DIRECTORY on PYTHONPATH, so that the tests load no module of
the original package. It prints one line of JSON for each test, until a test fails.
"""

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType

import pytest

from creekdb import __file__ as package_file

TEST_S_MAX = 120
"""Time limit of one test, in seconds. A mutant may let a test wait without end."""

OPTIONS = ("-x", "-q", "--tb=short", "-pno:cacheprovider")


class FirstFailure:
    """Pytest plugin that prints a line for each test, with its name if it failed."""

    def __init__(self) -> None:
        self._lines = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        self._tests = 0
        self.has_failure = False

    def pytest_runtest_logstart(self) -> None:
        signal.alarm(TEST_S_MAX)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and not report.failed:
            return
        self._tests += 1
        self.has_failure = report.failed
        name = report.nodeid.partition("[")[0].rpartition("/")[2]
        line = {"test": self._tests, "caught_by": name if report.failed else None}
        print(json.dumps(line), file=self._lines, flush=True)


def main(directory: Path, tests: list[str]) -> None:
    loaded = Path(package_file).resolve()
    if not loaded.is_relative_to(directory.resolve()):
        sys.exit(f"creek was loaded from {loaded.parent}, not from the copy in {directory}")
    signal.signal(signal.SIGALRM, _on_timeout)
    plugin = FirstFailure()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The directories of other runs are not touched: their owners may delete them at the same time.
    temporary = f"--basetemp={directory / 'pytest'}"
    status = pytest.main([*OPTIONS, temporary, *tests], plugins=[plugin])
    if status != pytest.ExitCode.OK and not plugin.has_failure:  # for example, it cannot import
        sys.exit(f"pytest ended with status {status}")


def _on_timeout(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"a test took more than {TEST_S_MAX} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
