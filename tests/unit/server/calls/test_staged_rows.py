"""Admission of staged rows."""

from typing import Any

import pytest

from creekdb.datatypes.kv import KV
from creekdb.errors import BadValue, UnknownName
from creekdb.protocol.request import Operation
from creekdb.server.calls.staged_rows import called_rows, resolve_staging
from creekdb.wire.messages import CallRequest
from creekdb.wire.staging import APPLY, LOAD, READ_LEDGER, STAGE


def resolve(name: str, *arguments: Any) -> Operation:
    return resolve_staging(KV, CallRequest(1, name, arguments, True))


def test_rows_with_invalid_arguments_are_named() -> None:
    rows = (("a", 1), (None, 2), ("c", 3))
    with pytest.raises(BadValue, match=r"'key' .* not null \(row 2: \(None, 2\)\)"):
        resolve(STAGE, "t", 0, "put", (), rows, (), False)
    with pytest.raises(BadValue, match=r"row 2"):
        resolve(LOAD, "put", (), rows)


def test_invalid_rows_become_rejected_rows_on_request() -> None:
    rows = (("a", 1), (None, 2), ("c",), ("d", float("nan")))
    operation = resolve(STAGE, "t", 0, "put", (), rows, ((("z",), "first"),), True)
    *_, accepted, rejected = operation.arguments
    assert accepted == (("a", 1),)
    assert [row for row, _ in rejected] == [("z",), (None, 2), ("c",), ("('d', nan)",)]
    errors = [error for _, error in rejected]
    assert errors[0] == "first"
    assert "must be a string, not null" in errors[1]
    assert "requires the argument 'value'" in errors[2]
    assert "nan" in errors[3]


def test_leading_arguments_count_as_arguments_of_each_row() -> None:
    operation = resolve(LOAD, "put", ("lamp",), ((1,), (2,)))
    assert operation == Operation(LOAD, ("put", ("lamp",), ((1,), (2,))))
    with pytest.raises(BadValue, match="cannot take 3 arguments"):
        resolve(LOAD, "put", ("lamp",), ((1, 2),))


def test_unknown_operations_are_no_error_of_a_row() -> None:
    with pytest.raises(UnknownName):
        resolve(STAGE, "t", 0, "putt", (), (("a", 1),), (), True)
    with pytest.raises(BadValue, match="cannot be called for rows"):
        resolve(LOAD, "creek.forget", (), ((1, "", 0),))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (STAGE, ()),
        (STAGE, ("t", 0, "put", (), (("a", 1),), ())),
        (STAGE, ("t", 0, "put", (), (), (((float("nan"),), "error"),), True)),
        (APPLY, ("s", "", 0, ((1, 2),), 1, False, False)),
        (APPLY, ("s", "", 2**63, (), 1, False, False)),
        (READ_LEDGER, (1,)),
    ],
)
def test_malformed_calls_are_rejected(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(BadValue):
        resolve(name, *arguments)


def test_only_calls_with_rows_carry_rows() -> None:
    rows = (("a", 1),)
    load = CallRequest(1, LOAD, ("put", (), rows), True)
    assert called_rows(load) == ("put", (), rows)
    assert called_rows(CallRequest(1, READ_LEDGER, ("s",), True)) is None
    assert called_rows(CallRequest(1, STAGE, ("t",), True)) is None
