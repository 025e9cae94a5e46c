"""A replica that two threads use: the loop feeds it, another one executes its operations.

The replica is not made for that, so only one of them is inside at a time. But the code of an
operation runs outside: it goes in for each look at the state, and out again. So the loop never
waits for longer than such a look takes, however long the operation.

Meanwhile the state may change. That is what replicas are prepared for: what an operation has read
is looked at again before it counts. Only one that is answered without that, because it only reads
and takes no place in the order, is looked at here.
"""

import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from creekdb.execution.datatype import DataType, DataTypeWrapper
from creekdb.execution.keys import CollationKey, collation_key
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import View
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key

SPIN_PAUSE_S: Final = 0.00005
SCAN_BATCH_MAX: Final = 64
"""Of a scan, in one look."""
READ_ATTEMPTS_MAX: Final = 3
"""To read something that does not change meanwhile; then it is read from inside."""


class ReplicaLock:
    """The loop uses it as a context, and is let in first; the other thread calls its methods."""

    __slots__ = ("_is_loop_waiting", "_lock", "executor_thread")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_loop_waiting = False
        self.executor_thread = 0
        """The one that executes."""

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
    """A data type whose operations run outside."""

    def __init__(self, datatype: DataType, gate: ReplicaLock) -> None:
        super().__init__(datatype)
        self._inner = datatype
        self._lock = gate

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
    """A `View` for one who is outside."""

    __slots__ = ("_lock", "_view")

    def __init__(self, view: View, gate: ReplicaLock) -> None:
        self._view = view
        self._lock = gate

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
        """A few more at a time, and each time from where the last one was: what lies there may be
        another list by then."""
        at_once = 1
        while True:
            self._lock.acquire()
            try:
                some = list(islice(self._view.keys(start, stop, reverse), at_once))
            finally:
                self._lock.release()
            yield from some
            if len(some) < at_once:
                return
            if reverse:
                stop = collation_key(some[-1])
            else:
                start = (*collation_key(some[-1]), -1)
            at_once = min(at_once * 2, SCAN_BATCH_MAX)
