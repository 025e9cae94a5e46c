"""Exceptions for failed calls."""

import pytest

from creekdb.client import NotDone, OperationFailed, Unknown
from creekdb.dbapi import errors


@pytest.mark.parametrize(
    ("text", "kind", "sqlstate"),
    [
        ("SqlConstraintError: UNIQUE constraint failed: a.b", errors.IntegrityError, "23505"),
        ("SqlConstraintError: CHECK constraint failed: a", errors.IntegrityError, "23514"),
        ("SqlConstraintError: FOREIGN KEY constraint failed", errors.IntegrityError, "23503"),
        ("SqlConstraintError: cannot store TEXT value", errors.IntegrityError, "23000"),
        ("SqlTypeError: datatype mismatch", errors.DataError, "22000"),
        ("SqlSerializationError: overtaken", errors.SerializationFailure, "40001"),
        ("SqlUnsupported: VACUUM is not supported", errors.NotSupportedError, "0A000"),
        ("SqlUnknownName: no such function: f", errors.ProgrammingError, "42883"),
        ("OperationStopped: 'sql' took more than 9 steps", errors.OperationalError, "54001"),
        ("BadValue: the float inf cannot be sent", errors.DataError, "22000"),
        ("KeyError", errors.OperationalError, "HY000"),
    ],
)
def test_errors_of_operations_have_a_class_and_an_sqlstate(
    text: str, kind: type[errors.Error], sqlstate: str
) -> None:
    error = errors.call_error(OperationFailed(text))
    assert (type(error), error.sqlstate) == (kind, sqlstate)
    assert str(error) == text.partition(": ")[2] or text == str(error)


def test_different_engines_are_neither_a_missing_data_type_nor_worth_a_retry() -> None:
    message = "replica 2 would execute 'sql' otherwise: …; install the same version"
    error = errors.call_error(NotDone("different_code", message))
    assert (type(error), error.sqlstate) == (errors.OperationalError, "55000")
    assert str(error) == message
    assert not error.is_retryable


def test_failed_calls_say_whether_a_retry_is_safe() -> None:
    unreachable = errors.call_error(NotDone("unreachable", "no replica"))
    busy = errors.call_error(NotDone("busy", "later"))
    unknown = errors.call_error(Unknown("no response"))
    assert [each.sqlstate for each in (unreachable, busy, unknown)] == ["08006", "53000", "08007"]
    assert [each.is_retryable for each in (unreachable, busy, unknown)] == [True, True, False]
    assert isinstance(
        errors.call_error(NotDone("unknown_operation", "no 'sql'")), errors.NotSupportedError
    )
    assert isinstance(errors.call_error(NotDone("bad_arguments", "no")), errors.DataError)


@pytest.mark.parametrize(
    ("reason", "kind", "sqlstate"),
    [
        ("too_large", errors.DataError, "54000"),
        ("token", errors.OperationalError, "28000"),
        ("datatype", errors.OperationalError, "08004"),
        ("version", errors.OperationalError, "08004"),
        ("unexpected_tls", errors.OperationalError, "08004"),
        ("of_a_newer_replica", errors.OperationalError, "08004"),
    ],
)
def test_a_rejection_that_lasts_is_not_worth_a_retry(
    reason: str, kind: type[errors.Error], sqlstate: str
) -> None:
    error = errors.call_error(NotDone(reason, "no"))
    assert (type(error), error.sqlstate) == (kind, sqlstate)
    assert not error.is_retryable


@pytest.mark.parametrize("reason", ["busy", "disk", "stopping", "no_majority", "deadline"])
def test_a_temporary_rejection_is_worth_a_retry(reason: str) -> None:
    assert errors.call_error(NotDone(reason, "later")).is_retryable
