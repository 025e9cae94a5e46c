import pytest

from creekdb.checkers.blackbox.linearizability.models import (
    ANY_VALUE,
    IMPOSSIBLE,
    NotModelled,
    Registers,
    datatype_model,
)
from creekdb.checkers.blackbox.observations import CallStatus
from creekdb.datatypes import DataType
from creekdb.datatypes.kv import KV
from creekdb.execution.transaction import Transaction


def test_states_with_values_of_other_types_are_other_states() -> None:
    states = [Registers({"x": value}) for value in (1, True, 1.0, "1", b"1", (1,), {"a": 1}, None)]
    assert len(set(states)) == len(states)
    assert Registers({"x": {"a": 1, "b": 2}}) == Registers({"x": {"b": 2, "a": 1}})
    assert Registers({"x": 1, "y": 2}) == Registers({"y": 2, "x": 1})


def test_a_step_does_not_change_its_state() -> None:
    model = datatype_model(KV)
    before = Registers({"x": 1})
    after = model.step(before, "put", ("x", 2), CallStatus.OK, 1)
    assert (before.registers, after.registers) == ({"x": 1}, {"x": 2})


def test_an_error_has_no_effect() -> None:
    model = datatype_model(KV)
    before = Registers({"x": "text"})
    assert model.step(before, "increment", ("x",), CallStatus.ERROR, ANY_VALUE) is before
    assert model.step(before, "increment", ("x",), CallStatus.OK, ANY_VALUE) is IMPOSSIBLE


def test_a_response_that_was_not_recorded_fits_every_value() -> None:
    model = datatype_model(KV)
    state = Registers({"x": 1})
    assert model.step(state, "get", ("x",), CallStatus.OK, ANY_VALUE) is state
    assert model.step(state, "get", ("x",), CallStatus.UNKNOWN, None) is state
    assert model.step(state, "get", ("x",), CallStatus.OK, None) is IMPOSSIBLE


def test_operations_that_use_hidden_inputs_are_not_modelled() -> None:
    clock = DataType("clock")

    @clock.operation
    def now(tx: Transaction) -> int:
        return tx.timestamp

    @clock.operation
    def roll(tx: Transaction) -> int:
        return tx.random.randrange(6)

    model = datatype_model(clock)
    for operation in ("now", "roll"):
        with pytest.raises(NotModelled, match=f"'{operation}' uses its timestamp or random"):
            model.step(model.initial, operation, (), CallStatus.OK, 3)
