"""etcd's own load generator, `benchmark put`, and its report.

It is not part of etcd's packages. The environment variable or the path locates it. It reports the
puts per second and the distribution of their latencies, but not the single latencies.
"""

import os
import re
import shutil
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

from benchmarks.competitors.load_generators import GeneratorFailed, run_generator, unreadable_report

NAME: Final = "etcd-benchmark"
VARIABLE: Final = "CREEK_ETCD_BENCHMARK"
WHAT: Final = "etcd's own load generator"
MISSING: Final = (
    f"{WHAT} not found; build 'tools/benchmark' of etcd's sources as described in "
    f"docs/internals/live-speed.md, and put it as {NAME} on the path or name it in {VARIABLE}"
)
KEY_BYTES: Final = 11
"""Length of a key, as in the load for Creek."""
KEYS: Final = 10_000
CONNECTIONS: Final = 24
WARM_UP_PUTS: Final = 2_000
TIMEOUT_S: Final = 60.0
"""Base timeout, in seconds."""
DURATION_FACTOR: Final = 20.0
"""Additional timeout, as a factor of the expected duration."""

_NUMBER: Final = r"([0-9][0-9.]*(?:[eE][-+]?[0-9]+)?)"
_RATE: Final = re.compile(rf"Requests/sec:\s*{_NUMBER}")
_TOTAL: Final = re.compile(rf"Total:\s*{_NUMBER}\s*secs")
_MEDIAN: Final = re.compile(rf"(?<![0-9.])50(?:\.0+)?%\s*in\s*{_NUMBER}\s*secs")
_ERROR: Final = re.compile(r"^\s*\[(\d+)\]\t(.+)$", re.MULTILINE)


class Report(NamedTuple):
    """Report of one run."""

    per_second: float
    seconds: float
    p50_ms: float


def find_program() -> str | None:
    """Return the path of the program, or None.

    Raise `GeneratorFailed` if the variable names no program.
    """
    configured = os.environ.get(VARIABLE)
    if not configured:
        return shutil.which(NAME)
    path = shutil.which(configured)
    if path is None:
        raise GeneratorFailed(f"{VARIABLE} names {configured}, which is not an executable program")
    return path


def parse_report(text: str) -> Report:
    """Parse a report. Raise `GeneratorFailed` if a put failed or the report is incomplete."""
    errors = text.partition("Error distribution:")[2]
    if failures := [f"{count} × {reason.strip()}" for count, reason in _ERROR.findall(errors)]:
        raise GeneratorFailed(f"{WHAT} reports failed puts: {', '.join(failures)}")
    rate, total, median = (each.search(text) for each in (_RATE, _TOTAL, _MEDIAN))
    if rate is None or total is None or median is None:
        raise unreadable_report(WHAT, text)
    return Report(float(rate[1]), float(total[1]), float(median[1]) * 1000)


class Generator:
    """Drives etcd's servers and collects the reports."""

    def __init__(
        self, program: str, addresses: Sequence[str], *, clients: int, value_bytes: int
    ) -> None:
        self._command = [program, "--endpoints", ",".join(addresses), "--precise"]
        self._command += ["--clients", str(clients), "--conns", str(CONNECTIONS), "put"]
        self._command += ["--val-size", str(value_bytes), "--key-size", str(KEY_BYTES)]
        self._command += ["--key-space-size", str(KEYS)]

        self._closed_loop_reports: list[Report] = []
        self._paced_reports: list[Report] = []

    def run_closed_loop(self, seconds: float) -> float:
        """Run closed-loop clients for about `seconds`; return the puts per second. The number of
        puts follows from the rate of a warm-up."""
        rate = self._run(WARM_UP_PUTS, 0, TIMEOUT_S).per_second
        self._closed_loop_reports.append(self._run(max(2, int(rate * seconds)), 0, seconds))
        return self._closed_loop_reports[-1].per_second

    def run_at_rate(self, rate: int, seconds: float) -> None:
        self._paced_reports.append(self._run(max(2, int(rate * seconds)), rate, seconds))

    @property
    def per_second(self) -> float:
        """Puts per second of all closed-loop runs."""
        puts = sum(each.per_second * each.seconds for each in self._closed_loop_reports)
        return puts / max(1e-9, sum(each.seconds for each in self._closed_loop_reports))

    @property
    def p50_ms(self) -> float:
        """Median of the medians of the paced runs; reports contain no single latencies."""
        return statistics.median(each.p50_ms for each in self._paced_reports)

    def _run(self, puts: int, rate: int, seconds: float) -> Report:
        command = [*self._command, "--total", str(puts), "--rate", str(rate)]
        completed = run_generator(command, WHAT, TIMEOUT_S + DURATION_FACTOR * seconds)
        if completed.returncode != 0:
            output = (completed.stderr or completed.stdout).strip().splitlines() or ["no output"]
            raise GeneratorFailed(f"{WHAT} exited with {completed.returncode}: {output[-1]}")
        return parse_report(completed.stdout)
