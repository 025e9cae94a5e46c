"""A register: the smallest data type there is.

>>> session = REGISTER.sequential()
>>> session.call("read")
>>> session.call("write", 5)
>>> session.call("read")
5
"""

from random import Random
from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction

REGISTER = DataType("register")


@REGISTER.operation(readonly=True)
def read(tx: Transaction) -> Any:
    """The value written last, or None."""
    return tx.get("value")


@REGISTER.operation
def write(tx: Transaction, value: Any) -> None:
    """Put `value` in the place of whatever was there."""
    tx.put("value", value)


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    """A random operation: half reads, half writes of values that are seldom the same."""
    if random.random() < 0.5:
        return "read", ()
    return "write", (random.randrange(1000),)
