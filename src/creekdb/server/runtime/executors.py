"""Notices operations that take too long, also those that never end.

A replica executes one operation after the other. One that hangs holds up all others, and executed
inline it stops the replica altogether: then nobody is left to tell but a thread of its own, which
looks at the clock and says what is being executed, and where it is.

Where a replica's tasks are run: inline, between what the loop does, or in a thread of their own.

Inline, tasks are run in turns, and a turn ends after a while: messages, ticks and other clients
come in between, however much there is to execute. Only an operation that takes long itself holds
them up. In a thread, such an operation holds up other operations only; but each costs more, for two
threads take turns.
"""

import asyncio
import queue
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from creekdb.execution.result import Execution
from creekdb.protocol.effects import Task
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica
from creekdb.server.runtime.replica_lock import Gate
from creekdb.wire.deduplication import described
from creekdb.wire.event_log import OPERATION_LONG, EventLog

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


TURN_S: Final = 0.004
"""How long tasks are run before others have their turn."""
STOP_S: Final = 2.0
"""How long a thread is waited for that is to end."""


class Executor(Protocol):
    gate: AbstractContextManager[None]
    """To be held by whoever else uses the replica."""
    executions: int
    executing_s: float

    def begin(self, replica: Replica, completed: Callable[[Task, Execution], None]) -> None:
        """`completed` is called on the loop."""

    def submit(self, tasks: tuple[Task, ...]) -> None: ...

    def waiting(self) -> int:
        """Tasks that are not completed."""

    def halt(self) -> None:
        """Nothing more is completed."""


class NoGate:
    """For who shares the replica with nobody."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Inline:
    """`broke` is called when a task cannot be carried out, and then no other is."""

    def __init__(self, watchdog: Watchdog, broke: Callable[[Exception], None]) -> None:
        self.gate: AbstractContextManager[None] = NoGate()
        self.executions = 0
        self.executing_s = 0.0
        self._watchdog = watchdog
        self._broke = broke
        self._loop = asyncio.get_running_loop()
        self._tasks: deque[Task] = deque()
        self._working = False

    def begin(self, replica: Replica, completed: Callable[[Task, Execution], None]) -> None:
        self._replica = replica
        self._completed = completed

    def submit(self, tasks: tuple[Task, ...]) -> None:
        self._tasks.extend(tasks)
        if not self._working:
            self._working = True
            self._loop.call_soon(self._work)

    def waiting(self) -> int:
        return len(self._tasks)

    def halt(self) -> None:
        self._tasks.clear()

    def _work(self) -> None:
        try:
            self._take_turn()
        except Exception as error:
            self._broke(error)
            raise

    def _take_turn(self) -> None:
        tasks, watchdog = self._tasks, self._watchdog
        begun = now = time.monotonic()
        while tasks:
            task = tasks.popleft()
            watchdog.begin(task.request.operation)
            execution = self._replica.run(task)
            watchdog.end()
            self.executions += 1
            self._completed(task, execution)
            now = time.monotonic()
            if now >= begun + TURN_S:
                break
        self.executing_s += now - begun
        self._working = bool(tasks)
        if self._working:
            self._loop.call_soon(self._work)


class Threaded:
    """`broke` is called on the loop when the thread breaks off."""

    def __init__(self, gate: Gate, watchdog: Watchdog, broke: Callable[[Exception], None]) -> None:
        self.gate: AbstractContextManager[None] = gate
        self.executions = 0
        self.executing_s = 0.0
        self._inside = gate
        self._watchdog = watchdog
        self._broke = broke
        self._loop = asyncio.get_running_loop()
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._done: deque[tuple[Task, Execution]] = deque()
        self._told = False
        """Does the loop know that something is done?"""
        self._halted = False
        self._under_way = 0
        self._worker = threading.Thread(target=self._work, name="operations", daemon=True)

    def begin(self, replica: Replica, completed: Callable[[Task, Execution], None]) -> None:
        self._replica = replica
        self._completed = completed
        self._worker.start()

    def submit(self, tasks: tuple[Task, ...]) -> None:
        for task in tasks:
            self._under_way += 1
            self._tasks.put(task)

    def waiting(self) -> int:
        return self._under_way

    def halt(self) -> None:
        """One who executes an operation that never ends is left alone: it ends with the process."""
        self._halted = True
        self._tasks.put(None)
        if self._worker.is_alive():
            self._worker.join(STOP_S)

    def _work(self) -> None:
        """What the thread does."""
        self._inside.thread = threading.get_ident()
        try:
            while (task := self._tasks.get()) is not None and not self._halted:
                self._done.append((task, self._run(task)))
                if not self._told:
                    self._told = True
                    self._call(self._complete)
        except Exception as error:  # noqa: BLE001 - told to whoever waits, or they wait for ever
            self._call(self._broke, error)

    def _run(self, task: Task) -> Execution:
        begun = time.monotonic()
        self._watchdog.begin(task.request.operation)
        self._inside.enter()
        try:
            return self._replica.run(task)
        finally:
            self._inside.leave()
            self._watchdog.end()
            self.executing_s += time.monotonic() - begun

    def _call(self, callback: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _complete(self) -> None:
        """A turn of the loop. What is done after the look below has its own."""
        self._told = False
        until = time.monotonic() + TURN_S
        while self._done and not self._halted:
            task, execution = self._done.popleft()
            self._under_way -= 1
            self.executions += 1
            self._completed(task, execution)
            if time.monotonic() >= until:
                if not self._told:
                    self._told = True
                    self._loop.call_soon(self._complete)
                return
