"""A data type with operations that take as long as a test wants."""

import threading
import time

from creekdb import DataType
from creekdb.execution.transaction import Transaction

slow = DataType("slow")

begun = threading.Event()
go_on = threading.Event()


@slow.operation
def put(tx: Transaction, key: str, value: int) -> None:
    tx.put(key, value)


@slow.operation
def hang(tx: Transaction, key: str) -> int:
    """Until the test lets it go on; what it read before may be outdated by then."""
    before: int = tx.get(key, 0)
    begun.set()
    go_on.wait(30)
    tx.put(key, before + 1)
    return before


@slow.operation(readonly=True)
def both(tx: Transaction, one: str, other: str) -> tuple[int, int]:
    """Two registers that are always written together; something comes between two looks."""
    first: int = tx.get(one, 0)
    begun.set()
    go_on.wait(30)
    return first, tx.get(other, 0)


@slow.operation
def pair(tx: Transaction, one: str, other: str, value: int) -> None:
    tx.put(one, value)
    tx.put(other, value)


@slow.operation
def work(tx: Transaction, seconds: float) -> str:
    """So long, and without a pause."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    return "done"


@slow.operation
def interrupt(tx: Transaction) -> None:
    raise KeyboardInterrupt


@slow.operation
def spin(tx: Transaction) -> None:
    """For ever, and without a pause."""
    while True:
        pass
