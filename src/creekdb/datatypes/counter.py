"""A counter. Increments commute, so every order of them gives the same sum.

>>> session = COUNTER.sequential()
>>> session.call("increment")
>>> session.call("increment", 10)
>>> session.call("decrement", 4)
>>> session.call("value")
7
"""

from random import Random
from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction

COUNTER = DataType("counter")


@COUNTER.operation
def increment(tx: Transaction, amount: int = 1) -> None:
    """Add `amount` to the counter."""
    tx.add("value", amount)


@COUNTER.operation
def decrement(tx: Transaction, amount: int = 1) -> None:
    """Subtract `amount` from the counter."""
    tx.add("value", -amount)


@COUNTER.operation(readonly=True)
def value(tx: Transaction) -> int:
    """Return the value of the counter."""
    result: int = tx.get("value", 0)
    return result


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    """Draw an operation; a few add a text and raise."""
    chance = random.random()
    if chance < 0.35:
        return "value", ()
    if chance < 0.4:
        return "increment", ("one",)
    return random.choice(("increment", "decrement")), (random.randrange(1, 100),)
