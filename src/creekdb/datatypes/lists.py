"""A list: the data type on which the order of operations shows best.

Almost every answer tells what came before: `append` the new length, `pop_first` the oldest element,
`duplicate` (append a copy of the whole list) everything. Two appends in the wrong order are noticed
by the next reader.

>>> session = LIST.sequential()
>>> session.call("append", "a"), session.call("append", "b")
(1, 2)
>>> session.call("duplicate")
('a', 'b', 'a', 'b')
>>> session.call("pop_first"), session.call("get_first"), session.call("get_last")
('a', 'b', 'b')
>>> session.call("get_all"), session.call("length")
(('b', 'a', 'b'), 3)

The first element of an empty list is an error, which is an answer like any other:

>>> LIST.sequential().call("pop_first")
Traceback (most recent call last):
creekdb.execution.sequential.OperationRaised: IndexError: the list is empty
"""

from random import Random
from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction

LIST = DataType("list")

DUPLICATE_LENGTH_MAX = 16
"""The longest list that `duplicate` copies: without a bound, n of them would take 2ⁿ elements."""


# The elements stand under ("item", n) for consecutive n, so that both ends are one scan away and no
# operation needs to rewrite the others' elements.


@LIST.operation
def append(tx: Transaction, value: Any) -> int:
    """The length of the list, with the new element."""
    first, stop = _bounds(tx)
    tx.put(("item", stop), value)
    return stop + 1 - first


@LIST.operation
def pop_first(tx: Transaction) -> Any:
    """Remove the oldest element, and answer it."""
    for key, value in tx.scan(("item",), limit=1):
        tx.delete(key)
        return value
    raise IndexError("the list is empty")


@LIST.operation
def duplicate(tx: Transaction) -> tuple[Any, ...]:
    """Append a copy of the list to itself, and answer the result."""
    first, stop = _bounds(tx)
    if stop - first > DUPLICATE_LENGTH_MAX:
        raise OverflowError(f"only lists of up to {DUPLICATE_LENGTH_MAX} elements are duplicated")
    values = get_all(tx)
    for offset, value in enumerate(values):
        tx.put(("item", stop + offset), value)
    return values + values


@LIST.operation
def shuffle(tx: Transaction) -> tuple[Any, ...]:
    """Put the elements in a random order, the same on every replica, and answer the result."""
    left = list(tx.scan(("item",)))
    shuffled = []
    for key, _ in list(left):
        _, value = left.pop(tx.random.randrange(len(left)))
        tx.put(key, value)
        shuffled.append(value)
    return tuple(shuffled)


@LIST.operation(readonly=True)
def get_first(tx: Transaction) -> Any:
    """The oldest element; raises where there is none."""
    for _, value in tx.scan(("item",), limit=1):
        return value
    raise IndexError("the list is empty")


@LIST.operation(readonly=True)
def get_last(tx: Transaction) -> Any:
    """The newest element; raises where there is none."""
    for _, value in tx.scan(("item",), reverse=True, limit=1):
        return value
    raise IndexError("the list is empty")


@LIST.operation(readonly=True)
def get_all(tx: Transaction) -> tuple[Any, ...]:
    """The elements, the oldest first."""
    return tuple([value for _, value in tx.scan(("item",))])


@LIST.operation(readonly=True)
def length(tx: Transaction) -> int:
    """How many elements there are."""
    first, stop = _bounds(tx)
    return stop - first


def _bounds(tx: Transaction) -> tuple[int, int]:
    """The number of the first element, and the number that the next one gets."""
    ends = [*tx.scan(("item",), limit=1), *tx.scan(("item",), reverse=True, limit=1)]
    if not ends:
        return 0, 0
    numbers = [key[1] for key, _ in ends if isinstance(key, tuple)]
    first, last = (int(each) for each in numbers)
    return first, last + 1


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    """A random operation; lists stay short, so some find it empty and raise."""
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
