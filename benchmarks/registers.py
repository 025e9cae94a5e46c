"""Data type with controlled conflicts: the arguments of an operation name its registers."""

from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction

REGISTERS = DataType("registers")


@REGISTERS.operation(readonly=True)
def read(tx: Transaction, key: str) -> Any:
    return tx.get(key)


@REGISTERS.operation
def update(tx: Transaction, key: str, value: Any) -> Any:
    """Read and write a register; return its old value."""
    before = tx.get(key)
    tx.put(key, value)
    return before


@REGISTERS.operation
def write(tx: Transaction, key: str, value: Any) -> None:
    """Write without reading."""
    tx.put(key, value)


@REGISTERS.operation
def add(tx: Transaction, key: str, amount: int) -> None:
    """Add without reading."""
    tx.add(key, amount)


@REGISTERS.operation
def copy(tx: Transaction, source: str, target: str) -> None:
    tx.put(target, tx.get(source))


@REGISTERS.operation
def is_set(tx: Transaction, source: str, target: str) -> None:
    """Write the same value for every present value of `source`."""
    tx.put(target, tx.get(source) is not None)
