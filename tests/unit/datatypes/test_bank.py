from typing import Any

import pytest

from creekdb.datatypes.bank import BANK
from creekdb.errors import BadValue
from creekdb.execution.sequential import OperationRaised, Sequential
from tests.unit.execution.strategies import request


@pytest.fixture
def session() -> Sequential:
    opened = BANK.sequential()
    opened.call("open", "ann", 100)
    return opened


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("open", ("ann", 1), "ValueError: ann has an account already"),
        ("open", ("bob", -1), "ValueError: the amount must be a whole number from 0, not -1"),
        ("deposit", ("bob", 1), "LookupError: bob has no account"),
        ("withdraw", ("ann", 101), "InsufficientFunds: ann has 100, not 101"),
        ("withdraw", ("ann", -5), "ValueError: the amount must be a whole number from 0, not -5"),
        ("close", ("bob",), "LookupError: bob has no account"),
        ("balance", ("bob",), "LookupError: bob has no account"),
        (
            "accrue",
            (-101,),
            "ValueError: the rate must be a whole number of percent from -100, not -101",
        ),
    ],
)
def test_invalid_operations_raise(
    session: Sequential, name: str, arguments: tuple[Any, ...], error: str
) -> None:
    with pytest.raises(OperationRaised) as raised:
        session.call(name, *arguments)
    assert str(raised.value) == error
    assert session.state == {("account", "ann"): 100}


def test_an_amount_of_another_type_is_rejected(session: Sequential) -> None:
    with pytest.raises(BadValue, match=r"argument 'amount' of deposit.* must be an integer"):
        session.call("deposit", "ann", "much")
    outcome = session.apply(request(BANK.call("deposit", "ann", "much")))
    assert outcome.error == "ValueError: the amount must be a whole number from 0, not 'much'"


def test_a_transfer_to_a_missing_account_changes_nothing(session: Sequential) -> None:
    with pytest.raises(OperationRaised, match="LookupError: bob has no account"):
        session.call("transfer", "ann", "bob", 10)
    assert session.call("balance", "ann") == 100


def test_a_transfer_to_the_same_account_changes_nothing(session: Sequential) -> None:
    assert session.call("transfer", "ann", "ann", 60) == (100, 100)
    assert session.call("total") == 100


def test_interest_depends_on_earlier_deposits(session: Sequential) -> None:
    session.call("deposit", "ann", 50)
    assert session.call("accrue", 10) == 165
    assert session.call("accrue", -100) == 0


def test_a_closed_account_can_be_opened_again(session: Sequential) -> None:
    assert session.call("close", "ann") == 100
    assert session.state == {}
    assert session.call("open", "ann") == 0
