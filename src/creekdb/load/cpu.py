"""What processes of this machine have had of its cores."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LOAD: Final = "the load"
"""What the process that measures is called."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class CpuClock:
    """What processes use from `begin` to `end`, and this one beside them."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = {**processes, LOAD: os.getpid()}
        self._begun: dict[str, float] = {}
        self.used_s: dict[str, float] = {}

    def begin(self) -> None:
        self._begun = self._read()

    def end(self) -> None:
        self.used_s = {name: now - self._begun[name] for name, now in self._read().items()}

    def _read(self) -> dict[str, float]:
        return {name: _cpu_seconds(process) for name, process in self._processes.items()}


def _cpu_seconds(process: int) -> float:
    """That a process has had so far."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
