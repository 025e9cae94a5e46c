from random import Random

import msgspec
import pytest

from creekdb.checkers.blackbox.linearizability.checker import check_linearizability, intervals
from creekdb.checkers.blackbox.linearizability.counterexample import Counterexample, call_text
from creekdb.checkers.blackbox.linearizability.plain_models import get_model
from creekdb.checkers.blackbox.linearizability.search import Finding, search
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall, ObservedRun
from creekdb.datatypes.register import REGISTER
from tests.unit.checkers.blackbox.observed_histories import call, random_history


def counterexample(model: str, *calls: ObservedCall) -> Counterexample:
    run = ObservedRun(datatype=model, calls=calls)
    found = check_linearizability(run, get_model(model)).counterexample
    assert found is not None
    return found


def texts(found: Counterexample) -> list[str]:
    return [call_text(each) for each in found.calls]


def test_a_stale_read_in_a_long_history_leaves_two_calls() -> None:
    calls = [call("a", "write", n, at=(20 * n, 20 * n + 10)) for n in range(100)]
    calls[60:] = [
        *(call("b", "read", at=(20 * n, 20 * n + 10), value=59) for n in range(60, 70)),
        call("b", "read", at=(1500, 1510), value=7),
        *(call("b", "read", at=(20 * n, 20 * n + 10), value=59) for n in range(80, 100)),
    ]
    found = counterexample("register", *calls)
    assert texts(found) == ["read → 59", "read → 7"]
    assert found.blocked is found.calls[-1]
    assert (len(found.states), found.omitted) == (61, 69)


def test_a_value_that_was_never_written_leaves_one_call() -> None:
    calls = [call("a", "write", n, at=(20 * n, 20 * n + 10)) for n in range(5)]
    found = counterexample("register", *calls, call("b", "read", at=(200, 210), value=9))
    assert texts(found) == ["read → 9"]
    assert found.states_text() == "0 or 1 or 2 or 3 or 2 more"


def test_updates_that_explain_a_read_are_kept() -> None:
    found = counterexample(
        "kv",
        call("a", "increment", "x", at=(0, 50), value=1),
        call("b", "increment", "x", at=(0, 50), value=2),
        call("c", "get", "x", at=(10, 20), value=2),
        call("c", "get", "x", at=(30, 40), value=1),
        call("c", "get", "x", at=(60, 70), value=2),
    )
    assert found.blocked is not None
    assert call_text(found.blocked) == "get x → 1"
    assert "get x → 2" in texts(found)
    assert texts(found).count("get x → 2") == 1


def test_later_responses_are_forgotten() -> None:
    found = counterexample(
        "register",
        call("a", "write", 1, at=(0, 10)),
        call("b", "write", 2, at=(15, 100)),
        call("c", "read", at=(20, 30), value=3),
    )
    assert texts(found) == ["write 2 → ?", "read → 3"]


def test_responses_after_the_end_of_a_counterexample_are_forgotten() -> None:
    found = counterexample(
        "register",
        call("a", "write", 1, at=(0, 10)),
        call("b", "read", at=(20, 30), value=3),
        call("c", "write", 2, at=(25, 100)),
    )
    assert texts(found) == ["read → 3", "write 2 → ?"]


def test_reads_that_other_calls_explain_are_removed() -> None:
    found = counterexample(
        "register",
        call("a", "write", 1, at=(0, 10)),
        call("b", "read", at=(20, 30), value=3),
        call("c", "read", at=(22, 25), value=1),
    )
    assert texts(found) == ["read → 3"]


@pytest.mark.parametrize("seed", range(20))
def test_counterexamples_are_illegal_from_each_of_their_states(seed: int) -> None:
    model, random = get_model("register"), Random(seed)
    history = random_history(REGISTER, seed, 60, 4)
    reads = [n for n, each in enumerate(history) if each.operation == "read" and each.has_response]
    chosen = random.choice(reads)
    history[chosen] = msgspec.structs.replace(history[chosen], value=-1)
    found = counterexample("register", *history)
    assert all(
        search(found.calls, model, 100_000, state).finding is Finding.ILLEGAL
        for state in found.states
    )
    whole = intervals(history, model)
    assert {each.source.invoked_us for each in found.calls} <= {each.start_us for each in whole}


def test_errors_and_missing_responses_are_named() -> None:
    calls = [
        call("a", "withdraw", "ann", 5, at=(0, 1), status=CallStatus.ERROR, value="no funds"),
        call("a", "deposit", "ann", 5, at=(0, None)),
    ]
    found = [call_text(each) for each in intervals(calls, get_model("bank"))]
    assert found == ["withdraw ann 5 → error no funds", "deposit ann 5 → ?"]
