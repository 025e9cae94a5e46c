"""Random keys and operations, and a data type with one operation that runs given steps."""

from random import Random
from typing import Any

from hypothesis import strategies as st

from creekdb.datatypes import SAMPLERS, get_datatype
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key

HOT_KEYS: tuple[Key, ...] = (0, 7, -3, "", "a", "ab", "b", (), ("a",), ("a", 1), ("a", "b"), (1,))
KEYS = st.sampled_from(HOT_KEYS)

SCRIPT = DataType("script")


@SCRIPT.operation
def play(tx: Transaction, steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """Run the steps, each a verb, a key and a value. Return the results of all reads."""
    results: list[Any] = []
    for verb, key, value in steps:
        match verb:
            case "get":
                results.append(tx.get(key))
            case "put":
                tx.put(key, value)
            case "delete":
                tx.delete(key)
            case "add":
                tx.add(key, value)
            case "scan":
                results.append(list(tx.scan(start=key, reverse=value % 2 == 0, limit=value)))
            case _:
                raise ValueError(f"step {value}")
    return tuple(results)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("get", "put", "put", "put", "delete", "delete", "add", "scan", "raise")),
        KEYS,
        st.integers(0, 5),
    ),
    max_size=6,
).map(tuple)


def request(operation: Operation, event: int = 1, timestamp: int | None = None) -> Request:
    timestamp = event if timestamp is None else timestamp
    return Request(timestamp, Dot(0, event), operation, strong=False)


def requests(scripts: list[tuple[Any, ...]]) -> list[Request]:
    return [request(SCRIPT.call("play", each), event) for event, each in enumerate(scripts, 1)]


def sample_operation(name: str, random: Random) -> Operation:
    """Return a random operation of the data type with this name."""
    datatype = get_datatype(name)
    operation, arguments = SAMPLERS[name](random)
    return datatype.call(operation, *arguments)
