"""A data type to make conflicts with, or none: operations that say which registers they touch."""

from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction

REGISTERS = DataType("registers")


@REGISTERS.operation(readonly=True)
def read(tx: Transaction, key: str) -> Any:
    return tx.get(key)


@REGISTERS.operation
def update(tx: Transaction, key: str, value: Any) -> Any:
    """Reads and writes. Answers what was there before."""
    before = tx.get(key)
    tx.put(key, value)
    return before


@REGISTERS.operation
def write(tx: Transaction, key: str, value: Any) -> None:
    """Without reading."""
    tx.put(key, value)


@REGISTERS.operation
def add(tx: Transaction, key: str, amount: int) -> None:
    """Without reading."""
    tx.add(key, amount)


@REGISTERS.operation
def copy(tx: Transaction, source: str, target: str) -> None:
    tx.put(target, tx.get(source))


@REGISTERS.operation
def is_set(tx: Transaction, source: str, target: str) -> None:
    """Writes the same, whatever is there, as long as there is something."""
    tx.put(target, tx.get(source) is not None)
