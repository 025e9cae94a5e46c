"""Fault schedules of live runs: validation, order, and healing at the end."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any, cast

import pytest

from creekdb.cli.commands.live_run import REPLICAS, default_faults
from creekdb.errors import UsageError
from creekdb.load.live_run import (
    LOAD_STEPS_PER_S,
    LiveFaultInjector,
    parse_fault_schedule,
    sustainable_load,
)
from creekdb.load.local_cluster import LocalCluster
from creekdb.simulation.faults.fault_types import Fault
from creekdb.simulation.faults.language import format_fault

DURATION_US = 10_000_000


class FaultLog:
    """Replicas and links that record the faults injected into them, in order."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def kill(self, replica: int) -> None:
        self.entries.append(f"kill {replica}")

    def start(self, *replicas: int) -> None:
        self.entries.append(f"start {replicas}")

    def partition(self, groups: Sequence[Sequence[int]]) -> None:
        self.entries.append(f"partition {groups}")

    def heal(self) -> None:
        self.entries.append("heal")


async def inject(text: str) -> tuple[list[str], list[Fault]]:
    """Inject the faults of `text`. Return the recorded faults and the applied ones."""
    log = FaultLog()
    injector = LiveFaultInjector(cast(Any, log))
    await injector.run(parse_fault_schedule(text, 3, DURATION_US), perf_counter_ns())
    return log.entries, injector.applied_faults


async def test_faults_are_applied_in_order_of_time() -> None:
    entries, applied = await inject(
        "restart 1 at 4ms; crash 1 at 1ms; heal at 9ms; partition 0|1,2 at 6ms"
    )

    assert entries == ["kill 1", "start (1,)", "partition ((0,), (1, 2))", "heal"]
    planned = ("crash 1", "restart 1", "partition 0|1,2", "heal")
    assert tuple(format_fault(fault).partition(" at ")[0] for fault in applied) == planned
    for fault, at_us in zip(applied, (1_000, 4_000, 6_000, 9_000), strict=True):
        assert fault.at_us >= at_us, "an applied fault has its actual time"


async def test_open_faults_are_healed_at_the_end() -> None:
    entries, applied = await inject("crash 2 at 1ms; partition 0 at 2ms")

    assert entries[-2:] == ["start (2,)", "heal"]
    assert [type(fault).__name__ for fault in applied[-2:]] == ["Restart", "Heal"]


def test_a_partition_separates_its_groups(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, replicas=4)
    assert [cluster.unreachable_from(replica) for replica in range(4)] == [()] * 4

    cluster.partition(((0,), (1, 2)))
    assert [cluster.unreachable_from(replica) for replica in range(4)] == [
        (1, 2, 3),
        (0, 3),
        (0, 3),
        (0, 1, 2),
    ]

    cluster.heal()
    assert [cluster.unreachable_from(replica) for replica in range(4)] == [()] * 4


async def test_an_empty_schedule_applies_no_fault() -> None:
    assert await inject("") == ([], [])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("crash 3 at 1s", "replica 3, which does not exist"),
        ("crash 1 at 10s", "the run ends after 10s"),
        ("crash 1 at 1s; crash 1 at 2s", "replica 1 is already down"),
        ("restart 1 at 1s", "replica 1 is not down"),
        ("loss 10% at 1s", "supports crash, restart, partition and heal"),
        ("crash-writing 1 at 1s", "supports crash, restart, partition and heal"),
        ("explode 1 at 1s", "explode"),
        ("crash 1", "'at' and a duration are missing"),
    ],
)
def test_impossible_faults_are_rejected(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        parse_fault_schedule(text, 3, DURATION_US)


def test_default_faults_cover_all_kinds_and_leave_time_to_heal() -> None:
    faults = default_faults(DURATION_US)

    text = "; ".join(map(format_fault, faults))
    assert parse_fault_schedule(text, REPLICAS, DURATION_US) == faults
    assert len({type(fault) for fault in faults}) == 4
    assert faults[-1].at_us < DURATION_US * 0.8


def test_the_load_is_a_fraction_of_the_capacity() -> None:
    assert sustainable_load(5_000) == LOAD_STEPS_PER_S[0]
    assert sustainable_load(450) == 100
    assert sustainable_load(1) == LOAD_STEPS_PER_S[-1]
