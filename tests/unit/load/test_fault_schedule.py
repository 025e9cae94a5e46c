"""Faults of a live cluster: what can be asked for, and when it is done."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns

import pytest

from creekdb.cli.commands.live_run import REPLICAS, default_faults
from creekdb.errors import UsageError
from creekdb.load.fault_schedule import LiveFaultInjector, parse_fault_schedule
from creekdb.load.live_run import LOAD_STEPS_PER_S, sustainable_load
from creekdb.load.local_cluster import LinkPartitions, LocalCluster
from creekdb.simulation.faults.fault_types import Fault
from creekdb.simulation.faults.language import format_fault

DURATION_US = 10_000_000


class Diary:
    """Replicas and the links between them: what was done to them, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def kill(self, replica: int) -> None:
        self.lines.append(f"kill {replica}")

    def start(self, *replicas: int) -> None:
        self.lines.append(f"start {replicas}")

    def partition(self, groups: Sequence[Sequence[int]]) -> None:
        self.lines.append(f"divide {groups}")

    def heal(self) -> None:
        self.lines.append("mend")


def done(text: str) -> tuple[list[str], list[Fault]]:
    diary = Diary()
    breaking = LiveFaultInjector(diary, diary)
    asyncio.run(breaking.run(parse_fault_schedule(text, 3, DURATION_US), perf_counter_ns()))
    return diary.lines, breaking.applied_faults


def test_faults_are_done_by_time_however_they_are_written() -> None:
    lines, happened = done("restart 1 at 4ms; crash 1 at 1ms; heal at 9ms; partition 0|1,2 at 6ms")

    assert lines == ["kill 1", "start (1,)", "divide ((0,), (1, 2))", "mend"]
    planned = ("crash 1", "restart 1", "partition 0|1,2", "heal")
    assert tuple(format_fault(each).partition(" at ")[0] for each in happened) == planned
    for fault, at_us in zip(happened, (1_000, 4_000, 6_000, 9_000), strict=True):
        assert fault.at_us >= at_us, "a fault is noted at the time at which it was"


def test_what_nobody_mends_is_mended_in_the_end() -> None:
    lines, happened = done("crash 2 at 1ms; partition 0 at 2ms")

    assert lines[-2:] == ["start (2,)", "mend"]
    assert [type(each).__name__ for each in happened[-2:]] == ["Restart", "Heal"]


def test_who_is_divided_reaches_nobody_of_another_group(tmp_path: Path) -> None:
    cuts = LinkPartitions(LocalCluster(tmp_path, replicas=4))
    assert [cuts.unreachable_from(each) for each in range(4)] == [()] * 4

    cuts.partition(((0,), (1, 2)))
    assert [cuts.unreachable_from(each) for each in range(4)] == [
        (1, 2, 3),
        (0, 3),
        (0, 3),
        (0, 1, 2),
    ]

    cuts.heal()
    assert [cuts.unreachable_from(each) for each in range(4)] == [()] * 4


def test_without_faults_nothing_is_done() -> None:
    assert done("") == ([], [])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("crash 3 at 1s", "replica 3, which does not exist"),
        ("crash 1 at 10s", "it is all over after 10s"),
        ("crash 1 at 1s; crash 1 at 2s", "replica 1 is down already"),
        ("restart 1 at 1s", "replica 1 is not down"),
        ("loss 10% at 1s", "happen crash, restart, partition and heal"),
        ("crash-writing 1 at 1s", "happen crash, restart, partition and heal"),
        ("explode 1 at 1s", "explode"),
        ("crash 1", "'at' and a duration are missing"),
    ],
)
def test_what_cannot_be_done_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_fault_schedule(text, 3, DURATION_US)


def test_the_usual_faults_are_all_there_are_and_leave_time_to_heal() -> None:
    faults = default_faults(DURATION_US)

    text = "; ".join(map(format_fault, faults))
    assert parse_fault_schedule(text, REPLICAS, DURATION_US) == faults
    assert len({type(each) for each in faults}) == 4
    assert faults[-1].at_us < DURATION_US * 0.8


def test_a_machine_is_asked_for_a_part_of_what_it_can_do() -> None:
    assert sustainable_load(5_000) == LOAD_STEPS_PER_S[0]
    assert sustainable_load(450) == 100
    assert sustainable_load(1) == LOAD_STEPS_PER_S[-1]
