"""The load generator that comes with etcd's packages: `etcdctl check perf`, of which the report is
read.

What it asks for cannot be chosen: a minute of puts from a thousand clients, each under a new key,
with values of a kibibyte. So the load for Creek that stands beside it asks for the same. It tells
how many puts were done in a second, and not how long one took in the middle.
"""

import os
import re
import shutil
from collections.abc import Sequence
from random import Random
from typing import Final

from benchmarks.rivals.generators import Failed, run, unreadable
from creekdb.load.workload import Workload, WorkloadCall

NAME: Final = "etcdctl"
WHAT: Final = f"'{NAME} check perf'"
MISSING: Final = f"{NAME} is not installed ('apt-get install etcd-client' adds it)"
CLIENTS: Final = 1_000
KEY_BYTES: Final = 276
VALUE_BYTES: Final = 1_024
PREFIX: Final = "/etcdctl-check-perf/"
SECONDS: Final = 60
PATIENCE_S: Final = 120.0
"""Beyond its minute: it takes back what it has put."""

_RATE: Final = re.compile(r"Throughput (?:is|too low:) ([0-9]+) writes/s")
_ERROR: Final = re.compile(r"ERROR\((.+)\) -> ([0-9]+)")


def found() -> str | None:
    return shutil.which(NAME)


def puts_per_second(program: str, addresses: Sequence[str]) -> int:
    """As many as it gets done. That it finds them too few, or too slow, is its own opinion."""
    command = [program, "check", "perf", "--load=xl", "--endpoints", ",".join(addresses)]
    ran = run(command, WHAT, SECONDS + PATIENCE_S, {**os.environ, "ETCDCTL_API": "3"})
    return read(ran.stdout, ran.stderr)


def read(said: str, complained: str = "") -> int:
    """Its report. Raises `Failed` when a put failed, or there is none."""
    if failed := [f"{count} × {reason}" for reason, count in _ERROR.findall(said)]:
        raise Failed(f"{WHAT} tells of puts that failed: {', '.join(failed)}")
    rate = _RATE.search(said)
    if rate is None:
        raise unreadable(WHAT, complained or said)
    return int(rate[1])


def stream(strong: float, seed: int) -> Workload:
    """The same puts, for Creek."""
    random = Random(f"check {seed}")
    value = bytes(VALUE_BYTES)

    def asked(_: int) -> WorkloadCall:
        key = f"{PREFIX}{random.getrandbits(63):x}".ljust(KEY_BYTES, ".")
        return WorkloadCall("put", (key, value), random.random() < strong)

    return asked
