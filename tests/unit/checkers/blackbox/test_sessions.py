"""Guarantees of sessions: known-good, known-bad and mutated runs."""

from typing import Any

import msgspec
import pytest

from creekdb.checkers import Illegal, Ok
from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall, ObservedRun
from creekdb.checkers.blackbox.sessions import check_sessions
from tests.unit.checkers.blackbox.kv_runs import call, kv_run, serial_run


def put(client: str, at_us: int, key: str, **options: Any) -> ObservedCall:
    return call(client, at_us, "put", key, at_us + 1, **options)


def scan(client: str, at_us: int, *writes: ObservedCall, **options: Any) -> ObservedCall:
    """Return a scan that shows exactly these puts."""
    value = tuple(each.arguments for each in writes)
    return call(client, at_us, "scan", "k", value=value, **options)


FIRST, SECOND = put("a", 0, "k1"), put("a", 10, "k2")
WEAK_FIRST, WEAK_SECOND = put("a", 0, "k1", strong=False), put("a", 10, "k2", strong=False)
OTHER = put("b", 0, "k3")


@pytest.mark.parametrize("seed", range(20))
def test_serial_executions_satisfy_every_guarantee(seed: int) -> None:
    assert check_sessions(serial_run(seed)) == Ok("sessions")


@pytest.mark.parametrize(
    ("calls", "guarantee"),
    [
        ((FIRST, call("a", 20, "get", "k1")), "read your writes"),
        ((WEAK_FIRST, call("a", 20, "get", "k1", strong=False)), "read your writes"),
        ((WEAK_FIRST, scan("a", 20, strong=False)), "read your writes"),
        ((OTHER, scan("a", 20, OTHER), scan("a", 30)), "monotonic reads"),
        ((OTHER, scan("a", 20, OTHER), call("a", 30, "get", "k3")), "monotonic reads"),
        ((FIRST, SECOND, scan("c", 30, SECOND)), "monotonic writes"),
        ((WEAK_FIRST, SECOND, scan("c", 30, SECOND)), "monotonic writes"),
        ((OTHER, scan("a", 3, OTHER), SECOND, scan("c", 30, SECOND)), "writes follow reads"),
        ((OTHER, scan("a", 3, OTHER), WEAK_SECOND, scan("c", 30, WEAK_SECOND)), "writes follow"),
        ((scan("c", 0, SECOND), SECOND), "causality"),
    ],
)
def test_each_violated_guarantee_is_named(calls: tuple[ObservedCall, ...], guarantee: str) -> None:
    verdict = check_sessions(kv_run(*calls))

    assert isinstance(verdict, Illegal)
    assert verdict.message.startswith(guarantee)
    assert verdict.counterexample


@pytest.mark.parametrize(
    "calls",
    [
        # A tentative response may lack writes of others that an earlier one contained.
        (OTHER, scan("a", 20, OTHER, strong=False), scan("a", 30, strong=False)),
        (OTHER, scan("a", 20, OTHER, strong=False), scan("a", 30)),
        (OTHER, scan("a", 20, OTHER), scan("a", 30, strong=False)),
        # Two weak writes of a session may change their order.
        (WEAK_FIRST, WEAK_SECOND, scan("c", 30, WEAK_SECOND)),
        # A tentative response of another session may lack the first of two writes.
        (FIRST, SECOND, scan("c", 30, SECOND, strong=False)),
        # The write has no response, or not before the read begins.
        (put("a", 0, "k1", status=CallStatus.UNKNOWN), scan("a", 20)),
        (FIRST, scan("a", 5)),
        (FIRST, scan("b", 20)),
        # The key is written more than once.
        (FIRST, put("b", 0, "k1"), call("a", 20, "get", "k1", value=1)),
    ],
)
def test_weaker_orders_that_creek_permits_are_no_violations(
    calls: tuple[ObservedCall, ...],
) -> None:
    assert check_sessions(kv_run(*calls)) == Ok("sessions")


def increment(client: str, at_us: int, value: int, **options: Any) -> ObservedCall:
    return call(client, at_us, "increment", "n", value=value, **options)


@pytest.mark.parametrize("strong", [True, False])
def test_a_counter_includes_the_own_increments(strong: bool) -> None:
    calls = increment("a", 0, 1, strong=strong), increment("a", 10, 2, strong=strong)

    assert check_sessions(kv_run(*calls, call("a", 20, "get", "n", value=2))) == Ok("sessions")
    for stale in (
        call("a", 20, "get", "n", value=1, strong=False),
        call("a", 20, "get", "n"),
        increment("a", 20, 2),
        call("a", 20, "scan", "", value=(("n", 1),)),
        call("a", 20, "scan", "", value=()),
    ):
        verdict = check_sessions(kv_run(*calls, stale))
        assert isinstance(verdict, Illegal)
        assert verdict.message.startswith("read your writes")


def test_stable_reads_of_a_counter_do_not_decrease() -> None:
    calls = [increment("a", 0, 1), call("b", 10, "get", "n", value=1)]

    verdict = check_sessions(kv_run(*calls, call("b", 20, "get", "n", value=0)))
    assert isinstance(verdict, Illegal)
    assert verdict.message.startswith("monotonic reads")
    weak = call("b", 20, "get", "n", value=0, strong=False)
    assert check_sessions(kv_run(*calls, weak)) == Ok("sessions")


def mutated(run: ObservedRun, index: int, value: Any) -> ObservedRun:
    calls = list(run.calls)
    calls[index] = msgspec.structs.replace(calls[index], value=value)
    return msgspec.structs.replace(run, calls=tuple(calls))


@pytest.mark.parametrize("seed", range(10))
def test_a_write_deleted_from_the_last_own_read_is_found(seed: int) -> None:
    run = serial_run(seed)
    own = next(c for c in run.calls if c.operation == "put" and c.status is CallStatus.OK)
    read = call(own.client, 10_000, "get", own.arguments[0], value=own.arguments[1])
    extended = msgspec.structs.replace(run, calls=(*run.calls, read))

    assert check_sessions(extended) == Ok("sessions")
    assert isinstance(check_sessions(mutated(extended, len(run.calls), None)), Illegal)


@pytest.mark.parametrize("value", ["2", 2.5, True])
def test_a_counter_that_is_no_integer_is_a_wrong_response(value: Any) -> None:
    verdict = check_sessions(kv_run(increment("a", 0, 1), increment("b", 10, value)))

    assert isinstance(verdict, Illegal)
    assert f"it was read as {value!r}" in verdict.message


@pytest.mark.parametrize(
    "wrong",
    [
        call("b", 10, "put"),
        call("b", 10, "put", "k1"),
        call("b", 10, "put", 1, 2),
        call("b", 10, "put", [], 2),
        call("b", 10, "increment", 1),
        call("b", 10, "get", {}),
        call("b", 10, "scan", 1, value=()),
        call("b", 10, "scan", "k", value=ANY_VALUE),
        call("b", 10, "scan", value=((1, 2),)),
    ],
)
def test_calls_without_a_text_as_key_are_not_judged(wrong: ObservedCall) -> None:
    assert check_sessions(kv_run(FIRST, wrong, increment("a", 20, 1))) == Ok("sessions")
