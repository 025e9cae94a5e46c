"""Runs with faults, and counters of their replicas during a partition (Section 6.4)."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from creekdb.errors import CreekError
from creekdb.pipeline.report.evidence import ReportRow, ReportTables
from creekdb.simulation.faults.fault_types import Fault, Heal, Partition
from creekdb.simulation.faults.language import format_fault, parse_faults

US_PER_S: Final = 1_000_000


class PartitionedRun(NamedTuple):
    """Run with a temporary network partition."""

    row: ReportRow
    split_us: int
    healed_us: int
    majority: frozenset[int]
    """Replicas of the group with more than half of all replicas; empty without such a group."""
    samples: list[ReportRow]

    def growth(self, column: str, in_majority: bool) -> float | None:
        """Return the largest growth at any replica during the partition, or None.

        The first sample is skipped, since messages in flight at the split may still arrive.
        """
        growths: list[int] = []
        for replica, rows in rows_by("replica", self.samples).items():
            in_time = sorted(rows, key=lambda row: int(row["at_us"]))
            during = [row for row in in_time if self.split_us < row["at_us"] < self.healed_us][1:]
            if during and (replica in self.majority) == in_majority:
                growths.append(max(row[column] for row in during) - during[0][column])
        return float(max(growths)) if growths else None


def parse_recorded_faults(text: str) -> tuple[Fault, ...]:
    """Parse the faults of a run; return none if a live run recorded them in another form."""
    try:
        return parse_faults(text)
    except CreekError:
        return ()


def fault_name(fault: Fault) -> str:
    """Return a fault in the fault language, without its time."""
    return format_fault(fault).partition(" at ")[0]


def fault_mark(text: str, at_us: int, until_us: int | None) -> dict[str, Any]:
    """Return the mark of a fault in a timeline, shaded until its repair."""
    mark = {"at": at_us / US_PER_S, "text": text}
    return mark if until_us is None else mark | {"until": until_us / US_PER_S}


def partitioned_runs(tables: ReportTables) -> dict[str, PartitionedRun]:
    """Return the runs with a partition and with samples, by name."""
    samples = rows_by("run", tables.samples)
    runs = {run["run"]: _partitioned_run(run, samples[run["run"]]) for run in tables.runs}
    return {name: run for name, run in runs.items() if run is not None}


def _partitioned_run(run: ReportRow, samples: list[ReportRow]) -> PartitionedRun | None:
    faults = parse_recorded_faults(run["faults"])
    split = next((each for each in faults if isinstance(each, Partition)), None)
    if split is None or not samples:
        return None
    heals = (each.at_us for each in faults if isinstance(each, Heal) and each.at_us > split.at_us)
    return PartitionedRun(
        row=run,
        split_us=split.at_us,
        healed_us=next(heals, run["duration_us"]),
        majority=_majority(split, run["replicas"]),
        samples=samples,
    )


def _majority(split: Partition, replicas: int) -> frozenset[int]:
    groups = [frozenset(group) for group in split.groups]
    groups.append(frozenset(range(replicas)).difference(*groups))
    return next((group for group in groups if 2 * len(group) > replicas), frozenset())


def rows_by(column: str, rows: Iterable[ReportRow]) -> dict[Any, list[ReportRow]]:
    """Group rows by the value of a column. A value without rows has an empty group."""
    groups: dict[Any, list[ReportRow]] = defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
    return groups
