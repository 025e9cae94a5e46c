"""Data type with operations whose duration the test controls."""

import threading
import time

from creekdb import DataType
from creekdb.execution.transaction import Transaction

slow = DataType("slow")

started = threading.Event()
may_continue = threading.Event()


@slow.operation
def put(tx: Transaction, key: str, value: int) -> None:
    tx.put(key, value)


@slow.operation
def hang(tx: Transaction, key: str) -> int:
    """Increment a register that may change between the read and the write.

    The operation waits in between until the test sets `may_continue`.
    """
    before: int = tx.get(key, 0)
    started.set()
    may_continue.wait(30)
    tx.put(key, before + 1)
    return before


@slow.operation(readonly=True)
def both(tx: Transaction, first_key: str, second_key: str) -> tuple[int, int]:
    """Read two registers that `pair` writes together, and wait for the test in between."""
    first: int = tx.get(first_key, 0)
    started.set()
    may_continue.wait(30)
    return first, tx.get(second_key, 0)


@slow.operation
def pair(tx: Transaction, first_key: str, second_key: str, value: int) -> None:
    tx.put(first_key, value)
    tx.put(second_key, value)


@slow.operation
def work(tx: Transaction, seconds: float) -> str:
    """Keep the processor busy for this time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pass
    return "done"


@slow.operation
def interrupt(tx: Transaction) -> None:
    raise KeyboardInterrupt


@slow.operation
def spin(tx: Transaction) -> None:
    """Keep the processor busy for ever."""
    while True:
        pass
