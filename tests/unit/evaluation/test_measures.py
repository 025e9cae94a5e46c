"""Measures, from records that are written by hand."""

import pytest
from msgspec.structs import replace

from creekdb.evaluation.experiment import build_simulation
from creekdb.evaluation.measures import Measures, measure, summarize_latency
from creekdb.history import Dot, Operation, OperationRecord, Outcome, ResponseKind, ResponseRecord
from creekdb.simulation.kernel.cluster import SimulationRun
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from creekdb.simulation.observation.recorder import Speculation

LOAD_TPS = 1000
SCENARIO = Scenario(
    replicas=2,
    duration_us=1_000_000,
    warm_up_us=200_000,
    clients=ClientModel(sessions=0, rate_per_second=LOAD_TPS / 2),
)


@pytest.fixture(scope="module")
def idle() -> SimulationRun:
    """A run in which hardly anything happens: what it counted is not looked at here."""
    quiet = replace(SCENARIO, clients=ClientModel(sessions=0, rate_per_second=1))
    return build_simulation(quiet).run()


def record(
    event: int, at_us: int, *answers: ResponseRecord, strong: bool = False, replica: int = 0
) -> OperationRecord:
    return OperationRecord(
        session=event,
        replica=replica,
        incarnation=0,
        id=Dot(replica, event),
        operation=Operation("increment"),
        strong=strong,
        invoked_us=at_us,
        answers=answers,
    )


def answer(at_us: int, kind: ResponseKind, value: int = 0, changed: bool = False) -> ResponseRecord:
    return ResponseRecord(at_us, kind, Outcome(value), changed)


def order(event: int, first: tuple[int, str], last: tuple[int, str]) -> OperationRecord:
    answers = (
        ResponseRecord(301_000, ResponseKind.TENTATIVE, Outcome(first)),
        ResponseRecord(400_000, ResponseKind.FINAL, Outcome(last), first != last),
    )
    return replace(record(event, 300_000, *answers), operation=Operation("new_order"))


def measured(
    run: SimulationRun, *records: OperationRecord, speculated: dict[Dot, Speculation] | None = None
) -> Measures:
    history = replace(run.history, operations=records)
    return measure(SCENARIO, replace(run, history=history, speculations=speculated or {}), [])


def steady(latency_us: int, times_slower: float = 1.0) -> list[OperationRecord]:
    """An operation every millisecond; each is done, but `times_slower` as fast as asked."""
    found = []
    for number in range(1000):
        at_us = number * 1000
        done_us = int(at_us * times_slower) + latency_us
        found.append(record(number + 1, at_us, answer(done_us, ResponseKind.TENTATIVE)))
    return found


def test_percentiles_are_by_nearest_rank() -> None:
    found = summarize_latency(range(1000, 101_000, 1000))
    assert found is not None
    assert (found.p50, found.p95, found.p99, found.mean) == (50.0, 95.0, 99.0, 50.5)
    assert summarize_latency([]) is None


def test_what_is_asked_during_the_warm_up_is_not_measured(idle: SimulationRun) -> None:
    early = record(1, 100_000, answer(150_000, ResponseKind.TENTATIVE))
    late = record(2, 300_000, answer(301_000, ResponseKind.TENTATIVE))
    shown = measured(idle, early, late)

    assert (shown.weak, shown.warm_up_ms) == (1, 200)
    assert shown.weak_tentative_ms is not None
    assert shown.weak_tentative_ms.mean == 1.0
    assert shown.throughput_tps == pytest.approx(1 / 0.8)


def test_a_weak_operation_is_done_with_its_first_answer_and_a_strong_one_with_its_stable(
    idle: SimulationRun,
) -> None:
    weak = record(
        1, 300_000, answer(301_000, ResponseKind.TENTATIVE), answer(990_000, ResponseKind.FINAL)
    )
    only_stable = record(2, 300_000, answer(302_000, ResponseKind.STABLE))
    tentative = answer(301_000, ResponseKind.TENTATIVE)
    strong = record(3, 300_000, tentative, answer(305_000, ResponseKind.STABLE), strong=True)
    unanswered = record(4, 300_000, tentative, strong=True)
    too_late = record(5, 999_000, answer(1_001_000, ResponseKind.TENTATIVE))
    shown = measured(idle, weak, only_stable, strong, unanswered, too_late)

    assert shown.throughput_tps == pytest.approx(3 / 0.8)
    assert (shown.answered, shown.backlog) == (4, 2)
    assert shown.strong_stable_ms is not None
    assert shown.strong_stable_ms.mean == 5.0


def test_accuracy_is_what_final_answers_say(idle: SimulationRun) -> None:
    told = answer(301_000, ResponseKind.TENTATIVE)
    records = [
        record(each, 300_000, told, answer(400_000, ResponseKind.FINAL)) for each in range(1, 4)
    ]
    changed = record(4, 300_000, told, answer(400_000, ResponseKind.FINAL, 1, changed=True))
    not_yet = record(5, 300_000, told)
    shown = measured(idle, *records, changed, not_yet)
    assert shown.accuracy == shown.exact_accuracy == 0.75
    assert measured(idle, not_yet).accuracy is None


def test_accuracy_of_tpcc_leaves_the_numbers_of_orders_out(idle: SimulationRun) -> None:
    records = [
        order(1, (7, "left 3"), (7, "left 3")),
        order(2, (8, "left 2"), (9, "left 2")),
        order(3, (9, "left 1"), (9, "left 2")),
    ]
    history = replace(idle.history, operations=tuple(records))
    scenario = replace(SCENARIO, datatype="tpcc-rows-1-0")
    shown = measure(scenario, replace(idle, history=history), [])

    assert shown.accuracy == pytest.approx(2 / 3)
    assert shown.exact_accuracy == pytest.approx(1 / 3)


def test_accuracy_of_what_is_withheld_compares_the_first_execution(idle: SimulationRun) -> None:
    records = [record(each, 300_000, answer(400_000, ResponseKind.STABLE, 7)) for each in (1, 2, 3)]
    speculated = {
        Dot(0, 1): Speculation(310_000, Outcome(7)),
        Dot(0, 2): Speculation(330_000, Outcome(8)),
    }
    shown = measured(idle, *records, speculated=speculated)
    assert shown.accuracy == 0.5
    assert shown.weak_speculated_ms is not None
    assert (shown.weak_speculated_ms.answers, shown.weak_speculated_ms.mean) == (2, 20.0)


@pytest.mark.parametrize("latency_us", [100, 5_000, 50_000])
def test_who_keeps_up_is_not_saturated_however_slow(idle: SimulationRun, latency_us: int) -> None:
    assert measured(idle, *steady(latency_us)).saturated is False


def test_who_does_less_than_is_asked_for_is_saturated(idle: SimulationRun) -> None:
    assert measured(idle, *steady(500, times_slower=1.05)).saturated is True


def test_who_has_a_backlog_that_grows_is_saturated(idle: SimulationRun) -> None:
    shown = measured(idle, *steady(500, times_slower=1.02))
    assert shown.throughput_tps is not None
    assert shown.throughput_tps > 0.97 * LOAD_TPS
    assert shown.backlog > 15
    assert shown.saturated is True


def test_a_closed_loop_cannot_be_saturated(idle: SimulationRun) -> None:
    closed = replace(SCENARIO, clients=ClientModel(sessions=1))
    assert measure(closed, idle, []).saturated is None
