"""Operations of a data type, with what they take by name."""

from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.http.operations import OperationCatalog

NOTHING = object()


class Adding:
    """What people pass for a function."""

    __name__ = "adding"

    def __call__(self, tx: Transaction, amount: int) -> int:
        return amount


def found(tx: Transaction, key: str, usual: Any = NOTHING, times: int = 1, *more: int) -> Any:
    return tx.get(key, usual)


def operations() -> OperationCatalog:
    datatype = DataType("things")
    datatype.operation(found)
    datatype.operation(Adding())
    return OperationCatalog(datatype)


def test_what_is_left_out_at_the_end_is_left_to_the_function() -> None:
    operation = operations().find("found")

    assert operation.arguments({"key": "lamp"}) == ("lamp",)
    assert operation.arguments({"key": "lamp", "usual": 3}) == ("lamp", 3)
    assert operation.arguments({"key": "lamp", "times": 2}) == ("lamp", NOTHING, 2)
    assert operation.arguments({"key": "lamp", "more": [4]}) == ("lamp", NOTHING, 1, 4)


def test_whatever_can_be_called_is_an_operation() -> None:
    assert operations().find("adding").arguments({"amount": 3}) == (3,)
