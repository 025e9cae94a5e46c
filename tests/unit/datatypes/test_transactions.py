"""Transactions on lists and registers."""

from random import Random
from typing import Any

import pytest

from creekdb.checkers import Ok
from creekdb.checkers.blackbox.anomalies.checker import check_anomalies
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall, ObservedRun
from creekdb.datatypes.transactions import TRANSACTIONS, sample
from tests.unit.execution.strategies import request


def test_a_transaction_reads_its_own_writes() -> None:
    session = TRANSACTIONS.sequential()
    session.call("run", ("append", "x", 1), ("w", "y", 1))

    response = session.call(
        "run", ("append", "x", 2), ("r", "x", None), ("w", "y", 2), ("r", "y", None)
    )

    assert [value for name, _, value in response if name == "r"] == [(1, 2), 2]


@pytest.mark.parametrize(
    "failing", [("append", "x", 3), ("increment", "z", 1), ("r", 5, None), ("r", "x")]
)
def test_a_transaction_that_fails_has_no_effect(failing: Any) -> None:
    session = TRANSACTIONS.sequential()
    session.call("run", ("w", "x", 1))

    failed = session.apply(request(TRANSACTIONS.call("run", ("w", "x", 2), failing)))

    assert failed.error is not None

    assert session.state == {"x": 1}


def test_sampled_transactions_that_are_executed_one_by_one_have_no_anomaly() -> None:
    random, session = Random(5), TRANSACTIONS.sequential()
    calls = []
    for number in range(200):
        operation, arguments = sample(random)
        calls.append(
            ObservedCall(
                client="c",
                operation=operation,
                arguments=arguments,
                invoked_us=10 * number,
                responded_us=10 * number + 5,
                status=CallStatus.OK,
                value=session.call(operation, *arguments),
            )
        )

    verdict, _ = check_anomalies(ObservedRun(datatype="transactions", calls=tuple(calls)))
    assert isinstance(verdict, Ok)
