from random import Random
from typing import Any

import pytest

from creekdb.checkers.blackbox.linearizability.models import (
    ANY_VALUE,
    IMPOSSIBLE,
    NotModelled,
    Registers,
    Value,
)
from creekdb.checkers.blackbox.linearizability.plain_models import MODELS, get_model
from creekdb.checkers.blackbox.observations import CallStatus
from creekdb.datatypes import DATATYPES, SAMPLERS
from creekdb.errors import UnknownName
from tests.unit.checkers.blackbox.observed_histories import execute_unchecked

# Row ids of SQL derive from the request, which a client does not observe.
MODELLED = tuple(name for name in DATATYPES if name != "sql")


@pytest.mark.parametrize("name", MODELLED)
def test_models_accept_exactly_the_responses_of_their_data_type(name: str) -> None:
    model, machine, random = MODELS[name], DATATYPES[name].sequential(), Random(3)
    state = model.initial
    for _ in range(600):
        operation, arguments = SAMPLERS[name](random)
        status, value = execute_unchecked(machine, operation, arguments)
        for other in (CallStatus.OK, "another value"), (CallStatus.ERROR, "Error: another"):
            assert model.step(state, operation, arguments, *other) is IMPOSSIBLE
        after = model.step(state, operation, arguments, status, value)
        assert after is not IMPOSSIBLE, (operation, arguments, value)
        if operation in model.readonly or status is CallStatus.ERROR:
            assert after == state
        state = after


@pytest.mark.parametrize("name", MODELLED)
def test_models_have_every_operation_of_their_data_type(name: str) -> None:
    model, datatype = MODELS[name], DATATYPES[name]
    assert {each for each in datatype.operations if datatype.is_readonly(each)} <= model.readonly
    for operation in datatype.operations:
        arguments = (0,) * datatype.arity(operation).minimum
        assert model.step(model.initial, operation, arguments, CallStatus.UNKNOWN, None) is not None


def register(state: Any, operation: str, *arguments: Any, value: Any = ANY_VALUE) -> Any:
    after = get_model("register").step(Value(state), operation, arguments, CallStatus.OK, value)
    return after if after is IMPOSSIBLE else after.value


def test_compare_and_set_of_the_register() -> None:
    assert register(1, "cas", 1, 2, value=True) == 2
    assert register(1, "cas", 3, 2, value=False) == 1
    assert register(1, "cas", 1, 2, value=False) is IMPOSSIBLE
    assert register(1, "cas", True, 2, value=True) is IMPOSSIBLE


def test_a_shuffle_reveals_its_state() -> None:
    step = get_model("list").step
    assert step(Value((1, 2)), "shuffle", (), CallStatus.OK, (2, 1)) == Value((2, 1))
    assert step(Value((1, 2)), "shuffle", (), CallStatus.OK, (2, 2)) is IMPOSSIBLE
    assert step(Value((1,)), "shuffle", (), CallStatus.UNKNOWN, None) == Value((1,))
    with pytest.raises(NotModelled, match="unknown order"):
        step(Value((1, 2)), "shuffle", (), CallStatus.UNKNOWN, None)


def test_an_absent_text_is_empty() -> None:
    model = get_model("text-kv")
    state = model.step(model.initial, "append", ("x", "ab"), CallStatus.OK, ANY_VALUE)
    assert model.step(state, "get", ("x",), CallStatus.OK, "ab") is state
    assert model.step(state, "get", ("y",), CallStatus.OK, "") is state
    assert model.step(state, "get", ("y",), CallStatus.OK, None) is IMPOSSIBLE


@pytest.mark.parametrize(
    ("operation", "arguments", "value", "after"),
    [
        ("put", (7, "new"), "old", {7: "new", "7": 1}),
        ("delete", (7,), "old", {"7": 1}),
        ("get", (7,), "old", {7: "old", "7": 1}),
        ("get", (8,), None, {7: "old", "7": 1}),
        ("increment", (8,), 1, {7: "old", 8: 1, "7": 1}),
    ],
)
def test_an_integer_is_another_key_than_its_text(
    operation: str, arguments: tuple[Any, ...], value: Any, after: dict[Any, Any]
) -> None:
    model, state = get_model("kv"), Registers({7: "old", "7": 1})

    assert model.step(state, operation, arguments, CallStatus.OK, value) == Registers(after)
    assert model.step(state, operation, arguments, CallStatus.UNKNOWN, None) == Registers(after)
    assert model.step(state, operation, arguments, CallStatus.OK, "other") is IMPOSSIBLE
    assert model.keys(operation, arguments) == frozenset(arguments[:1])


def test_an_integer_as_key_has_an_error_response_in_creek() -> None:
    model, error = get_model("kv"), "TypeError: the key must be a str, not a int"

    assert model.step(model.initial, "put", (7, 1), CallStatus.ERROR, error) == model.initial


def test_scans_of_integers_are_not_modelled() -> None:
    model = get_model("kv")
    with pytest.raises(NotModelled, match="no defined order"):
        model.step(model.initial, "scan", (), CallStatus.OK, ((7, 1),))


def test_wrong_calls_are_not_modelled() -> None:
    with pytest.raises(NotModelled, match="no operation 'inc'; expected one of cas, noop, read"):
        register(0, "inc")
    with pytest.raises(NotModelled, match="'write' does not take the arguments"):
        register(0, "write")


def test_an_unknown_model_is_reported() -> None:
    with pytest.raises(UnknownName, match=r"unknown model 'regster': .*did you mean 'register'"):
        get_model("regster")
