"""Benchmarks of `creek` perform the operations that they name, and re-executions occur only where
they are counted."""

import pytest

from benchmarks import conflicts, versions
from benchmarks.heal import FOUR
from benchmarks.scale import TINY
from benchmarks.workloads import execute
from creekdb.protocol.probes import Probe
from creekdb.schemes.basic import BasicReplica

REEXECUTION_PROBES = {Probe.ROLLED_BACK, Probe.REEXECUTED, Probe.EXECUTION_OVERTAKEN}
FEW = 16
"""Number of separate versions; the others are in merged runs of four."""


@pytest.mark.parametrize("case", versions.CASES, ids=lambda case: case.what)
def test_separate_versions_cause_no_re_execution(case: versions.Case) -> None:
    subject = case.make(versions.ALL, case.operations, 60)
    for _ in range(2):
        subject.prepare(10)
        subject.perform()

    assert isinstance(subject, versions.TailRequests)
    probes = subject.replica.view.probes.counts
    assert subject.replica.view.is_idle()
    assert subject.replica.view.rejected == {}
    assert probes.keys().isdisjoint(REEXECUTION_PROBES)
    assert Probe.RUN_MERGED not in probes


@pytest.mark.parametrize(
    "case",
    [each for each in versions.CASES if each.make is not versions.CommitsInOrder],
    ids=lambda case: case.what,
)
def test_merged_runs_are_not_split(case: versions.Case) -> None:
    subject = case.make(FEW, case.operations, 60)
    for _ in range(2):
        subject.prepare(10)
        subject.perform()

    assert isinstance(subject, versions.TailRequests)
    probes = subject.replica.view.probes.counts
    assert subject.replica.view.is_idle()
    assert probes[Probe.RUN_MERGED] > 5
    assert Probe.RUN_SPLIT not in probes
    assert probes.keys().isdisjoint(REEXECUTION_PROBES)


def test_late_requests_are_positioned_in_the_middle() -> None:
    subject = versions.LateRequests(versions.ALL, versions.update_shared, 40)
    subject.prepare(5)
    subject.perform()

    order = subject.replica.view.tentative_ids()
    late = [index for index, id in enumerate(order) if id.replica == 2]
    assert len(late) == 5
    assert 9 <= min(late) < max(late) < 36


def test_commits_skip_tentative_requests() -> None:
    subject = versions.SkippingCommits(versions.ALL, versions.update_shared, 40)
    subject.prepare(5)
    subject.perform()

    assert subject.replica.view.committed_length() == 5
    assert len(subject.replica.view.tentative_ids()) == 40


def test_commits_in_order_include_one_weak_request_each() -> None:
    for kept_apart in (versions.ALL, FEW):
        subject = versions.CommitsInOrder(kept_apart, versions.update_shared, 40)
        for round_ in (1, 2):
            subject.prepare(5)
            subject.perform()
            assert subject.replica.view.committed_length() == 10 * round_
        assert len(subject.replica.view.tentative_ids()) == 30
        assert execute(subject.replica) == 0


def test_local_reads_are_answered_immediately() -> None:
    subject = versions.LocalReads(versions.ALL, versions.update_shared, 40)
    subject.prepare(5)
    subject.perform()

    assert subject.response_count == 5
    assert len(subject.replica.view.tentative_ids()) == 40


def test_only_conflicting_operations_are_executed_again() -> None:
    results = list(conflicts.measure(TINY))
    assert not any(result.missed for result in results)


def test_common_data_on_both_sides_causes_re_executions() -> None:
    assert conflicts.reexecutions_after_healing(FOUR, 0, 30, disjoint=False) > 0
    assert conflicts.reexecutions_after_healing(FOUR, 0, 30, scheme=BasicReplica) > 0
