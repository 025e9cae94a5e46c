"""Exceptions of PEP 249, each with an SQLSTATE, and their relation to the errors of a cluster.

Warning
Error
├── InterfaceError              wrong use of this module
└── DatabaseError
    ├── DataError               value that a column or parameter cannot hold
    ├── OperationalError        no replica, no response in time, or another cause outside
    │   └── SerializationFailure    concurrent operations; retry the transaction
    ├── IntegrityError          violated constraint
    ├── InternalError
    ├── ProgrammingError        syntax error, unknown name, wrong number of parameters
    └── NotSupportedError       statement that Creek refuses
"""

import re
from typing import Final

from creekdb.client.errors import CallFailed, NotDone, OperationFailed, Unknown
from creekdb.errors import CreekError
from creekdb.wire.reject_reason import RejectReason, reject_rule


class Warning(Exception):
    """Important warning. This module raises none."""


class Error(CreekError):
    """Base class of all errors of this module."""

    sqlstate: str = "HY000"
    """Five characters of the SQL standard that classify the error."""

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        if sqlstate is not None:
            self.sqlstate = sqlstate

    @property
    def is_retryable(self) -> bool:
        """True if the same transaction may succeed when the program executes it again."""
        return self.sqlstate in RETRYABLE_SQLSTATES


class InterfaceError(Error):
    """Wrong use of this module."""


class DatabaseError(Error):
    """Error of the database."""


class DataError(DatabaseError):
    """Value that a column, a parameter or the response cannot hold."""

    sqlstate = "22000"


class OperationalError(DatabaseError):
    """Failure that the statement itself did not cause."""


class SerializationFailure(OperationalError):
    """Transaction that concurrent operations have overtaken. It had no effect; retry it."""

    sqlstate = "40001"


class IntegrityError(DatabaseError):
    """Violated constraint."""

    sqlstate = "23000"


class InternalError(DatabaseError):
    """Error in the database itself."""


class ProgrammingError(DatabaseError):
    """Statement that is wrong, or names something that does not exist."""

    sqlstate = "42000"


class NotSupportedError(DatabaseError):
    """Statement that Creek refuses."""

    sqlstate = "0A000"


UNREACHABLE_SQLSTATE: Final = "08006"
BUSY_SQLSTATE: Final = "53000"
TOO_LARGE_SQLSTATE: Final = "54000"
TOKEN_SQLSTATE: Final = "28000"
REJECTED_SQLSTATE: Final = "08004"
DIFFERENT_CODE_SQLSTATE: Final = "55000"
UNKNOWN_OUTCOME_SQLSTATE: Final = "08007"
DUPLICATE_SQLSTATE: Final = "42P07"
RETRYABLE_SQLSTATES: Final = frozenset(("40001", UNREACHABLE_SQLSTATE, BUSY_SQLSTATE))

_CLASSES: Final[dict[str, type[DatabaseError]]] = {
    "SqlSyntaxError": ProgrammingError,
    "SqlUnknownName": ProgrammingError,
    "SqlConstraintError": IntegrityError,
    "SqlTypeError": DataError,
    "SqlParameterError": ProgrammingError,
    "SqlSerializationError": SerializationFailure,
    "SqlUnsupported": NotSupportedError,
    "BadValue": DataError,
}
"""Classes by the name of the error that the operation raised."""

_SQLSTATES_BY_MESSAGE: Final = (
    ("^UNIQUE constraint failed", "23505"),
    ("^NOT NULL constraint failed", "23502"),
    ("^CHECK constraint failed", "23514"),
    ("^FOREIGN KEY constraint failed", "23503"),
    ("^no such (?:table|view)", "42P01"),
    ("^no such column|has no column named", "42703"),
    ("^no such function", "42883"),
    ("^ambiguous column", "42702"),
    ("already exists", DUPLICATE_SQLSTATE),
    ("^no such savepoint", "3B001"),
    (r"took more than \d+ steps$", "54001"),
)
"""SQLSTATEs by a pattern of the message."""
_SQLSTATES_BY_CLASS: Final = {"SqlSyntaxError": "42601", "SqlParameterError": "07001"}


def operation_error(text: str) -> DatabaseError:
    """Return the exception for the error of an operation, as `TypeName: message`."""
    name, separator, message = text.partition(": ")
    if not separator:
        name, message = "", text
    sqlstate = _SQLSTATES_BY_CLASS.get(name)
    for pattern, found in _SQLSTATES_BY_MESSAGE:
        if sqlstate is None and re.search(pattern, message):
            sqlstate = found
    kind = _CLASSES.get(name)
    if kind is None:
        kind = ProgrammingError if sqlstate == DUPLICATE_SQLSTATE else OperationalError
    return kind(message, sqlstate)


def call_error(error: CallFailed) -> DatabaseError:
    """Return the exception for a failed call."""
    match error:
        case OperationFailed():
            return operation_error(str(error))
        case NotDone(reason=RejectReason.BAD_ARGUMENTS):
            return DataError(str(error))
        case NotDone(reason=RejectReason.UNKNOWN_OPERATION):
            return NotSupportedError(f"the cluster lacks an operation of data type 'sql': {error}")
        case NotDone(reason=RejectReason.DIFFERENT_CODE):
            return OperationalError(str(error), DIFFERENT_CODE_SQLSTATE)
        case NotDone(reason=RejectReason.UNREACHABLE | RejectReason.CLOSED):
            return OperationalError(str(error), UNREACHABLE_SQLSTATE)
        case NotDone(reason=RejectReason.TOO_LARGE | RejectReason.MALFORMED):
            return DataError(str(error), TOO_LARGE_SQLSTATE)
        case NotDone(reason=RejectReason.TOKEN):
            return OperationalError(str(error), TOKEN_SQLSTATE)
        case NotDone(reason=reason):
            is_temporary = reason == RejectReason.DEADLINE or reject_rule(reason).is_temporary
            return OperationalError(
                str(error), BUSY_SQLSTATE if is_temporary else REJECTED_SQLSTATE
            )
        case Unknown():
            return OperationalError(str(error), UNKNOWN_OUTCOME_SQLSTATE)
        case _:
            return DatabaseError(str(error))
