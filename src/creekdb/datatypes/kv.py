"""A key-value store: strings to values, ordered by key.

>>> session = KV.sequential()
>>> session.call("put", "apple", 3)
>>> session.call("put", "apricot", 5)
>>> session.call("put", "apple", 4)  # returns the previous value
3
>>> session.call("increment", "apple", 2)
6
>>> session.call("put_if_absent", "apple", 0), session.call("put_if_absent", "pear", 1)
(False, True)
>>> session.call("compare_and_set", "pear", 1, 7), session.call("compare_and_set", "pear", 1, 8)
(True, False)
>>> session.call("scan", "ap")
(('apple', 6), ('apricot', 5))
>>> session.call("range", "apricot", "z", True, 1)
(('pear', 7),)
>>> session.call("delete", "pear"), session.call("get", "pear")
(7, None)
"""

from random import Random
from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import ABSENT, Transaction
from creekdb.protocol.values import Key

KV = DataType("kv")


def _keys(key: str, *others: Any) -> list[Key]:
    """Return the footprint of a key or prefix. An operation rejects a key of another type."""
    return [key] if type(key) is str else []


def _between(start: str, stop: str, *others: Any) -> list[Key]:
    """Return the common prefix of both bounds, which covers every key between them."""
    if type(start) is not str or type(stop) is not str:
        return []
    length = 0
    while start[length : length + 1] == stop[length : length + 1] != "":
        length += 1
    return [start[:length]]


@KV.operation(readonly=True, touches=_keys)
def get(tx: Transaction, key: str) -> Any:
    """Return the value of `key`, or None."""
    return tx.get(_text(key))


@KV.operation(touches=_keys, stores=True)
def put(tx: Transaction, key: str, value: Any) -> Any:
    """Store `value` and return the previous value, or None."""
    before = tx.get(_text(key))
    tx.put(key, value)
    return before


@KV.operation(touches=_keys)
def delete(tx: Transaction, key: str) -> Any:
    """Delete `key` and return its value, or None."""
    before = tx.get(_text(key))
    tx.delete(key)
    return before


@KV.operation(touches=_keys)
def put_if_absent(tx: Transaction, key: str, value: Any) -> bool:
    """Store `value` if `key` has none. Return True if it was stored."""
    if tx.get(_text(key), ABSENT) is not ABSENT:
        return False
    tx.put(key, value)
    return True


@KV.operation(touches=_keys)
def compare_and_set(tx: Transaction, key: str, expected: Any, value: Any) -> bool:
    """Store `value` if `key` has the value `expected` (None: no value). Return True if stored."""
    if tx.get(_text(key)) != expected:
        return False
    tx.put(key, value)
    return True


@KV.operation(touches=_keys)
def increment(tx: Transaction, key: str, amount: int = 1) -> int:
    """Add `amount` to the value and return the sum; raise if the value is not an int."""
    tx.add(_text(key), amount)
    result: int = tx.get(key)
    return result


@KV.operation(readonly=True, touches=lambda prefix="", limit=None: _keys(prefix))
def scan(tx: Transaction, prefix: str = "", limit: int | None = None) -> tuple[Any, ...]:
    """Return the keys that start with `prefix`, with their values."""
    return tuple(tx.scan(_text(prefix), limit=limit))


@KV.operation(readonly=True, name="range", touches=_between)
def range_(
    tx: Transaction, start: str, stop: str, reverse: bool = False, limit: int | None = None
) -> tuple[tuple[Key, Any], ...]:
    """Return the keys from `start` up to but excluding `stop`, with their values."""
    return tuple(tx.scan(start=_text(start), stop=_text(stop), reverse=reverse, limit=limit))


def _text(key: str) -> str:
    # A client may not have checked its arguments.
    if type(key) is not str:
        raise TypeError(f"the key must be a str, not a {type(key).__name__}")
    return key


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    """Draw an operation on five keys; an increment of a text raises."""
    key = random.choice(("a", "aa", "ab", "b", "ba"))
    value: Any = random.choice(("text", None)) if random.random() < 0.1 else random.randrange(5)
    (name,) = random.choices(
        (
            "get",
            "put",
            "delete",
            "put_if_absent",
            "compare_and_set",
            "increment",
            "scan",
            "range",
        ),
        (20, 20, 10, 10, 10, 15, 10, 10),
    )
    match name:
        case "get" | "delete":
            return name, (key,)
        case "put" | "put_if_absent":
            return name, (key, value)
        case "compare_and_set":
            return name, (key, random.randrange(5), value)
        case "increment":
            return name, (key, random.randrange(1, 3))
        case "scan":
            return name, (key[0], random.choice((None, 1, 2)))
        case _:
            bounds = sorted((key, random.choice("abc")))
            return name, (*bounds, random.random() < 0.5, random.choice((None, 1, 3)))
