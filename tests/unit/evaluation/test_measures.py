"""Measures of hand-written records."""

import pytest
from msgspec.structs import replace

from creekdb.evaluation.experiment import build_simulation
from creekdb.evaluation.measures import (
    Measures,
    full_response,
    is_accurate,
    measure,
    summarize_latency,
)
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
def idle_run() -> SimulationRun:
    """Return a run with almost no load; its counters are irrelevant here."""
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
        responses=answers,
    )


def response(
    at_us: int, kind: ResponseKind, value: int = 0, changed: bool = False
) -> ResponseRecord:
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
    """Return one operation per millisecond, completed at a rate lower by `times_slower`."""
    records = []
    for number in range(1000):
        at_us = number * 1000
        done_us = int(at_us * times_slower) + latency_us
        records.append(record(number + 1, at_us, response(done_us, ResponseKind.TENTATIVE)))
    return records


def test_percentiles_are_by_nearest_rank() -> None:
    latency = summarize_latency(range(1000, 101_000, 1000))
    assert latency is not None
    assert (latency.p50, latency.p95, latency.p99, latency.mean) == (50.0, 95.0, 99.0, 50.5)
    assert summarize_latency([]) is None


def test_operations_of_the_warm_up_are_not_measured(idle_run: SimulationRun) -> None:
    early = record(1, 100_000, response(150_000, ResponseKind.TENTATIVE))
    late = record(2, 300_000, response(301_000, ResponseKind.TENTATIVE))
    measures = measured(idle_run, early, late)

    assert (measures.weak, measures.warm_up_ms) == (1, 200)
    assert measures.weak_tentative_ms is not None
    assert measures.weak_tentative_ms.mean == 1.0
    assert measures.throughput_tps == pytest.approx(1 / 0.8)


def test_weak_operations_complete_with_the_first_response_and_strong_ones_with_the_stable(
    idle_run: SimulationRun,
) -> None:
    weak = record(
        1, 300_000, response(301_000, ResponseKind.TENTATIVE), response(990_000, ResponseKind.FINAL)
    )
    only_stable = record(2, 300_000, response(302_000, ResponseKind.STABLE))
    tentative = response(301_000, ResponseKind.TENTATIVE)
    strong = record(3, 300_000, tentative, response(305_000, ResponseKind.STABLE), strong=True)
    unanswered = record(4, 300_000, tentative, strong=True)
    too_late = record(5, 999_000, response(1_001_000, ResponseKind.TENTATIVE))
    measures = measured(idle_run, weak, only_stable, strong, unanswered, too_late)

    assert measures.throughput_tps == pytest.approx(3 / 0.8)
    assert (measures.answered, measures.backlog) == (4, 2)
    assert measures.strong_stable_ms is not None
    assert measures.strong_stable_ms.mean == 5.0


def test_accuracy_compares_first_and_final_responses(idle_run: SimulationRun) -> None:
    tentative = response(301_000, ResponseKind.TENTATIVE)
    records = [
        record(each, 300_000, tentative, response(400_000, ResponseKind.FINAL))
        for each in range(1, 4)
    ]
    changed = record(4, 300_000, tentative, response(400_000, ResponseKind.FINAL, 1, changed=True))
    unfinished = record(5, 300_000, tentative)
    measures = measured(idle_run, *records, changed, unfinished)
    assert measures.accuracy == measures.exact_accuracy == 0.75
    assert measured(idle_run, unfinished).accuracy is None


def test_accuracy_of_tpcc_ignores_order_numbers(idle_run: SimulationRun) -> None:
    records = [
        order(1, (7, "left 3"), (7, "left 3")),
        order(2, (8, "left 2"), (9, "left 2")),
        order(3, (9, "left 1"), (9, "left 2")),
    ]
    history = replace(idle_run.history, operations=tuple(records))
    scenario = replace(SCENARIO, datatype="tpcc-rows-1-0")
    measures = measure(scenario, replace(idle_run, history=history), [])

    assert measures.accuracy == pytest.approx(2 / 3)
    assert measures.exact_accuracy == pytest.approx(1 / 3)


def test_accuracy_of_withheld_responses_compares_the_first_execution(
    idle_run: SimulationRun,
) -> None:
    records = [
        record(each, 300_000, response(400_000, ResponseKind.STABLE, 7)) for each in (1, 2, 3)
    ]
    speculated = {
        Dot(0, 1): Speculation(310_000, Outcome(7)),
        Dot(0, 2): Speculation(330_000, Outcome(8)),
    }
    measures = measured(idle_run, *records, speculated=speculated)
    assert measures.accuracy == 0.5
    assert measures.weak_speculated_ms is not None
    assert (measures.weak_speculated_ms.answers, measures.weak_speculated_ms.mean) == (2, 20.0)


@pytest.mark.parametrize("latency_us", [100, 5_000, 50_000])
def test_latency_alone_is_not_saturation(idle_run: SimulationRun, latency_us: int) -> None:
    assert measured(idle_run, *steady(latency_us)).saturated is False


def test_throughput_below_the_load_is_saturation(idle_run: SimulationRun) -> None:
    assert measured(idle_run, *steady(500, times_slower=1.05)).saturated is True


def test_a_growing_backlog_is_saturation(idle_run: SimulationRun) -> None:
    measures = measured(idle_run, *steady(500, times_slower=1.02))
    assert measures.throughput_tps is not None
    assert measures.throughput_tps > 0.97 * LOAD_TPS
    assert measures.backlog > 15
    assert measures.saturated is True


def test_saturation_is_undefined_in_a_closed_loop(idle_run: SimulationRun) -> None:
    closed = replace(SCENARIO, clients=ClientModel(sessions=1))
    assert measure(closed, idle_run, []).saturated is None


def test_a_response_that_became_an_error_was_not_accurate() -> None:
    outcomes = {
        (None, "LookupError: gone"): False,
        ("LookupError: gone", None): False,
        ("LookupError: gone", "LookupError: gone"): True,
        ("LookupError: gone", "ValueError: other"): False,
        (None, None): True,
    }
    for (first, last), is_equal in outcomes.items():
        responses = (
            ResponseRecord(1, ResponseKind.TENTATIVE, Outcome(None, first)),
            ResponseRecord(2, ResponseKind.FINAL, Outcome(None, last)),
        )
        weak = OperationRecord(
            session=0,
            replica=0,
            incarnation=0,
            id=Dot(0, 1),
            operation=Operation("get"),
            strong=False,
            invoked_us=0,
            responses=responses,
        )
        assert is_accurate(weak, {}, full_response) is is_equal
