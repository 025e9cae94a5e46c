from random import Random
from typing import Any

import msgspec
import pytest

from creekdb.checkers import Illegal, Inconclusive, Ok, Verdict
from creekdb.checkers.blackbox.linearizability.checker import (
    check_linearizability,
    intervals,
    partition,
)
from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE
from creekdb.checkers.blackbox.linearizability.plain_models import MODELS, get_model
from creekdb.checkers.blackbox.linearizability.search import Finding, search
from creekdb.checkers.blackbox.observations import (
    CallStatus,
    FinalObservation,
    ObservedCall,
    ObservedRun,
)
from creekdb.datatypes import DATATYPES, kv, register
from tests.unit.checkers.blackbox.observed_histories import call, has_some_order, random_history

REGISTER = get_model("register")
KV = get_model("kv")


def verdict(model: str, *calls: ObservedCall, steps_max: int = 100_000) -> Verdict:
    run = ObservedRun(datatype=model, calls=calls)
    return check_linearizability(run, get_model(model), steps_max).verdict


def is_legal(model: str, *calls: ObservedCall) -> bool:
    result = verdict(model, *calls)
    assert not isinstance(result, Inconclusive), result.describe()
    return isinstance(result, Ok)


# --- known histories ----------------------------------------------------------------------------


def test_an_empty_history_is_linearizable() -> None:
    assert is_legal("register")


def test_overlapping_reads_may_see_the_old_and_the_new_value() -> None:
    assert is_legal(
        "register",
        call("a", "write", 1, at=(0, 100)),
        call("b", "read", at=(25, 75), value=1),
        call("c", "read", at=(30, 60), value=None),
    )


def test_a_read_after_a_read_of_the_new_value_must_not_see_the_old_one() -> None:
    assert not is_legal(
        "register",
        call("a", "write", 1, at=(0, 100)),
        call("b", "read", at=(10, 30), value=1),
        call("c", "read", at=(40, 90), value=None),
    )


def test_a_stale_read_is_illegal() -> None:
    assert not is_legal(
        "register",
        call("a", "write", 1, at=(0, 10)),
        call("a", "write", 2, at=(20, 30)),
        call("b", "read", at=(40, 50), value=1),
    )


def test_calls_with_equal_times_overlap() -> None:
    assert is_legal(
        "register",
        call("a", "write", 1, at=(0, 10)),
        call("b", "read", at=(10, 10), value=None),
        call("c", "read", at=(10, 10), value=1),
    )


def test_a_lost_update_is_illegal() -> None:
    assert not is_legal(
        "kv",
        call("a", "increment", "x", at=(0, 10), value=1),
        call("b", "increment", "x", at=(20, 30), value=1),
    )


def test_values_of_other_types_are_other_values() -> None:
    for other in (True, 1.0, "1", (1,)):
        assert not is_legal(
            "register",
            call("a", "write", 1, at=(0, 10)),
            call("b", "read", at=(20, 30), value=other),
        )


def test_an_error_must_be_the_error_of_the_operation() -> None:
    opened = call("a", "open", "ann", 5, at=(0, 10), value=5)
    text = "InsufficientFunds: ann has 5, not 9"
    for error, expected in ((text, True), ("InsufficientFunds: ann has 6, not 9", False)):
        withdrawal = call(
            "a", "withdraw", "ann", 9, at=(20, 30), value=error, status=CallStatus.ERROR
        )
        assert is_legal("bank", opened, withdrawal) is expected


def test_a_call_without_a_response_may_take_effect_late_or_never() -> None:
    write = call("a", "write", 1, at=(0, None))
    early = call("b", "read", at=(10, 20), value=None)
    late = call("b", "read", at=(1000, 1010), value=1)
    assert is_legal("register", write, early)
    assert is_legal("register", write, early, late)
    assert not is_legal(
        "register", write, early, late, call("b", "read", at=(2000, 2010), value=None)
    )


def test_a_call_without_a_response_takes_effect_once() -> None:
    assert not is_legal(
        "kv",
        call("a", "increment", "x", at=(0, None)),
        call("b", "get", "x", at=(10, 20), value=2),
    )


def test_a_call_without_a_response_takes_no_effect_before_its_invocation() -> None:
    assert not is_legal(
        "register",
        call("b", "read", at=(0, 10), value=1),
        call("a", "write", 1, at=(20, None)),
        call("b", "read", at=(30, 40), value=1),
    )


def test_a_rejected_call_takes_no_effect() -> None:
    assert not is_legal(
        "register",
        call("a", "write", 1, at=(0, 5), status=CallStatus.REJECTED, value="busy"),
        call("b", "read", at=(10, 20), value=1),
    )


# --- weak calls ---------------------------------------------------------------------------------


def test_a_weak_update_may_take_effect_after_its_response() -> None:
    write = call("a", "write", 1, at=(0, 1), strong=False)
    assert is_legal(
        "register",
        write,
        call("b", "read", at=(10, 20), value=None),
        call("b", "read", at=(30, 40), value=1),
    )
    assert not is_legal(
        "register",
        write,
        call("b", "read", at=(10, 20), value=1),
        call("b", "read", at=(30, 40), value=None),
    )


def test_a_final_response_bounds_the_time_of_a_weak_update() -> None:
    final = FinalObservation(50, CallStatus.OK, None, changed=False)
    write = call("a", "write", 1, at=(0, 1), strong=False, final=final)
    assert is_legal("register", write, call("b", "read", at=(10, 20), value=None))
    assert not is_legal("register", write, call("b", "read", at=(60, 70), value=None))


def test_a_final_response_must_be_that_of_a_position_in_the_order() -> None:
    for value, expected in ((1, True), (2, False)):
        final = FinalObservation(50, CallStatus.OK, value, changed=True)
        weak = call("a", "increment", "x", at=(0, 1), value=7, strong=False, final=final)
        assert is_legal("kv", weak) is expected


def test_weak_reads_are_not_judged() -> None:
    final = FinalObservation(50, CallStatus.OK, 3, changed=True)
    assert is_legal("register", call("a", "read", at=(0, 1), value=9, strong=False, final=final))


# --- limits -------------------------------------------------------------------------------------


def test_a_search_beyond_its_limit_is_inconclusive() -> None:
    calls = [call(f"c{n}", "append", n, at=(0, 100), value=ANY_VALUE) for n in range(8)]
    result = verdict("list", *calls, call("d", "get_all", at=(200, 300), value=()), steps_max=500)
    assert isinstance(result, Inconclusive)
    assert "9 calls on one object are undecided after 500 steps" in result.reason


def test_an_illegal_object_outranks_an_undecided_one() -> None:
    undecided = [call(f"c{n}", "put", "x", n, at=(0, 100), value=ANY_VALUE) for n in range(12)]
    undecided.append(call("d", "get", "x", at=(200, 300), value=99))
    illegal = call("d", "get", "y", at=(0, 100), value=4)
    result = verdict("kv", *undecided, illegal, steps_max=2000)
    assert isinstance(verdict("kv", *undecided, steps_max=2000), Inconclusive)
    assert isinstance(result, Illegal)
    assert "get y → 4" in result.message


def test_an_unknown_operation_is_inconclusive() -> None:
    result = verdict("kv", call("a", "putt", "x", 1, at=(0, 1)))
    assert isinstance(result, Inconclusive)
    assert "no operation 'putt'; expected one of compare_and_set" in result.reason


# --- objects ------------------------------------------------------------------------------------


def test_calls_are_judged_by_key() -> None:
    calls = [call("a", "put", key, 1, at=(n, n)) for n, key in enumerate("xyxz")]
    assert [len(each) for each in partition(intervals(calls, KV), KV)] == [2, 1, 1]


def test_scans_join_the_keys_that_they_cover() -> None:
    puts = [call("a", "put", key, 1, at=(n, n)) for n, key in enumerate(("ab", "ac", "b", "c"))]
    for scan, expected in (
        (call("a", "scan", "a", at=(9, 9)), [3, 1, 1]),
        (call("a", "scan", at=(9, 9)), [5]),
        (call("a", "scan", "x", at=(9, 9)), [1, 1, 1, 1, 1]),
        (call("a", "range", "ac", "c", at=(9, 9)), [1, 3, 1]),
        (call("a", "scan", 3, at=(9, 9)), [1, 1, 1, 1, 1]),
    ):
        found = partition(intervals([*puts, scan], KV), KV)
        assert [len(each) for each in found] == expected


def test_calls_with_two_keys_join_their_objects() -> None:
    bank = get_model("bank")
    calls = [
        call("a", "deposit", "ann", 1, at=(0, 1)),
        call("a", "deposit", "bob", 1, at=(2, 3)),
        call("a", "transfer", "bob", "cat", 1, at=(4, 5)),
        call("a", "deposit", "cat", 1, at=(6, 7)),
    ]
    assert [len(each) for each in partition(intervals(calls, bank), bank)] == [1, 3]
    total = call("a", "total", at=(8, 9), value=0)
    assert len(partition(intervals([*calls, total], bank), bank)) == 1
    weak_total = msgspec.structs.replace(total, strong=False)
    assert len(partition(intervals([*calls, weak_total], bank), bank)) == 2


# --- random histories ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in DATATYPES if name in MODELS])
@pytest.mark.parametrize("weak_share", [0.0, 0.4])
def test_histories_of_a_linearizable_object_are_linearizable(name: str, weak_share: float) -> None:
    for seed in range(12):
        history = random_history(DATATYPES[name], seed, 40, 4, weak_share=weak_share)
        result = verdict(name, *history, steps_max=10_000)
        assert not isinstance(result, Illegal), (seed, result.describe())
        if weak_share == 0 and name != "list":  # an unknown shuffle has no model
            assert isinstance(result, Ok), (seed, result.describe())


def mutated(random: Random, history: list[ObservedCall]) -> list[ObservedCall]:
    """Return the history with another response to one call."""
    index = random.randrange(len(history))
    values: tuple[Any, ...] = (None, 0, 1, 2, 3, True, False)
    status = random.choice((CallStatus.OK, CallStatus.OK, CallStatus.REJECTED))
    changed = msgspec.structs.replace(
        history[index], value=random.choice(values), status=status, responded_us=10_000
    )
    return [*history[:index], changed, *history[index + 1 :]]


@pytest.mark.parametrize("name", ["register", "kv", "counter", "bank"])
def test_verdicts_on_mutated_histories_are_those_of_trying_every_order(name: str) -> None:
    model, findings = MODELS[name], set()
    for seed in range(150):
        random = Random(seed)
        count = random.randrange(2, 7)
        history = random_history(DATATYPES[name], seed, count, 3, weak_share=0.3)
        calls = intervals(mutated(random, history), model)
        found = search(calls, model, 100_000, model.initial).finding
        assert (found is Finding.LINEARIZABLE) == has_some_order(calls, model), seed
        findings.add(found)
    assert findings == {Finding.LINEARIZABLE, Finding.ILLEGAL}


# --- size ---------------------------------------------------------------------------------------


def draw_single_key_call(random: Random) -> tuple[str, tuple[Any, ...]]:
    operation, count = random.choice(
        (("get", 0), ("put", 1), ("increment", 1), ("compare_and_set", 2))
    )
    values = [random.randrange(5) for _ in range(count)]
    return operation, (f"key {random.randrange(20)}", *values)


def test_ten_thousand_calls_take_few_steps_per_call() -> None:
    history = random_history(kv.KV, 1, 10_000, 10, draw_single_key_call)
    steps = 0
    for calls in partition(intervals(history, KV), KV):
        result = search(calls, KV, 100_000, KV.initial)
        assert result.finding is Finding.LINEARIZABLE
        steps += result.steps
    assert steps < 60_000


def test_a_long_history_of_one_register_takes_few_steps_per_call() -> None:
    history = random_history(register.REGISTER, 2, 3_000, 5)
    result = search(intervals(history, REGISTER), REGISTER, 100_000, REGISTER.initial)
    assert result.finding is Finding.LINEARIZABLE
    assert result.steps < 90_000
