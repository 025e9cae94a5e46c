"""Data types whose operations are not deterministic, or not the same on every replica."""

import os

from creekdb import DataType
from creekdb.execution.transaction import Transaction

honest = DataType("odd")
mistaken = DataType("odd")
by_process = DataType("odd")


@honest.operation(name="put")
@mistaken.operation(name="put")
@by_process.operation(name="put")
def put(tx: Transaction, key: str, value: int) -> None:
    tx.put(key, value)


@honest.operation(name="tax")
def tax(tx: Transaction, amount: int) -> int:
    tx.put("tax", amount // 5)
    return amount // 5


@mistaken.operation(name="tax")
def tax_rounded(tx: Transaction, amount: int) -> int:
    tx.put("tax", round(amount / 5))
    return round(amount / 5)


@by_process.operation(name="tax")
def tax_by_process(tx: Transaction, amount: int) -> int:
    tx.put("tax", amount + os.getpid())
    return amount
