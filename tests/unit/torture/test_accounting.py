"""Acknowledged calls compared with the final state."""

from typing import Any

import pytest

from creekdb.checkers import Illegal, Ok
from creekdb.torture.accounting import check_accounts
from creekdb.torture.clients import CallRecord, CallStatus


def record(operation: str, status: CallStatus, *arguments: Any) -> CallRecord:
    return CallRecord("c", operation, arguments, False, 0.0, 0.1, status, None)


PUT = record("put", CallStatus.OK, "c put 5", 5)
REJECTED_PUT = record("put", CallStatus.REJECTED, "c put 6", 6)
UNKNOWN_PUT = record("put", CallStatus.UNKNOWN, "c put 7", 7)
INCREMENT = record("increment", CallStatus.OK, "c count")
UNKNOWN_INCREMENT = record("increment", CallStatus.UNKNOWN, "c count")


@pytest.mark.parametrize("state", [{"c put 5": 5}, {"c put 5": 5, "c put 7": 7}])
def test_calls_of_unknown_outcome_may_be_executed_or_not(state: dict[str, int]) -> None:
    assert isinstance(check_accounts([PUT, REJECTED_PUT, UNKNOWN_PUT], state), Ok)


@pytest.mark.parametrize(
    ("records", "state", "message"),
    [
        ([PUT], {}, "acknowledged"),
        ([PUT], {"c put 5": 4}, "acknowledged"),
        ([REJECTED_PUT], {"c put 6": 6}, "rejected"),
        ([INCREMENT, INCREMENT], {"c count": 1}, "the final count is 1"),
        ([INCREMENT, UNKNOWN_INCREMENT], {"c count": 3}, "the final count is 3"),
    ],
)
def test_lost_duplicated_and_rejected_calls_are_reported(
    records: list[CallRecord], state: dict[str, int], message: str
) -> None:
    verdict = check_accounts(records, state)

    assert isinstance(verdict, Illegal)
    assert message in verdict.message


@pytest.mark.parametrize("count", [1, 2])
def test_an_increment_of_unknown_outcome_counts_at_most_once(count: int) -> None:
    verdict = check_accounts([INCREMENT, UNKNOWN_INCREMENT], {"c count": count})

    assert isinstance(verdict, Ok)
