"""A register, the smallest data type.

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
    """Return the value written last, or None."""
    return tx.get("value")


@REGISTER.operation
def write(tx: Transaction, value: Any) -> None:
    """Replace the value."""
    tx.put("value", value)


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    """Draw a read or a write with equal probability; written values rarely repeat."""
    if random.random() < 0.5:
        return "read", ()
    return "write", (random.randrange(1000),)
