"""Runs with faults, and counters of their replicas during a partition (Section 6.4)."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from creekdb.errors import CreekError
from creekdb.pipeline.report.evidence import ReportRow, ReportTables
from creekdb.simulation.faults.fault_types import Fault, Heal, Partition
from creekdb.simulation.faults.language import format_fault, parse_faults


class FaultMarker(NamedTuple):
    """Time and text of a fault in a timeline."""

    at_us: int
    text: str


class PartitionedRun(NamedTuple):
    """Run with a temporary network partition."""

    run: str
    scheme: str
    source: str
    replicas: int
    seed: int
    split_us: int
    healed_us: int
    majority: frozenset[int]
    """Replicas of the group with more than half of all replicas; empty without such a group."""
    samples: list[ReportRow]

    def minority_tentative_growth(self) -> float | None:
        """Return the growth of `tentative` outside the majority during the partition."""
        return self._growth("tentative", inside=False)

    def minority_committed_growth(self) -> float | None:
        """Return the growth of `committed` outside the majority during the partition."""
        return self._growth("committed", inside=False)

    def majority_committed_growth(self) -> float | None:
        """Return the growth of `committed` in the majority during the partition."""
        return self._growth("committed", inside=True)

    def _growth(self, column: str, inside: bool) -> float | None:
        """Return the largest growth at any replica during the partition, or None.

        The first sample is skipped, since messages in flight at the split may still arrive.
        """
        growths: list[int] = []
        for replica, rows in rows_by_replica(self.samples).items():
            during = [row for row in rows if self.split_us < row["at_us"] < self.healed_us][1:]
            if during and (replica in self.majority) == inside:
                growths.append(max(row[column] for row in during) - during[0][column])
        return float(max(growths)) if growths else None


def parse_recorded_faults(text: str) -> tuple[Fault, ...]:
    """Parse the faults of a run; return none if a live run recorded them in another form."""
    try:
        return parse_faults(text)
    except CreekError:
        return ()


def fault_markers(text: str) -> list[FaultMarker]:
    return [FaultMarker(each.at_us, format_fault(each)) for each in parse_recorded_faults(text)]


def partitioned_runs(tables: ReportTables) -> list[PartitionedRun]:
    samples = rows_by_run(tables.samples)
    return [
        partitioned
        for run in tables.runs
        if run["faults"] and (partitioned := _partitioned_run(run, samples.get(run["run"], ())))
    ]


def _partitioned_run(run: ReportRow, samples: Sequence[ReportRow]) -> PartitionedRun | None:
    faults = parse_recorded_faults(run["faults"])
    split = next((each for each in faults if isinstance(each, Partition)), None)
    if split is None or not samples:
        return None
    heals = (each.at_us for each in faults if isinstance(each, Heal) and each.at_us > split.at_us)
    return PartitionedRun(
        run=run["run"],
        scheme=run["scheme"],
        source=run["source"],
        replicas=run["replicas"],
        seed=run["seed"],
        split_us=split.at_us,
        healed_us=next(heals, run["duration_us"]),
        majority=_majority(split, run["replicas"]),
        samples=list(samples),
    )


def _majority(split: Partition, replicas: int) -> frozenset[int]:
    groups = [frozenset(group) for group in split.groups]
    groups.append(frozenset(range(replicas)).difference(*groups))
    return next((group for group in groups if 2 * len(group) > replicas), frozenset())


def rows_by_run(samples: Sequence[ReportRow]) -> dict[str, list[ReportRow]]:
    groups: dict[str, list[ReportRow]] = defaultdict(list)
    for row in samples:
        groups[row["run"]].append(row)
    return dict(groups)


def rows_by_replica(samples: Sequence[ReportRow]) -> dict[int, list[ReportRow]]:
    groups: dict[int, list[ReportRow]] = defaultdict(list)
    for row in sorted(samples, key=lambda row: (row["replica"], row["at_us"])):
        groups[row["replica"]].append(row)
    return dict(groups)
