"""Runs with faults, and what happened in them over time: Section 6.4."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from creekdb.errors import CreekError
from creekdb.pipeline.report.evidence import Row, Tables
from creekdb.simulation.faults.fault_types import Fault, Heal, Partition
from creekdb.simulation.faults.language import fault_text, parse_faults


class Moment(NamedTuple):
    """A fault as it is marked in a timeline."""

    at_us: int
    text: str


class Partitioned(NamedTuple):
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
    samples: list[Row]

    def tentative_beyond(self) -> float | None:
        """How far `tentative` grew while split, at those that were not in the majority."""
        return self._growth("tentative", inside=False)

    def committed_beyond(self) -> float | None:
        """How many operations were committed by those while split."""
        return self._growth("committed", inside=False)

    def committed_within(self) -> float | None:
        return self._growth("committed", inside=True)

    def _growth(self, column: str, inside: bool) -> float | None:
        """The largest at any replica, from the first sample of the partition to any later one.

        What was under way when the network broke may still arrive: the first sample is skipped.
        """
        grown: list[int] = []
        for replica, rows in by_replica(self.samples).items():
            during = [row for row in rows if self.split_us < row["at_us"] < self.healed_us][1:]
            if during and (replica in self.majority) == inside:
                grown.append(max(row[column] for row in during) - during[0][column])
        return float(max(grown)) if grown else None


def faults_of(text: str) -> tuple[Fault, ...]:
    """What cannot be read, as of a live run, is no fault that could be marked."""
    try:
        return parse_faults(text)
    except CreekError:
        return ()


def moments(text: str) -> list[Moment]:
    return [Moment(each.at_us, fault_text(each)) for each in faults_of(text)]


def partitioned(tables: Tables) -> list[Partitioned]:
    samples = by_run(tables.samples)
    return [
        found
        for run in tables.runs
        if run["faults"] and (found := _partitioned(run, samples.get(run["run"], ())))
    ]


def _partitioned(run: Row, samples: Sequence[Row]) -> Partitioned | None:
    faults = faults_of(run["faults"])
    split = next((each for each in faults if isinstance(each, Partition)), None)
    if split is None or not samples:
        return None
    heals = (each.at_us for each in faults if isinstance(each, Heal) and each.at_us > split.at_us)
    return Partitioned(
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


def by_run(samples: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in samples:
        found[row["run"]].append(row)
    return dict(found)


def by_replica(samples: Sequence[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(samples, key=lambda row: (row["replica"], row["at_us"])):
        found[row["replica"]].append(row)
    return dict(found)
