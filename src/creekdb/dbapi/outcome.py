"""Outcome of a statement or transaction: tentative until its position in the order is final."""

from enum import StrEnum
from typing import Any, NamedTuple

from creekdb.client.blocking import BlockingCall
from creekdb.client.errors import CallFailed, OperationFailed
from creekdb.dbapi.errors import Error, call_error, operation_error
from creekdb.protocol.effects import ResponseKind
from creekdb.sql.result import SqlResult


class OutcomeState(StrEnum):
    """Relation of the last response to the first one."""

    TENTATIVE = "tentative"
    """The first response may still change. A weak query stays in this state."""
    STABLE = "stable"
    """The first response is final."""
    CHANGED = "changed"
    """The final response differs from the first one."""


class Outcome(NamedTuple):
    """Last response to a statement or transaction."""

    state: OutcomeState
    result: SqlResult | None = None
    """Last result of a statement; None for a transaction, or if the operation failed."""
    error: Error | None = None
    """Error of the last response."""


def latest_outcome(call: BlockingCall[Any], wait: bool) -> Outcome:
    """Return the last response to a call. `wait` waits for the final one, if there is one."""
    if wait and not call.is_complete:
        try:
            call.final  # noqa: B018 - waits
        except OperationFailed:
            pass  # the final response is an error
        except CallFailed as error:
            raise call_error(error) from error
    response = call.latest
    if response is None:
        return Outcome(OutcomeState.TENTATIVE)
    state = OutcomeState.STABLE
    if response.kind == ResponseKind.TENTATIVE:
        state = OutcomeState.TENTATIVE
    elif response.changed:
        state = OutcomeState.CHANGED
    if response.error is not None:
        return Outcome(state, error=operation_error(response.error))
    value = response.value
    return Outcome(state, SqlResult.from_value(value) if isinstance(value, dict) else None)
