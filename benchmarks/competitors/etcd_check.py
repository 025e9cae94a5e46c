"""The load generator in etcd's packages, `etcdctl check perf`, and its report.

Its load is fixed: a minute of puts from a thousand clients, each with a new key and a value of one
kibibyte. The load for Creek in this comparison is the same. The report contains the puts per
second, but no median latency.
"""

import os
import re
import shutil
from collections.abc import Sequence
from random import Random
from typing import Final

from benchmarks.competitors.load_generators import GeneratorFailed, run_generator, unreadable_report
from creekdb.load.workload import Workload, WorkloadCall

NAME: Final = "etcdctl"
WHAT: Final = f"'{NAME} check perf'"
MISSING: Final = f"{NAME} is not installed; 'apt-get install etcd-client' installs it"
CLIENTS: Final = 1_000
KEY_BYTES: Final = 276
VALUE_BYTES: Final = 1_024
PREFIX: Final = "/etcdctl-check-perf/"
SECONDS: Final = 60
EXTRA_TIMEOUT_S: Final = 120.0
"""Timeout beyond its minute, in seconds; it also deletes its keys."""

_RATE: Final = re.compile(r"Throughput (?:is|too low:) ([0-9]+) writes/s")
_ERROR: Final = re.compile(r"ERROR\((.+)\) -> ([0-9]+)")


def find_program() -> str | None:
    return shutil.which(NAME)


def puts_per_second(program: str, addresses: Sequence[str]) -> int:
    """Return the puts per second. Its verdict on the throughput is ignored."""
    command = [program, "check", "perf", "--load=xl", "--endpoints", ",".join(addresses)]
    completed = run_generator(
        command, WHAT, SECONDS + EXTRA_TIMEOUT_S, {**os.environ, "ETCDCTL_API": "3"}
    )
    return parse_report(completed.stdout, completed.stderr)


def parse_report(output: str, error_output: str = "") -> int:
    """Parse a report. Raise `GeneratorFailed` if a put failed or the report is incomplete."""
    if failures := [f"{count} × {reason}" for reason, count in _ERROR.findall(output)]:
        raise GeneratorFailed(f"{WHAT} reports failed puts: {', '.join(failures)}")
    rate = _RATE.search(output)
    if rate is None:
        raise unreadable_report(WHAT, error_output or output)
    return int(rate[1])


def make_workload(strong: float, seed: int) -> Workload:
    """Return the same puts for Creek."""
    random = Random(f"check {seed}")
    value = bytes(VALUE_BYTES)

    def next_call(_: int) -> WorkloadCall:
        key = f"{PREFIX}{random.getrandbits(63):x}".ljust(KEY_BYTES, ".")
        return WorkloadCall("put", (key, value), random.random() < strong)

    return next_call
