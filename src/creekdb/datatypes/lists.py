"""A list, the data type whose responses depend most on the order of operations.

Almost every response reveals earlier operations: `append` returns the new length, `pop_first` the
oldest element, and `duplicate` (append a copy of the list) all elements.

>>> session = LIST.sequential()
>>> session.call("append", "a"), session.call("append", "b")
(1, 2)
>>> session.call("duplicate")
('a', 'b', 'a', 'b')
>>> session.call("pop_first"), session.call("get_first"), session.call("get_last")
('a', 'b', 'b')
>>> session.call("get_all"), session.call("length")
(('b', 'a', 'b'), 3)

An error, such as the first element of an empty list, is a response like any other:

>>> LIST.sequential().call("pop_first")
Traceback (most recent call last):
creekdb.execution.sequential.OperationRaised: IndexError: the list is empty
"""

from random import Random
from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.values import Key

LIST = DataType("list")

DUPLICATE_LENGTH_MAX = 16
"""Maximum length for `duplicate`; without it, n calls would create 2ⁿ elements."""


# Elements are stored under ("item", n) for consecutive n. Both ends are one scan away, and no
# operation rewrites other elements.


@LIST.operation
def append(tx: Transaction, value: Any) -> int:
    """Append `value` and return the new length."""
    first, stop = _bounds(tx)
    tx.put(("item", stop), value)
    return stop + 1 - first


@LIST.operation
def pop_first(tx: Transaction) -> Any:
    """Remove and return the oldest element."""
    key, value = _end(tx)
    tx.delete(key)
    return value


@LIST.operation
def duplicate(tx: Transaction) -> tuple[Any, ...]:
    """Append a copy of the list to itself and return the result."""
    first, stop = _bounds(tx)
    if stop - first > DUPLICATE_LENGTH_MAX:
        raise OverflowError(f"duplicate accepts at most {DUPLICATE_LENGTH_MAX} elements")
    values = get_all(tx)
    for offset, value in enumerate(values):
        tx.put(("item", stop + offset), value)
    return values + values


@LIST.operation
def shuffle(tx: Transaction) -> tuple[Any, ...]:
    """Reorder the elements at random, alike on every replica, and return them."""
    left = list(tx.scan(("item",)))
    shuffled = []
    for key, _ in list(left):
        _, value = left.pop(tx.random.randrange(len(left)))
        tx.put(key, value)
        shuffled.append(value)
    return tuple(shuffled)


@LIST.operation(readonly=True)
def get_first(tx: Transaction) -> Any:
    """Return the oldest element; raise `IndexError` if the list is empty."""
    return _end(tx)[1]


@LIST.operation(readonly=True)
def get_last(tx: Transaction) -> Any:
    """Return the newest element; raise `IndexError` if the list is empty."""
    return _end(tx, reverse=True)[1]


@LIST.operation(readonly=True)
def get_all(tx: Transaction) -> tuple[Any, ...]:
    """Return all elements, oldest first."""
    return tuple([value for _, value in tx.scan(("item",))])


@LIST.operation(readonly=True)
def length(tx: Transaction) -> int:
    """Return the number of elements."""
    first, stop = _bounds(tx)
    return stop - first


def _end(tx: Transaction, reverse: bool = False) -> tuple[Key, Any]:
    """Return the key and the value of the oldest element, or in reverse of the newest one."""
    for item in tx.scan(("item",), reverse=reverse, limit=1):
        return item
    raise IndexError("the list is empty")


def _bounds(tx: Transaction) -> tuple[int, int]:
    """Return the number of the first element and the number for the next one."""
    ends = [*tx.scan(("item",), limit=1), *tx.scan(("item",), reverse=True, limit=1)]
    if not ends:
        return 0, 0
    first, last = (int(key[1]) for key, _ in ends)
    return first, last + 1


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    """Draw an operation; lists stay short, so some calls find an empty list and raise."""
    (name,) = random.choices(
        (
            "append",
            "pop_first",
            "get_first",
            "get_last",
            "get_all",
            "length",
            "duplicate",
            "shuffle",
        ),
        (28, 30, 10, 5, 10, 5, 3, 3),
    )
    return name, (random.randrange(1000),) if name == "append" else ()
