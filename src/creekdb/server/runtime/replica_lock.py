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

from creekdb.execution.datatype import DataType, StandIn
from creekdb.execution.keys import Place, place
from creekdb.execution.mvcc.snapshot import Snapshot
from creekdb.execution.result import Execution
from creekdb.execution.transaction import View
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key

PAUSE_S: Final = 0.00005
KEYS_AT_ONCE: Final = 64
"""Of a scan, in one look."""
TRIES: Final = 3
"""To read something that does not change meanwhile; then it is read from inside."""


class Gate:
    """The loop uses it as a context, and is let in first; the other thread calls its methods."""

    __slots__ = ("_lock", "_wanted", "thread")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = False
        self.thread = 0
        """The one that executes."""

    def __enter__(self) -> None:
        self._wanted = True
        self._lock.acquire()
        self._wanted = False

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def enter(self) -> None:
        while self._wanted:
            time.sleep(PAUSE_S)
        self._lock.acquire()

    def leave(self) -> None:
        self._lock.release()


class Guarded(StandIn):
    """A data type whose operations run outside."""

    def __init__(self, datatype: DataType, gate: Gate) -> None:
        super().__init__(datatype)
        self._guarded = datatype
        self._gate = gate

    def run(self, request: Request, view: View) -> Execution:
        if threading.get_ident() != self._gate.thread:
            return self._guarded.run(request, view)
        if request.id.event > 0 or not isinstance(view, Snapshot):
            return self._run_outside(request, view)
        for _ in range(TRIES):
            execution = self._run_outside(request, view)
            if view.is_current():
                return execution
            view.begin_again()
        return self._guarded.run(request, view)

    def _run_outside(self, request: Request, view: View) -> Execution:
        self._gate.leave()
        try:
            return self._guarded.run(request, GuardedView(view, self._gate))
        finally:
            self._gate.enter()


class GuardedView:
    """A `View` for one who is outside."""

    __slots__ = ("_gate", "_view")

    def __init__(self, view: View, gate: Gate) -> None:
        self._view = view
        self._gate = gate

    def read(self, key: Key) -> Any:
        self._gate.enter()
        try:
            return self._view.read(key)
        finally:
            self._gate.leave()

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        self._gate.enter()
        try:
            return self._view.pick(key, items)
        finally:
            self._gate.leave()

    def addable(self, key: Key) -> bool:
        self._gate.enter()
        try:
            return self._view.addable(key)
        finally:
            self._gate.leave()

    def keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        """A few more at a time, and each time from where the last one was: what lies there may be
        another list by then."""
        at_once = 1
        while True:
            self._gate.enter()
            try:
                some = list(islice(self._view.keys(start, stop, reverse), at_once))
            finally:
                self._gate.leave()
            yield from some
            if len(some) < at_once:
                return
            if reverse:
                stop = place(some[-1])
            else:
                start = (*place(some[-1]), -1)
            at_once = min(at_once * 2, KEYS_AT_ONCE)
