"""Nondeterministic data types for tests of `--debug`. `register` makes them available by name."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from creekdb import datatypes
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction

HASHED = DataType("hashed")
CLOCKED = DataType("clocked")


@HASHED.operation
def tag(tx: Transaction, *names: str) -> tuple[str, ...]:
    """Return the names in the iteration order of a set, which depends on the hash seed."""
    tags = set(names)
    tx.add("tagged", len(tags))
    return tuple(tags)


@CLOCKED.operation
def stamp(tx: Transaction) -> int:
    return time.perf_counter_ns()


def _tags(random: Random) -> tuple[str, tuple[Any, ...]]:
    return "tag", tuple(random.sample(("red", "green", "blue", "black", "white"), 5))


def _stamps(random: Random) -> tuple[str, tuple[Any, ...]]:
    return "stamp", ()


@contextmanager
def registered() -> Iterator[None]:
    """Register the data types, and remove them at the end."""
    register()
    try:
        yield
    finally:
        for datatype in (HASHED, CLOCKED):
            del datatypes.DATATYPES[datatype.name], datatypes.SAMPLERS[datatype.name]


def register() -> None:
    for datatype, sample in ((HASHED, _tags), (CLOCKED, _stamps)):
        datatypes.DATATYPES[datatype.name] = datatype
        datatypes.SAMPLERS[datatype.name] = sample
