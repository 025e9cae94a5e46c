import traceback

import pytest

from creekdb.errors import BadValue, UnknownName
from creekdb.execution.sequential import OperationRaised
from creekdb.protocol.request import Operation, Outcome
from tests.unit.execution.strategies import SCRIPT, request


def test_apply_changes_the_state_and_returns_the_outcome() -> None:
    machine = SCRIPT.sequential()
    steps = (("put", "a", 1), ("put", "b", 2), ("delete", "a", 0), ("get", "b", 0))
    assert machine.apply(request(SCRIPT.call("play", steps))) == Outcome((2,))
    assert machine.state == {"b": 2}


def test_an_operation_that_raises_does_not_change_the_state() -> None:
    machine = SCRIPT.sequential()
    steps = (("put", "a", 1), ("raise", "a", 4))
    assert machine.apply(request(SCRIPT.call("play", steps))) == Outcome(error="ValueError: step 4")
    assert machine.state == {}


def test_an_unknown_operation_is_an_outcome_of_apply_and_an_error_of_call() -> None:
    machine = SCRIPT.sequential()
    assert machine.apply(request(Operation("fly"))).error is not None
    with pytest.raises(UnknownName):
        machine.call("fly")
    with pytest.raises(BadValue):
        machine.call("play")


def test_call_returns_the_value_or_raises_the_error() -> None:
    machine = SCRIPT.sequential()
    assert machine.call("play", (("put", "a", 1),)) == ()
    assert machine.call("play", (("get", "a", 0),)) == (1,)
    with pytest.raises(OperationRaised, match="ValueError: step 3"):
        machine.call("play", (("raise", "a", 3),))


def test_the_cause_of_a_raised_error_is_the_exception_of_the_operation() -> None:
    machine = SCRIPT.sequential()
    with pytest.raises(OperationRaised) as raised:
        machine.call("play", (("raise", "a", 3),))
    assert (raised.value.error, raised.value.message) == ("ValueError", "step 3")
    cause = raised.value.__cause__
    assert isinstance(cause, ValueError)
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "play"
    assert SCRIPT.error_observer is None


def test_two_machines_share_no_state() -> None:
    first, second = SCRIPT.sequential(), SCRIPT.sequential()
    first.call("play", (("put", "a", 1),))
    assert second.state == {}
