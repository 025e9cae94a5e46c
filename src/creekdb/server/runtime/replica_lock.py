"""Lock of a replica that two threads use: the loop feeds it, the other executes its operations.

The replica is not thread-safe, so only one thread holds the lock at a time. The code of an
operation runs without the lock, and acquires it for each access to the state. So the loop never
waits longer than one access takes, however long the operation is.

The state may change in the meantime. Replicas are prepared for that: they validate the reads of an
operation before its result counts. A read-only operation without a position in the order skips this
validation, so `LockedDataType` validates it here.
"""

import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from creekdb.execution.datatype import DataType, DataTypeWrapper
from creekdb.execution.keys import CollationKey
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import SCAN_BATCH_MAX, RangeScan, View
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key

SPIN_PAUSE_S: Final = 0.00005
READ_ATTEMPTS_MAX: Final = 3
"""Attempts to read an unchanged state without the lock. The next attempt holds the lock."""


class ReplicaLock:
    """Lock with priority for the loop, which uses it as a context manager.

    The executor thread calls `acquire` and `release`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_loop_waiting = False
        self.executor_thread = 0
        """Identifier of the executor thread."""

    def __enter__(self) -> None:
        self._is_loop_waiting = True
        self._lock.acquire()
        self._is_loop_waiting = False

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def acquire(self) -> None:
        while self._is_loop_waiting:
            time.sleep(SPIN_PAUSE_S)
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()


class LockedDataType(DataTypeWrapper):
    """Data type whose operations run without the lock."""

    def __init__(self, datatype: DataType, lock: ReplicaLock) -> None:
        super().__init__(datatype)
        self._inner = datatype
        self._lock = lock

    def run(self, request: Request, view: View) -> ExecutionResult:
        if threading.get_ident() != self._lock.executor_thread:
            return self._inner.run(request, view)
        if request.id.event > 0 or not isinstance(view, StoreSnapshot):
            return self._run_unlocked(request, view)
        for _ in range(READ_ATTEMPTS_MAX):
            execution = self._run_unlocked(request, view)
            if view.is_current():
                return execution
            view.reset()
        return self._inner.run(request, view)

    def _run_unlocked(self, request: Request, view: View) -> ExecutionResult:
        self._lock.release()
        try:
            return self._inner.run(request, LockedView(view, self._lock))
        finally:
            self._lock.acquire()


class LockedView:
    """`View` that holds the lock only during an access."""

    __slots__ = ("_lock", "_view")

    def __init__(self, view: View, lock: ReplicaLock) -> None:
        self._view = view
        self._lock = lock

    def read(self, key: Key) -> Any:
        self._lock.acquire()
        try:
            return self._view.read(key)
        finally:
            self._lock.release()

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        self._lock.acquire()
        try:
            return self._view.pick(key, items)
        finally:
            self._lock.release()

    def is_addable(self, key: Key) -> bool:
        self._lock.acquire()
        try:
            return self._view.is_addable(key)
        finally:
            self._lock.release()

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """Yield the keys in batches of growing size. Each batch continues after the last key, since
        the keys may have changed in between."""
        scan = RangeScan(start, stop, reverse)
        batch_size = 1
        while True:
            self._lock.acquire()
            try:
                keys = self._view.keys(scan.start, scan.stop, reverse)
                batch = list(islice(keys, batch_size))
            finally:
                self._lock.release()
            yield from batch
            if len(batch) < batch_size:
                return
            scan = scan.after(batch[-1])
            batch_size = min(batch_size * 2, SCAN_BATCH_MAX)

    def pick_range(
        self, scan: RangeScan, items: tuple[int | str, ...], limit: int
    ) -> list[tuple[Key, Any]]:
        self._lock.acquire()
        try:
            return self._view.pick_range(scan, items, limit)
        finally:
            self._lock.release()
