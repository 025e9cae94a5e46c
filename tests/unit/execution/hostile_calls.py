"""Operations that misuse their transaction: every method, with arguments that it may not accept.

An operation that fails has the text of its error as response, and every replica must give the same
response, whichever its build. `python -m tests.unit.execution.hostile_calls` prints the outcome of
every call, one per line. `tools/compare_compiled.py` compares the lines of both builds.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import IntEnum
from itertools import product
from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.sequential import OperationRaised
from creekdb.execution.transaction import Transaction

Point = namedtuple("Point", ("x", "y"))


class Colour(IntEnum):
    RED = 1


class Name(str):
    """Subclass of a type that a key may have."""

    __slots__ = ()


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = (value,)
    return value


VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 7, 2**61 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**200),
    *(0.0, 1.5, float("nan"), float("inf"), 2j, Decimal(1), Colour.RED),
    *("", "a", "é", "\ud800", "\U0010ffff", "x" * 500, Name("a"), b"", b"a", bytearray(b"a")),
    *((), ("a",), ("a", 1), (1, "a"), (True,), (None,), (1.5,), (("a",),), ("\ud800",), (2**63,)),
    *(("creek.calls", 1), ("creek.identity",), Point(1, 2), nested(63), nested(64), nested(300)),
    *([], ["a"], [{}], [1, 2**63], {}, {"a": 1}, {1: 2}, {"\ud800": 1}, {"a": [1, (2, {})]}),
    *({"a": float("nan")}, {"a"}, frozenset(), range(3), slice(1), int, len, print, ...),
)
"""Arguments. Some are valid as a key, as a value, as an item or as a limit."""
FEW: tuple[Any, ...] = (None, True, -1, 1, 2**63, 1.5, "a", "\ud800", ("a", 1), (None,), [1], {})

Program = Callable[[Transaction], Any]


def programs() -> Iterator[tuple[str, Program]]:
    """Yield operations, each with a name."""
    yield from _accesses()
    for method in ("get", "put", "delete", "add", "pick", "scan", "scan_picked", "step", "sql"):
        for count in range(6):
            yield from _call(method, *("a", 1, "b", 2, "c", 3)[:count])
        yield from _call(method, "a", 1, unknown=2)
        yield from _call(method, unknown=2)
        yield from _call(method, "a", key="a")
        yield from _call(method, key="a", value=1, amount=1, default=2)


def _accesses() -> Iterator[tuple[str, Program]]:
    for value in VALUES:
        yield from _call("get", value)
        yield from _call("get", "missing", value)
        yield from _call("delete", value)
        yield from _call("put", value, 1)
        yield from _call("put", "k", value)
        yield from _call("add", value, 1)
        yield from _call("add", "n", value)
        yield from _call("pick", value, 0)
        yield from _call("pick", "row", value)
        yield from _call("pick", "table", "a", value)
        yield from _call("scan", value)
        yield from _call("scan", start=value)
        yield from _call("scan", stop=value)
        yield from _call("scan", limit=value)
        yield from _call("scan", reverse=value)
        yield from _call("scan_picked", value)
        yield from _call("scan_picked", (0, value))
        yield from _call("scan_picked", (0,), value)
        yield from _call("sql", value)
        yield from _call("sql", "SELECT ?", value)
        yield from _call("sql", "SELECT :v", v=value)
        yield from _call("sql", "SELECT id FROM t WHERE id > ? AND name < 'z'", value)
        yield from _call("sql", "INSERT INTO t VALUES (?, 'x')", value)
        yield from _call("sql", "INSERT INTO t VALUES (9, ?)", value)
        yield from _call("sql", "UPDATE t SET name = ? WHERE id = 1", value)
        yield f"return {value!r}", _constant(value)
    for prefix, start, stop in product(FEW, FEW, FEW):
        yield from _call("scan", prefix, start=start, stop=stop)
    for left, right in product(FEW, VALUES):
        yield f"add {left!r} to {right!r}", _addition(left, right)


def _constant(value: Any) -> Program:
    return lambda tx: value


def _addition(amount: Any, value: Any) -> Program:
    def program(tx: Transaction) -> Any:
        tx.put("k", value)
        tx.add("k", amount)
        return tx.get("k")

    return program


def _call(method: str, *arguments: Any, **named: Any) -> Iterator[tuple[str, Program]]:
    def program(tx: Transaction) -> Any:
        result = getattr(tx, method)(*arguments, **named)
        return list(result) if method.startswith("scan") else result

    yield f"{method} {arguments!r} {named!r}", program


def misuses() -> Iterator[tuple[str, Program]]:
    """Yield operations that misuse the transaction itself, and what it returns."""
    yield from _scan_misuses("scan")
    yield from _scan_misuses("scan_picked", (0,))
    yield from _scan_misuses("scan_batches", (0,))
    for name in ("timestamp", "replica", "random", "get", "unknown"):
        yield from _attribute_misuses(name)
    yield "return tx", lambda tx: tx
    yield "index tx", lambda tx: _any(tx)["a"]
    yield "call tx", lambda tx: _any(tx)("a")
    yield "compare tx", lambda tx: _any(tx) < 1
    yield "text of tx", lambda tx: str(tx).partition(" at ")[0]
    yield "iterate tx", lambda tx: list(_any(tx))
    yield "recurse", _recurse


def _scan_misuses(method: str, *arguments: Any) -> Iterator[tuple[str, Program]]:
    def scan(tx: Transaction, **bounds: Any) -> Any:
        tx.put("own", (1, 2))
        return getattr(tx, method)(*arguments, **bounds)

    yield f"return {method}", scan
    yield f"empty {method}", lambda tx: scan(tx, start="b", stop="a")
    yield f"put {method}", lambda tx: tx.put("k", scan(tx))
    yield f"nest {method}", lambda tx: {"a": (scan(tx),)}
    yield f"len {method}", lambda tx: len(scan(tx))
    yield f"index {method}", lambda tx: scan(tx)[0]
    yield f"multiply {method}", lambda tx: scan(tx) * 2
    yield f"key {method}", lambda tx: tx.get(scan(tx))
    yield f"attribute {method}", lambda tx: scan(tx).count
    yield f"sort {method}", lambda tx: sorted([scan(tx), scan(tx)])
    yield f"name {method}", lambda tx: type(scan(tx)).__name__
    yield f"text {method}", lambda tx: str(scan(tx)).partition(" at ")[0]


def _attribute_misuses(name: str) -> Iterator[tuple[str, Program]]:
    yield f"set {name}", lambda tx: setattr(tx, name, 1)
    yield f"delete {name}", lambda tx: delattr(tx, name)
    yield f"call {name}", lambda tx: getattr(tx, name)()


def _any(value: Any) -> Any:
    return value


def _recurse(tx: Transaction) -> Any:
    return _recurse(tx)


def outcomes(named_programs: list[tuple[str, Program]]) -> Iterator[str]:
    """Yield a line for each operation: its name and its response."""
    hostile = DataType("hostile", steps=100_000, sql=True)

    @hostile.operation
    def prepare(tx: Transaction) -> None:
        tx.put("row", (1, {"x": [2]}))
        tx.put("table", {"a": (1,), "b": 2})
        tx.put("n", 5)
        tx.put(("a", 1), "one")
        tx.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        tx.sql("INSERT INTO t VALUES (1, 'one'), (2, NULL)")

    @hostile.operation
    def run(tx: Transaction, number: int) -> Any:
        value = named_programs[number][1](tx)
        return tuple(value) if hasattr(value, "rows") else value

    for number, (name, _) in enumerate(named_programs):
        machine = hostile.sequential()
        machine.call(prepare)
        try:
            response = f"returned {machine.call(run, number)!r}"
        except OperationRaised as error:
            response = str(error)
        yield f"{number} {name[:200]}: {response}".encode(errors="backslashreplace").decode()


def main() -> None:
    for line in outcomes([*programs(), *misuses()]):
        print(line)


if __name__ == "__main__":
    main()
