"""Runs with faults, and what happened in them over time: Section 6.4."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from creekdb.errors import CreekError
from creekdb.pipeline.report.evidence import ReportRow, ReportTables
from creekdb.simulation.faults.fault_types import Fault, Heal, Partition
from creekdb.simulation.faults.language import format_fault, parse_faults


class FaultMarker(NamedTuple):
    """A fault as it is marked in a timeline."""

    at_us: int
    text: str


class PartitionedRun(NamedTuple):
    """A run in which the network was split for a while."""

    run: str
    scheme: str
    source: str
    replicas: int
    seed: int
    split_us: int
    healed_us: int
    majority: frozenset[int]
    """The replicas of the group that is more than half of all; empty where there is none."""
    samples: list[ReportRow]

    def minority_tentative_growth(self) -> float | None:
        """How far `tentative` grew while split, at those that were not in the majority."""
        return self._growth("tentative", inside=False)

    def minority_committed_growth(self) -> float | None:
        """How many operations were committed by those while split."""
        return self._growth("committed", inside=False)

    def majority_committed_growth(self) -> float | None:
        return self._growth("committed", inside=True)

    def _growth(self, column: str, inside: bool) -> float | None:
        """The largest at any replica, from the first sample of the partition to any later one.

        What was under way when the network broke may still arrive: the first sample is skipped.
        """
        grown: list[int] = []
        for replica, rows in rows_by_replica(self.samples).items():
            during = [row for row in rows if self.split_us < row["at_us"] < self.healed_us][1:]
            if during and (replica in self.majority) == inside:
                grown.append(max(row[column] for row in during) - during[0][column])
        return float(max(grown)) if grown else None


def parse_recorded_faults(text: str) -> tuple[Fault, ...]:
    """What cannot be read, as of a live run, is no fault that could be marked."""
    try:
        return parse_faults(text)
    except CreekError:
        return ()


def fault_markers(text: str) -> list[FaultMarker]:
    return [FaultMarker(each.at_us, format_fault(each)) for each in parse_recorded_faults(text)]


def partitioned_runs(tables: ReportTables) -> list[PartitionedRun]:
    samples = rows_by_run(tables.samples)
    return [
        found
        for run in tables.runs
        if run["faults"] and (found := _partitioned_run(run, samples.get(run["run"], ())))
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
    found: dict[str, list[ReportRow]] = defaultdict(list)
    for row in samples:
        found[row["run"]].append(row)
    return dict(found)


def rows_by_replica(samples: Sequence[ReportRow]) -> dict[int, list[ReportRow]]:
    found: dict[int, list[ReportRow]] = defaultdict(list)
    for row in sorted(samples, key=lambda row: (row["replica"], row["at_us"])):
        found[row["replica"]].append(row)
    return dict(found)
