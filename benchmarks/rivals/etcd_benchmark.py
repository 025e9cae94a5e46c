"""etcd's own load generator, `benchmark put`, of which the report is read.

It is no part of etcd's packages: it is found by the environment variable, or on the path. It says
how many puts were done in a second, and how long they took, but not each by itself.
"""

import os
import re
import shutil
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

from benchmarks.rivals.generators import Failed, run, unreadable

NAME: Final = "etcd-benchmark"
VARIABLE: Final = "CREEK_ETCD_BENCHMARK"
WHAT: Final = "etcd's own load generator"
MISSING: Final = (
    f"{WHAT} is not there: build 'tools/benchmark' of etcd's sources, as "
    f"docs/internals/live-speed.md tells, and name it {NAME} on the path, or in {VARIABLE}"
)
KEY_BYTES: Final = 11
"""As those of the load for Creek."""
KEYS: Final = 10_000
CONNECTIONS: Final = 24
WARM_UP_PUTS: Final = 2_000
PATIENCE_S: Final = 60.0
"""Beyond what it was asked to take."""
SLOWER: Final = 20.0
"""So many times longer than expected it may take."""

_NUMBER: Final = r"([0-9][0-9.]*(?:[eE][-+]?[0-9]+)?)"
_RATE: Final = re.compile(rf"Requests/sec:\s*{_NUMBER}")
_TOTAL: Final = re.compile(rf"Total:\s*{_NUMBER}\s*secs")
_MEDIAN: Final = re.compile(rf"(?<![0-9.])50(?:\.0+)?%\s*in\s*{_NUMBER}\s*secs")
_ERROR: Final = re.compile(r"^\s*\[(\d+)\]\t(.+)$", re.MULTILINE)


class Report(NamedTuple):
    """What it said of one run."""

    per_second: float
    seconds: float
    p50_ms: float


def found() -> str | None:
    """Where it is. Raises `Failed` if it is not where the variable says."""
    told = os.environ.get(VARIABLE)
    if not told:
        return shutil.which(NAME)
    where = shutil.which(told)
    if where is None:
        raise Failed(f"{VARIABLE} names {told}, which is no program that can be run")
    return where


def read(text: str) -> Report:
    """Its report. Raises `Failed` when a put failed, or there is none."""
    errors = text.partition("Error distribution:")[2]
    if failed := [f"{count} × {reason.strip()}" for count, reason in _ERROR.findall(errors)]:
        raise Failed(f"{WHAT} tells of puts that failed: {', '.join(failed)}")
    rate, total, median = (each.search(text) for each in (_RATE, _TOTAL, _MEDIAN))
    if rate is None or total is None or median is None:
        raise unreadable(WHAT, text)
    return Report(float(rate[1]), float(total[1]), float(median[1]) * 1000)


class Generator:
    """Drives etcd's servers, and keeps what came of it."""

    def __init__(
        self, program: str, addresses: Sequence[str], *, clients: int, value_bytes: int
    ) -> None:
        self._command = [program, "--endpoints", ",".join(addresses), "--precise"]
        self._command += ["--clients", str(clients), "--conns", str(CONNECTIONS), "put"]
        self._command += ["--val-size", str(value_bytes), "--key-size", str(KEY_BYTES)]
        self._command += ["--key-space-size", str(KEYS)]

        self._full: list[Report] = []
        self._paced: list[Report] = []

    def as_many_as_can_be(self, seconds: float) -> float:
        """In a second, for about so long: how many that are is found out while it warms up."""
        rate = self._run(WARM_UP_PUTS, 0, PATIENCE_S).per_second
        self._full.append(self._run(max(2, int(rate * seconds)), 0, seconds))
        return self._full[-1].per_second

    def at_a_rate(self, rate: int, seconds: float) -> None:
        self._paced.append(self._run(max(2, int(rate * seconds)), rate, seconds))

    @property
    def per_second(self) -> float:
        """Of all that were as many as can be."""
        puts = sum(each.per_second * each.seconds for each in self._full)
        return puts / max(1e-9, sum(each.seconds for each in self._full))

    @property
    def p50_ms(self) -> float:
        """Of those at a rate, the median of medians: more is not told."""
        return statistics.median(each.p50_ms for each in self._paced)

    def _run(self, puts: int, rate: int, seconds: float) -> Report:
        command = [*self._command, "--total", str(puts), "--rate", str(rate)]
        ran = run(command, WHAT, PATIENCE_S + SLOWER * seconds)
        if ran.returncode != 0:
            said = (ran.stderr or ran.stdout).strip().splitlines() or ["it said nothing"]
            raise Failed(f"{WHAT} ended with {ran.returncode}: {said[-1]}")
        return read(ran.stdout)
