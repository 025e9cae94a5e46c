"""Processor time of servers that start further processes.

Unlike throughput, it hardly depends on the other programs of the machine.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PARENT: Final = 1
_TIMES: Final = slice(11, 15)
"""Fields after the name in /proc/PID/stat: times of the process and of its ended children."""


def cpu_seconds(roots: Iterable[int], proc: Path = Path("/proc")) -> float:
    """Return the processor time so far of these processes and of all that they started."""
    ticks: dict[int, int] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for directory in proc.glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        process = int(directory.name)
        ticks[process] = sum(map(int, fields[_TIMES]))
        children[int(fields[_PARENT])].append(process)
    total, remaining = 0, list(roots)
    while remaining:
        process = remaining.pop()
        total += ticks.get(process, 0)
        remaining += children[process]
    return total / _TICKS_PER_S
