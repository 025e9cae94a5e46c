"""Data types whose operations are nondeterministic, or differ between replicas."""

import os

from creekdb import DataType
from creekdb.execution.transaction import Transaction

exact = DataType("taxes")
rounded = DataType("taxes")
by_process = DataType("taxes")


@exact.operation(name="put")
@rounded.operation(name="put")
@by_process.operation(name="put")
def put(tx: Transaction, key: str, value: int) -> None:
    tx.put(key, value)


@exact.operation(name="tax")
def tax(tx: Transaction, amount: int) -> int:
    tx.put("tax", amount // 5)
    return amount // 5


@rounded.operation(name="tax")
def tax_rounded(tx: Transaction, amount: int) -> int:
    tx.put("tax", round(amount / 5))
    return round(amount / 5)


@by_process.operation(name="tax")
def tax_by_process(tx: Transaction, amount: int) -> int:
    tx.put("tax", amount + os.getpid())
    return amount
