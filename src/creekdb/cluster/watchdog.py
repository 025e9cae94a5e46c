"""Notices operations that take too long, also those that never end.

A replica executes one operation after the other. One that hangs holds up all others, and executed
inline it stops the replica altogether: then nobody is left to tell but a thread of its own, which
looks at the clock and says what is being executed, and where it is.
"""

import sys
import threading
import time
import traceback
from typing import Any, Final

from creekdb.cluster.logs import OPERATION_LONG, EventLog
from creekdb.cluster.once import described
from creekdb.protocol.request import Operation

LOOKS: Final = 4
"""In the time that an operation may take."""
FRAMES_MAX: Final = 12


class _Running:
    __slots__ = ("begun", "operation", "thread")

    def __init__(self, operation: Operation) -> None:
        self.begun = time.monotonic()
        self.operation = operation
        self.thread = threading.get_ident()


class Watchdog:
    """`begin` and `end` belong to the thread that executes."""

    def __init__(self, limit_s: float, events: EventLog) -> None:
        self._limit_s = limit_s
        self._events = events
        self._running: _Running | None = None
        self._told: _Running | None = None
        self._tell_after_s = limit_s
        self._over = threading.Event()
        self._worker = threading.Thread(target=self._look, name="watchdog", daemon=True)
        self.long = 0
        """Operations that took too long."""
        self.last = ""

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        self._over.set()
        if self._worker.is_alive():
            self._worker.join()

    def begin(self, operation: Operation) -> None:
        self._running = _Running(operation)

    def end(self) -> None:
        running, self._running = self._running, None
        if running is not None and running is self._told:
            took_s = time.monotonic() - running.begun
            self.last = f"{described(running.operation)} took {took_s:.1f} s"
            self._events.warning("operation.ended", self.last)

    def status(self) -> dict[str, Any]:
        running, now = self._running, None
        if running is not None and running is self._told:
            now = f"{described(running.operation)} for {time.monotonic() - running.begun:.1f} s"
        return {"running": now, "long": self.long, "last": self.last or None}

    def _look(self) -> None:
        while not self._over.wait(self._limit_s / LOOKS):
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Tell of what has been running for too long; and again, each time after twice as long."""
        running = self._running
        if running is None:
            return
        begun, operation = running.begun, running.operation
        if running is not self._told:
            self._tell_after_s = self._limit_s
        if now - begun < self._tell_after_s:
            return
        self.long += running is not self._told
        self._told = running
        self._tell_after_s *= 2
        frame = sys._current_frames().get(running.thread)
        stack = traceback.format_stack(frame)[-FRAMES_MAX:] if frame is not None else []
        self._events.error(
            OPERATION_LONG,
            f"{described(operation)} has been running for {now - begun:.1f} s: others wait for it",
            operation=operation.name,
            trace="".join(stack),
        )
