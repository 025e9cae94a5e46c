"""Whole basic replicas: who is answered when, no-ops, clocks, and what observers see."""

import pytest

from creekdb.protocol.effects import Committed, RbDelivered, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast, Decided, Received, Vote
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import NOOP, Operation, Outcome
from creekdb.schemes.core.ordering import NOOP_FOLLOWER_FACTOR
from tests.unit.schemes.bench import Bench, leading_bench
from tests.unit.schemes.busy import busy_bench

SEEDS = range(12)
DAY_US = 24 * 3600 * 1_000_000


# --- answers and idleness -------------------------------------------------------------------------


def test_a_weak_request_is_answered_at_once_also_when_cut_off() -> None:
    bench = leading_bench()
    bench.isolate(0)
    id = bench.invoke(0, "put", "a", 1)
    assert bench.answers_to(id) == [(ResponseKind.TENTATIVE, Outcome(None))]


def test_a_strong_request_is_answered_tentatively_at_once_and_stably_later() -> None:
    bench = leading_bench()
    id = bench.invoke(0, "put", "a", 1, strong=True)
    assert bench.answers_to(id) == [(ResponseKind.TENTATIVE, Outcome(None))]
    bench.deliver()
    assert bench.answers_to(id) == [
        (ResponseKind.TENTATIVE, Outcome(None)),
        (ResponseKind.STABLE, Outcome(None)),
    ]


def test_an_operation_that_raises_is_answered_with_its_error() -> None:
    bench = leading_bench()
    bench.invoke(0, "put", "a", "text")
    id = bench.invoke(0, "increment", "a", strong=True)
    unknown = bench.invoke(0, "no such operation")
    bench.settle()
    (_, tentative), (_, stable) = bench.answers_to(id)
    assert tentative == stable
    assert stable.error is not None
    ((_, outcome),) = bench.answers_to(unknown)
    assert outcome.error is not None
    assert "no such operation" in outcome.error


def test_a_vote_leaves_only_with_the_request_on_disk() -> None:
    bench = leading_bench()
    bench.invoke(0, "put", "a", 1, strong=True)
    bench.deliver()
    voters = {sender for sender, _, message in bench.sent if isinstance(message, Vote)}
    assert len(voters) >= 2
    for voter in voters:
        on_disk = [each.request.id for each in bench.records(voter) if isinstance(each, Received)]
        assert Dot(0, 1) in on_disk


def test_a_replica_is_idle_once_everything_is_executed() -> None:
    bench = leading_bench()
    assert bench[0].is_idle()
    bench.holding[0] = []
    bench.invoke(0, "put", "a", 1)
    assert not bench[0].is_idle()
    assert bench[0].state() == {}
    bench.run_held(0)
    assert bench[0].is_idle()
    assert bench[0].state() == {"a": 1}


def test_a_replica_with_something_to_roll_back_is_not_idle() -> None:
    bench = leading_bench()
    bench.skew_us[0] = 50_000
    bench.invoke(0, "put", "a", 1)
    bench.holding[0] = []
    bench.invoke(1, "put", "a", 2)
    bench.deliver()
    assert bench[0]._to_be_rolled_back
    assert not bench[0].is_idle()
    bench.run_held(0)
    assert bench[0].state() == {"a": 1}


def test_a_replica_alone_commits_at_once() -> None:
    bench = Bench(1)
    bench.tick()
    weak = bench.invoke(0, "put", "a", 1)
    strong = bench.invoke(0, "put", "a", 2, strong=True)
    assert bench[0].committed_ids() == (weak, strong)
    assert bench.answers_to(strong) == [(ResponseKind.STABLE, Outcome(1))]
    assert bench.sent == []


def test_what_is_asked_before_there_is_a_leader_waits_for_one() -> None:
    bench = Bench(3)
    ids = [bench.invoke(index, "put", "a", index, strong=True) for index in range(3)]
    assert {bench[index].leader() for index in range(3)} == {None}
    bench.settle()
    for id in ids:
        assert ResponseKind.STABLE in [kind for kind, _ in bench.answers_to(id)]


def test_observers_see_each_delivery_and_each_place_once() -> None:
    bench = busy_bench(5, crashes=False)
    for index in list(bench.holding):
        bench.run_held(index)
    bench.settle(600)
    for events in bench.events.values():
        delivered = [each.id for each in events if isinstance(each, RbDelivered)]
        assert len(delivered) == len(set(delivered))
        places = [each.index for each in events if isinstance(each, Committed)]
        assert places == sorted(set(places))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_busy_cluster_comes_to_rest_of_one_mind(seed: int) -> None:
    bench = busy_bench(seed)
    for index in list(bench.holding):
        bench.run_held(index)
    bench.settle(600)
    orders = [bench[index].committed_ids() for index in range(3)]
    shared = min(map(len, orders))
    assert len({order[len(order) - shared :] for order in orders}) == 1


def test_a_decision_is_on_disk_before_progress_tells_of_it() -> None:
    bench = leading_bench()
    bench.invoke(0, "put", "a", 1, strong=True)
    bench.deliver()
    for index in range(3):
        assert [each.instance for each in bench.records(index) if isinstance(each, Decided)] == [0]


def test_operations_are_taken_as_they_are_said() -> None:
    bench = leading_bench()
    bench.invoke(0, "put", "a", [1, [2]])
    (record,) = [each for each in bench.records(0) if isinstance(each, Received)]
    assert record.request.operation == Operation("put", ("a", (1, (2,))))


# --- the strong no-op -----------------------------------------------------------------------------


def noops(bench: Bench) -> list[tuple[int, Dot]]:
    found = []
    for sender, _, message in bench.sent:
        if isinstance(message, Cast):
            found += [(sender, each.id) for each in message.requests if each.operation == NOOP]
    return sorted(set(found))


def test_weak_requests_become_stable_without_any_strong_one() -> None:
    bench = leading_bench(noop_ticks=20)
    for index in range(3):
        bench.invoke(index, "put", "a", index)
    bench.tick(19)
    assert noops(bench) == []
    bench.settle()
    assert [sender for sender, _ in noops(bench)] == [1], "the leader, and once"
    assert bench[0].committed_length() == 4


def test_no_noop_is_issued_when_strong_requests_stabilise_the_weak_ones() -> None:
    bench = leading_bench(noop_ticks=20)
    for _ in range(5):
        bench.invoke(0, "put", "a", 1)
        bench.invoke(0, "put", "a", 2, strong=True)
        bench.tick(15)
    assert noops(bench) == []


def test_an_idle_cluster_issues_no_noop() -> None:
    bench = leading_bench(noop_ticks=5)
    bench.invoke(0, "put", "a", 1, strong=True)
    bench.tick(100)
    assert noops(bench) == []


def test_only_one_noop_is_under_way_at_a_time() -> None:
    bench = leading_bench(noop_ticks=10)
    bench.isolate(1)
    for _ in range(60):
        bench.invoke(1, "put", "a", 1)
        bench.tick()
    mine = [each for each in noops(bench) if each[0] == 1]
    assert len(mine) == 1


def test_a_follower_issues_a_noop_when_no_leader_does() -> None:
    bench = leading_bench(noop_ticks=10)
    bench.isolate(0)
    bench.invoke(0, "put", "a", 1)
    bench.tick(10 * NOOP_FOLLOWER_FACTOR + 1)
    assert [sender for sender, _ in noops(bench)] == [0]
    bench.cut.clear()
    bench.settle()
    assert bench[2].state() == {"a": 1}


# --- clocks ---------------------------------------------------------------------------------------


def test_a_clock_a_day_ahead_is_reported_and_not_refused() -> None:
    bench = leading_bench()
    bench.skew_us[2] = DAY_US
    weak = bench.invoke(2, "put", "a", 1)
    strong = bench.invoke(2, "put", "a", 2, strong=True)
    bench.deliver()
    bench.settle()
    for index in (0, 1):
        drift_us = bench[index].drift_us[2]
        assert DAY_US * 0.99 < drift_us < DAY_US * 1.01
        assert bench[index].rejected.keys() <= {"a ballot from the past"}
        assert bench[index].probes.counts[Probe.CLOCK_AHEAD] >= 1
    assert bench[2].drift_us == {}
    assert bench.answers_to(weak) == [(ResponseKind.TENTATIVE, Outcome(None))]
    assert bench.answers_to(strong)[-1] == (ResponseKind.STABLE, Outcome(1))


@pytest.mark.parametrize("ahead", range(3))
def test_nobody_loses_liveness_to_a_clock_a_day_ahead(ahead: int) -> None:
    bench = leading_bench()
    bench.skew_us[ahead] = DAY_US
    bench.invoke(ahead, "put", "a", 1)
    bench.deliver()
    ids = [bench.invoke(index, "put", "a", index, strong=True) for index in range(3)]
    weak = [bench.invoke(index, "put", "b", index) for index in range(3)]
    bench.settle()
    for id in ids:
        assert ResponseKind.STABLE in [kind for kind, _ in bench.answers_to(id)]
    for id in weak:
        assert len(bench.answers_to(id)) == 1
    ticks = bench[0]._stack._ticks
    bench.invoke((ahead + 1) % 3, "put", "c", 1, strong=True)
    bench.settle()
    assert bench[0]._stack._ticks - ticks < 5, "as fast as ever"


def test_a_clock_that_falls_back_a_day_keeps_session_order() -> None:
    bench = leading_bench()
    bench.skew_us[0] = DAY_US
    bench.invoke(0, "put", "a", "old")
    bench.skew_us[0] = 0
    bench.invoke(0, "put", "a", "new")
    bench.settle()
    assert bench[2].state() == {"a": "new"}
