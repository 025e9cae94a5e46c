"""A counter: increments commute, so replicas that disagree on their order still agree on the sum.

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
    """Answers nothing: whoever wants the sum, asks for it."""
    tx.add("value", amount)


@COUNTER.operation
def decrement(tx: Transaction, amount: int = 1) -> None:
    """Answers nothing, either."""
    tx.add("value", -amount)


@COUNTER.operation(readonly=True)
def value(tx: Transaction) -> int:
    """The sum."""
    result: int = tx.get("value", 0)
    return result


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    """A random operation; a few add what is no number, and raise."""
    chance = random.random()
    if chance < 0.35:
        return "value", ()
    if chance < 0.4:
        return "increment", ("one",)
    return random.choice(("increment", "decrement")), (random.randrange(1, 100),)
