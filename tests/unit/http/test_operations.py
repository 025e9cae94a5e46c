"""Operations of a data type take their arguments by name."""

from typing import Any

import pytest

from creekdb.errors import BadValue
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.http.operations import OperationCatalog

NOTHING = object()


class Adding:
    """A callable object instead of a function."""

    __name__ = "adding"

    def __call__(self, tx: Transaction, amount: int) -> int:
        return amount


def lookup(tx: Transaction, key: str, default: Any = NOTHING, times: int = 1, *more: int) -> Any:
    return tx.get(key, default)


def operations() -> OperationCatalog:
    datatype = DataType("things")
    datatype.operation(lookup)
    datatype.operation(Adding())
    return OperationCatalog(datatype)


def test_omitted_trailing_arguments_keep_their_defaults() -> None:
    operation = operations().find("lookup")

    assert operation.arguments({"key": "lamp"}) == ("lamp",)
    assert operation.arguments({"key": "lamp", "default": 3}) == ("lamp", 3)
    assert operation.arguments({"key": "lamp", "default": 3, "more": [4]}) == ("lamp", 3, 1, 4)


def test_a_default_that_cannot_be_sent_must_be_given_before_a_later_argument() -> None:
    with pytest.raises(
        BadValue, match=r"argument 'default' of lookup.* holds a value of type object"
    ):
        operations().find("lookup").arguments({"key": "lamp", "times": 2})


def test_any_callable_is_an_operation() -> None:
    assert operations().find("adding").arguments({"amount": 3}) == (3,)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "requires the argument 'key'"),
        ({"default": 1}, "requires the argument 'key'"),
        ({"key": "lamp", "colour": 1}, "has no parameter 'colour'"),
        ([], "must be an object"),
        ({"key": 1}, "argument 'key' of lookup"),
    ],
)
def test_missing_unknown_and_mistyped_arguments_are_reported(body: Any, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        operations().find("lookup").arguments(body)


def test_internal_operations_are_not_in_the_catalogue() -> None:
    datatype = DataType("things")
    datatype.operation(lookup)
    datatype.operation(name="creek.lookup")(lookup)

    catalogue = OperationCatalog(datatype).by_name
    assert "lookup" in catalogue
    assert "creek.lookup" not in catalogue
