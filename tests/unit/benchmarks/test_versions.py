"""What is measured of `creek` does what its sentence says: nothing is executed again but where that
is what is counted."""

import pytest

from benchmarks import conflicts, versions
from benchmarks.heal import FOUR
from benchmarks.scale import TINY
from benchmarks.workloads import execute
from creekdb.protocol.probes import Probe
from creekdb.schemes.basic import BasicReplica

AGAIN = {Probe.ROLLED_BACK, Probe.REEXECUTED, Probe.EXECUTION_OVERTAKEN}
FEW = 16
"""Kept apart: the rest is in stretches of four."""


@pytest.mark.parametrize("case", versions.CASES, ids=lambda case: case.what)
def test_with_versions_kept_apart_nothing_is_executed_again(case: versions.Case) -> None:
    subject = case.make(versions.ALL, case.operations, 60)
    for _ in range(2):
        subject.ready(10)
        subject.act()

    assert isinstance(subject, versions.Tail)
    probes = subject.replica.probes.counts
    assert subject.replica.is_idle()
    assert subject.replica.rejected == {}
    assert probes.keys().isdisjoint(AGAIN)
    assert Probe.STRETCH_MERGED not in probes


@pytest.mark.parametrize(
    "case",
    [each for each in versions.CASES if each.make is not versions.InOrder],
    ids=lambda case: case.what,
)
def test_stretches_stay_whole(case: versions.Case) -> None:
    subject = case.make(FEW, case.operations, 60)
    for _ in range(2):
        subject.ready(10)
        subject.act()

    assert isinstance(subject, versions.Tail)
    probes = subject.replica.probes.counts
    assert subject.replica.is_idle()
    assert probes[Probe.STRETCH_MERGED] > 5
    assert Probe.STRETCH_TAKEN_APART not in probes
    assert probes.keys().isdisjoint(AGAIN)


def test_late_requests_come_in_the_middle() -> None:
    subject = versions.Late(versions.ALL, versions.spread, 40)
    subject.ready(5)
    subject.act()

    order = subject.replica.tentative_ids()
    late = [index for index, id in enumerate(order) if id.replica == 2]
    assert len(late) == 5
    assert 9 <= min(late) < max(late) < 36


def test_commits_skip_what_is_tentative() -> None:
    subject = versions.Skip(versions.ALL, versions.spread, 40)
    subject.ready(5)
    subject.act()

    assert subject.replica.committed_length() == 5
    assert len(subject.replica.tentative_ids()) == 40


def test_commits_in_order_take_one_weak_request_each() -> None:
    for kept_apart in (versions.ALL, FEW):
        subject = versions.InOrder(kept_apart, versions.spread, 40)
        for round_ in (1, 2):
            subject.ready(5)
            subject.act()
            assert subject.replica.committed_length() == 10 * round_
        assert len(subject.replica.tentative_ids()) == 30
        assert execute(subject.replica) == 0


def test_reads_are_answered_on_the_spot() -> None:
    subject = versions.Read(versions.ALL, versions.spread, 40)
    subject.ready(5)
    subject.act()

    assert subject.answers == 5
    assert len(subject.replica.tentative_ids()) == 40


def test_only_what_conflicts_is_executed_again() -> None:
    results = list(conflicts.measure(TINY))
    assert not any(result.missed for result in results)


def test_the_same_data_on_both_sides_makes_work() -> None:
    assert conflicts.merged(FOUR, 0, 30, disjoint=False) > 0
    assert conflicts.merged(FOUR, 0, 30, scheme=BasicReplica) > 0
