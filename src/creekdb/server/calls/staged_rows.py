"""Admission of staged rows: their arguments are checked here, as those of single calls are.

A client that keeps rejected rows stages them, too. A row with arguments that the operation does not
accept is then part of the chunk, with the error. Otherwise the whole chunk is rejected.
"""

from collections.abc import Sequence
from typing import Any

from creekdb.errors import BadValue, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.serializable import describe_unserializable, reject_unserializable
from creekdb.protocol.request import Operation
from creekdb.wire.deduplication import INTERNAL_PREFIX
from creekdb.wire.messages import CallRequest
from creekdb.wire.sink_ledgers import Rows, describe_row
from creekdb.wire.staging import LOAD, STAGE, describe_bad_arguments


def called_rows(request: CallRequest) -> tuple[str, tuple[Any, ...], Rows] | None:
    """Return the operation, leading arguments and rows of a call, if it carries rows."""
    match request.operation, request.arguments:
        case (operation, (_, _, str(name), tuple(leading), tuple(rows), *_)) if operation == STAGE:
            return name, leading, rows
        case (operation, (str(name), tuple(leading), tuple(rows))) if operation == LOAD:
            return name, leading, rows
    return None


def resolve_staging(datatype: DataType, request: CallRequest) -> Operation:
    """Return the operation of a call. Raise `UsageError` with the reason for a rejection."""
    name, arguments = request.operation, request.arguments
    keeps_rejected = False
    if name == STAGE:
        keeps_rejected, arguments = arguments[-1:] == (True,), arguments[:-1]
    operation = Operation(name, arguments)
    problem = describe_bad_arguments(operation)
    if problem is not None:
        raise BadValue(f"{name}: {problem}")
    called = called_rows(request)
    reject_unserializable(arguments[5:] if called else arguments, f"a call of {name}")
    if called is None:
        return operation
    if called[0].startswith(INTERNAL_PREFIX):
        raise BadValue(f"'{called[0]}' cannot be called for rows")
    checked, rejected = _checked_rows(datatype, *called, keeps_rejected)
    if name == LOAD:
        return Operation(LOAD, (*operation.arguments[:2], checked))
    return Operation(
        STAGE, (*operation.arguments[:4], checked, (*operation.arguments[5], *rejected))
    )


def _checked_rows(
    datatype: DataType, name: str, leading: tuple[Any, ...], rows: Rows, keeps_rejected: bool
) -> tuple[Rows, Sequence[tuple[Any, ...]]]:
    """Return the rows with the annotated types, and the rows that do not have them, with errors."""
    checked: list[tuple[Any, ...]] = []
    rejected: list[tuple[Any, ...]] = []
    start = len(leading)
    datatype.is_readonly(name)  # an unknown operation is not an error of a row
    for number, row in enumerate(rows, 1):
        try:
            checked.append(datatype.checked_arguments(name, leading + row)[start:])
        except UsageError as error:
            if not keeps_rejected:
                raise BadValue(f"{error} (row {number}: {describe_row(row)})") from None
            is_sendable = describe_unserializable(row) is None
            rejected.append((row if is_sendable else (repr(row),), str(error)))
    return tuple(checked), rejected
