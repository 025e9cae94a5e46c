"""Transactions on lists and registers, whose responses prove their order.

One operation executes several micro-operations atomically. It appends to a list (`append`), writes
a register (`w`), or reads either of them (`r`), each under a key of its own. The response repeats
the micro-operations with the values that were read. Unique values let a checker infer the order of
the transactions (`creekdb.checkers.blackbox.anomalies.checker`).

>>> session = TRANSACTIONS.sequential()
>>> session.call("run", ("append", "x", 1), ("append", "x", 2), ("w", "y", 3))
(('append', 'x', 1), ('append', 'x', 2), ('w', 'y', 3))
>>> session.call("run", ("r", "x", None), ("r", "y", None), ("r", "z", None))
(('r', 'x', (1, 2)), ('r', 'y', 3), ('r', 'z', None))

If a micro-operation fails, none of them has an effect:

>>> session.call("run", ("w", "y", 4), ("append", "y", 5))
Traceback (most recent call last):
creekdb.execution.sequential.OperationRaised: TypeError: y is not a list
>>> session.call("run", ("r", "y", None))
(('r', 'y', 3),)
"""

from random import Random
from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.values import Key

TRANSACTIONS = DataType("transactions")


def _keys(*micro_operations: tuple[str, str, Any]) -> list[Key]:
    return [key for _, key, _ in micro_operations if type(key) is str]


@TRANSACTIONS.operation(touches=_keys)
def run(tx: Transaction, *micro_operations: tuple[str, str, Any]) -> tuple[Any, ...]:
    """Execute `("append", key, value)`, `("w", key, value)` and `("r", key, None)` atomically."""
    return tuple(
        [(name, key, _execute(tx, name, key, value)) for name, key, value in micro_operations]
    )


def _execute(tx: Transaction, name: str, key: str, value: Any) -> Any:
    if type(key) is not str:
        raise TypeError(f"the key must be a str, not a {type(key).__name__}")
    match name:
        case "r":
            return tx.get(key)
        case "w":
            tx.put(key, value)
        case "append":
            elements = tx.get(key, ())
            if type(elements) is not tuple:
                raise TypeError(f"{key} is not a list")
            tx.put(key, (*elements, value))
        case _:
            raise ValueError("a micro-operation must be append, w or r")
    return value


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    """Draw a transaction of up to four micro-operations on three lists and three registers."""
    return "run", tuple(_draw(random, random.randrange(3)) for _ in range(random.randint(1, 4)))


def _draw(random: Random, number: int) -> tuple[str, str, Any]:
    is_list = random.random() < 0.7
    key = f"{'list' if is_list else 'register'} {number}"
    return draw_micro_operation(random, key, is_list, random.randrange(2**48))


def draw_micro_operation(
    random: Random, key: str, is_list: bool, value: int
) -> tuple[str, str, Any]:
    """Return a read or a write of the key, each half of the time."""
    if random.random() < 0.5:
        return "r", key, None
    return "append" if is_list else "w", key, value
