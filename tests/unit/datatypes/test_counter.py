import pytest

from creekdb.datatypes.counter import COUNTER
from creekdb.errors import BadValue
from creekdb.execution.sequential import OperationRaised
from tests.unit.execution.strategies import request


def test_a_counter_starts_at_zero_and_may_fall_below() -> None:
    session = COUNTER.sequential()
    assert session.call("value") == 0
    session.call("decrement", 3)
    session.call("increment")
    assert session.call("value") == -2


def test_adding_a_non_number_raises() -> None:
    session = COUNTER.sequential()
    with pytest.raises(BadValue, match=r"argument 'amount' of increment.* must be an integer"):
        session.call("increment", "one")
    outcome = session.apply(request(COUNTER.call("increment", "one")))
    assert outcome.error is not None
    assert "can only add an int" in outcome.error
    assert session.state == {}


def test_a_counter_stays_within_encodable_integers() -> None:
    session = COUNTER.sequential()
    session.call("increment", 2**63 - 1)
    with pytest.raises(OperationRaised, match="an int beyond 64 bits"):
        session.call("increment")
    assert session.call("value") == 2**63 - 1
