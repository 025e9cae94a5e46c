"""Anomalies of transactions: planted ones are named, serial executions have none."""

from random import Random
from typing import Any

import msgspec
import pytest

from creekdb.checkers import Illegal, Inconclusive, Ok
from creekdb.checkers.blackbox.anomalies.checker import (
    STRONGEST_MODELS,
    Anomaly,
    check_anomalies,
    find_anomalies,
)
from creekdb.checkers.blackbox.anomalies.dependency_graph import EdgeKind
from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE
from creekdb.checkers.blackbox.observations import CallStatus, FinalObservation, ObservedRun
from tests.unit.checkers.blackbox.transaction_runs import (
    SerialExecution,
    concurrent_run,
    consecutive_run,
    run_of,
    transaction,
)


def append(key: str, value: int) -> tuple[str, str, int]:
    return "append", key, value


def read_list(key: str, *values: int) -> tuple[str, str, tuple[int, ...]]:
    return "r", key, values


def write(key: str, value: int) -> tuple[str, str, int]:
    return "w", key, value


def read(key: str, value: int | None) -> tuple[str, str, int | None]:
    return "r", key, value


def worst(run: ObservedRun) -> Anomaly:
    return find_anomalies(run)[0]


LIST_RUNS = {
    "G0": concurrent_run(
        [append("x", 1), append("y", 1)],
        [append("x", 2), append("y", 2)],
        [read_list("x", 1, 2)],
        [read_list("y", 2, 1)],
    ),
    "G1c": concurrent_run([append("x", 1), read_list("y", 1)], [read_list("x", 1), append("y", 1)]),
    "G-single": concurrent_run(
        [read_list("x"), read_list("y", 1)],
        [append("x", 1), append("y", 1)],
        [read_list("x", 1)],
    ),
    "G2": concurrent_run(
        [read_list("x"), append("y", 1)],
        [read_list("y"), append("x", 1)],
        [read_list("x", 1), read_list("y", 1)],
    ),
    "G-nonadjacent": concurrent_run(
        [read_list("x"), read_list("b", 1)],
        [append("x", 1), append("a", 1)],
        [read_list("a", 1), read_list("y")],
        [append("y", 1), append("b", 1)],
        [read_list("x", 1), read_list("y", 1)],
    ),
    "G1b": concurrent_run([append("x", 1), append("x", 2)], [read_list("x", 1)]),
    "duplicate append": concurrent_run([append("x", 1)], [read_list("x", 1, 1)]),
    "garbage read": concurrent_run([append("x", 1)], [read_list("x", 1, 7)]),
    "incompatible order": concurrent_run(
        [append("x", 1)], [append("x", 2)], [read_list("x", 1, 2)], [read_list("x", 2)]
    ),
    "internal": concurrent_run([append("x", 1), read_list("x")]),
    "lost update": concurrent_run(
        [read_list("x"), append("x", 1)], [read_list("x"), append("x", 2)]
    ),
    "lost append": consecutive_run([append("x", 1)], [append("x", 2)], [read_list("x", 1)]),
    "G-single-realtime": consecutive_run(
        [append("x", 1)], [append("x", 2)], [read_list("x", 1)], [read_list("x", 1, 2)]
    ),
    "G0-realtime": consecutive_run([append("x", 1)], [append("x", 2)], [read_list("x", 2, 1)]),
    "G1c-realtime": consecutive_run([read_list("x", 1)], [append("x", 1)]),
    "G2-realtime": run_of(
        transaction([append("y", 1)], 0, 5),
        transaction([append("x", 1), read_list("y")], 1, 100),
        transaction([read_list("x")], 10, 20),
    ),
    "G-nonadjacent-realtime": run_of(
        transaction([append("y", 1)], 0, 5),
        transaction([append("x", 1), append("a", 1)], 1, 100),
        transaction([read_list("a", 1), read_list("y")], 2, 100),
        transaction([read_list("x")], 10, 20),
    ),
}


REGISTER_RUNS = {
    "G1b": concurrent_run([write("x", 1), write("x", 2)], [read("x", 1)]),
    "garbage read": concurrent_run([write("x", 1)], [read("x", 7)]),
    "internal": concurrent_run([write("x", 1), read("x", None)]),
    "G1c": concurrent_run([write("x", 1), read("y", 1)], [read("x", 1), write("y", 1)]),
    "lost update": concurrent_run(
        [read("x", None), write("x", 1)], [read("x", None), write("x", 2)]
    ),
    "G-single": concurrent_run([read("x", None), read("y", 1)], [write("x", 1), write("y", 1)]),
    "G2": concurrent_run([read("x", None), write("y", 1)], [read("y", None), write("x", 1)]),
    "G-single-realtime": consecutive_run([write("x", 1)], [write("x", 2)], [read("x", 1)]),
    "G1c-realtime": consecutive_run([read("x", 1)], [write("x", 1)]),
}


@pytest.mark.parametrize("name", LIST_RUNS)
def test_an_anomaly_of_lists_is_named(name: str) -> None:
    assert worst(LIST_RUNS[name]).name == name


@pytest.mark.parametrize("name", REGISTER_RUNS)
def test_an_anomaly_of_registers_is_named(name: str) -> None:
    assert worst(REGISTER_RUNS[name]).name == name


@pytest.mark.parametrize("status", [CallStatus.REJECTED, CallStatus.ERROR])
def test_reads_of_transactions_that_did_not_take_effect_are_found(status: CallStatus) -> None:
    aborted = transaction([append("x", 1)], 0, 10, status)
    dirty_read = transaction([read_list("x", 1)], 5, 20)
    dirty_update = transaction([append("x", 2)], 5, 20)

    assert worst(run_of(aborted, dirty_read)).name == "G1a"
    run = run_of(aborted, dirty_update, transaction([read_list("x", 1, 2)], 5, 20))
    assert [each.name for each in find_anomalies(run)] == ["dirty update", "G1a"]


@pytest.mark.parametrize("values", [(), (1,), (1, 2), (2,)])
def test_a_transaction_of_unknown_outcome_may_take_effect_or_not(values: tuple[int, ...]) -> None:
    unknown = transaction([append("x", 1)], 0, status=CallStatus.UNKNOWN)
    later = transaction([append("x", 2)], 20, 100)
    run = run_of(unknown, later, transaction([read_list("x", *values)], 20, 100))

    assert check_anomalies(run).verdict == Ok("transactions")


def test_a_transaction_of_unknown_outcome_that_was_read_took_effect_as_a_whole() -> None:
    unknown = transaction([append("x", 1), append("y", 1)], 0, status=CallStatus.UNKNOWN)
    run = run_of(unknown, transaction([read_list("x", 1), read_list("y")], 20, 100))

    assert worst(run).name == "G-single"


def weak(run: ObservedRun, number: int, **changes: Any) -> ObservedRun:
    calls = list(run.calls)
    calls[number] = msgspec.structs.replace(calls[number], strong=False, **changes)
    return msgspec.structs.replace(run, calls=tuple(calls))


def test_a_tentative_response_is_no_evidence_and_a_final_one_is() -> None:
    run = LIST_RUNS["G-single-realtime"]
    stale = run.calls[2]
    final = FinalObservation(25, CallStatus.OK, stale.value, False)

    assert isinstance(check_anomalies(weak(run, 2)).verdict, Ok)
    with_final = weak(run, 2, value="tentative", final=final)
    assert isinstance(check_anomalies(with_final).verdict, Illegal)


def test_real_time_orders_only_transactions_that_do_not_overlap() -> None:
    first = transaction([append("x", 1)], 0, 10)

    touching = run_of(first, transaction([read_list("x")], 10, 20))
    assert isinstance(check_anomalies(touching).verdict, Ok)
    separate = run_of(first, transaction([read_list("x")], 11, 20))
    assert worst(separate).name == "lost append"


@pytest.mark.parametrize("function", ["append", "w"])
@pytest.mark.parametrize("seed", range(25))
def test_serial_executions_have_no_anomaly(function: str, seed: int) -> None:
    run = SerialExecution(seed, function).run(120)

    assert check_anomalies(run).verdict == Ok("transactions")


@pytest.mark.parametrize("function", ["append", "w"])
@pytest.mark.parametrize("seed", range(10))
def test_stale_reads_planted_in_a_serial_execution_are_found(function: str, seed: int) -> None:
    """Move a transaction that read a value, in time, to before the transaction that wrote it."""
    run = SerialExecution(seed, function).run(120)
    calls = list(run.calls)
    planted = [
        index
        for index, call in enumerate(calls)
        if call.strong
        and call.status is CallStatus.OK
        and any(
            value and {each[0] for each in call.value if each[1] == key} == {"r"}
            for _, key, value in call.value
        )
    ]
    chosen = Random(seed).choice(planted)
    early = msgspec.structs.replace(calls[chosen], invoked_us=-20_000, responded_us=-19_000)
    changed = msgspec.structs.replace(run, calls=(early, *calls[:chosen], *calls[chosen + 1 :]))

    assert worst(changed).name.endswith("-realtime")


@pytest.mark.parametrize("function", ["append", "w"])
def test_a_stale_read_is_found_among_many_transactions(function: str) -> None:
    run = SerialExecution(1, function).run(1_000)
    stale = transaction([("r", "k0.0", None)], run.calls[-1].invoked_us + 100_000)

    changed = msgspec.structs.replace(run, calls=(*run.calls, stale))

    anomaly = worst(changed)
    assert (anomaly.name, len(anomaly.cycle)) == ("G-single-realtime", 2)


def test_the_verdict_explains_every_edge_and_names_the_strongest_model() -> None:
    verdict = check_anomalies(LIST_RUNS["G-single"]).verdict

    assert isinstance(verdict, Illegal)
    assert "G-single: cycle T0 → T1 → T0; strongest model left: read committed" in verdict.message
    first, second = (each.observation for each in verdict.counterexample)
    assert first == "T0 (r x []; r y [1]) — rw: T0 read x before T1 appended 1"
    assert second == "T1 (append x 1; append y 1) — wr: T0 read 1 of T1 from y"


def test_a_cycle_of_writes_is_the_worst_of_several_cycles() -> None:
    run = concurrent_run(
        [append("x", 1), append("y", 1)],
        [append("x", 2), append("y", 2)],
        [read_list("x", 1, 2)],
        [read_list("y", 2, 1)],
        [append("u", 1), read_list("v", 1)],
        [read_list("u", 1), append("v", 1)],
    )

    assert [each.name for each in find_anomalies(run)][:2] == ["G0", "G1c"]


def test_a_longer_cycle_is_not_reported_instead_of_a_shorter_one() -> None:
    ring = [
        [append(f"k{index}", 1), append(f"k{(index + 1) % 4}", 2), read_list(f"k{index}", 1)]
        for index in range(4)
    ]
    reads = [[read_list(f"k{index}", 1, 2)] for index in range(4)]
    pair = [[append("a", 1), append("b", 1)], [append("a", 2), append("b", 2)]]
    proof = [[read_list("a", 1, 2)], [read_list("b", 2, 1)]]
    anomaly = worst(concurrent_run(*(each[:2] for each in ring), *reads, *pair, *proof))

    assert (anomaly.name, len(anomaly.cycle)) == ("G0", 2)
    assert {each.kind for each in anomaly.cycle} == {EdgeKind.WW}


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (concurrent_run([append("x", 1)], [append("x", 1)]), "written twice"),
        (concurrent_run([append("x", 1)], [write("x", 2)]), "both a list and a register"),
        (run_of(transaction([("cas", "x", 1)], 0)), "not a micro-operation"),
    ],
)
def test_transactions_that_allow_no_inference_are_not_judged(run: ObservedRun, reason: str) -> None:
    verdict = check_anomalies(run).verdict

    assert isinstance(verdict, Inconclusive)
    assert reason in verdict.reason


RESPONSES = [("append", "x", 1), ("r", "x", (1,))]


@pytest.mark.parametrize(
    "response",
    [
        RESPONSES[:1],
        [*RESPONSES, ("r", "x", (1,))],
        [("append", "x", 2), RESPONSES[1]],
        [("append", "x", True), RESPONSES[1]],
        [("append", "y", 1), RESPONSES[1]],
        [RESPONSES[0], ("w", "x", 1)],
        [RESPONSES[0], 5],
        [],
        None,
        7,
    ],
)
def test_a_response_that_does_not_repeat_its_transaction_is_wrong(response: Any) -> None:
    call = transaction(RESPONSES, 0)
    wrong = msgspec.structs.replace(call, value=response)

    assert find_anomalies(run_of(call)) == []
    assert worst(run_of(wrong)).name == "wrong response"


def test_a_response_that_was_not_recorded_proves_no_read() -> None:
    call = msgspec.structs.replace(transaction(RESPONSES, 0, 5), value=ANY_VALUE)
    stale, fresh = (transaction([("r", "x", seen)], 10) for seen in ((), (1,)))

    assert find_anomalies(run_of(call, fresh)) == []
    assert worst(run_of(call, stale)).name == "lost append"


@pytest.mark.parametrize("value", [1, True, 1.0, "1", None])
def test_values_of_different_types_differ(value: Any) -> None:
    written = transaction([("w", 3, 1)], 0, 5)
    read_later = transaction([("r", 3, value)], 10)
    found = find_anomalies(run_of(written, read_later))

    assert bool(found) == (type(value) is not int)


@pytest.mark.parametrize("value", [3, "text", {"a": 1}])
def test_a_list_that_is_read_as_another_value_is_garbage(value: Any) -> None:
    assert worst(concurrent_run([append("x", 1)], [("r", "x", value)])).name == "garbage read"


def test_every_anomaly_that_can_be_reported_is_planted_in_a_test() -> None:
    planted = {*LIST_RUNS, *REGISTER_RUNS, "G1a", "dirty update", "wrong response"}

    assert planted == set(STRONGEST_MODELS)
