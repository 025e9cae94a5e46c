"""Probes: counters on branches that are rarely taken.

A branch that no simulation ever reached is a hole in the test, not a success: the fuzzer fails when
a probe of this list did not fire.
"""

import enum


class Probe(enum.Enum):
    """Each probe's value says what happened."""


class Probes:
    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[Probe, int] = {}

    def hit(self, probe: Probe) -> None:
        self.counts[probe] = self.counts.get(probe, 0) + 1
