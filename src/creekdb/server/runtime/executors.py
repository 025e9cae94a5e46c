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

from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import Task
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica
from creekdb.server.runtime.replica_lock import ReplicaLock
from creekdb.wire.deduplication import describe_call
from creekdb.wire.event_log import OPERATION_LONG, EventLog

CHECKS_PER_LIMIT: Final = 4
"""In the time that an operation may take."""
STACK_FRAMES_MAX: Final = 12


class _RunningOperation:
    __slots__ = ("operation", "started_s", "thread")

    def __init__(self, operation: Operation) -> None:
        self.started_s = time.monotonic()
        self.operation = operation
        self.thread = threading.get_ident()


class Watchdog:
    """`begin` and `end` belong to the thread that executes."""

    def __init__(self, limit_s: float, events: EventLog) -> None:
        self._limit_s = limit_s
        self._events = events
        self._running: _RunningOperation | None = None
        self._reported: _RunningOperation | None = None
        self._report_after_s = limit_s
        self._stop_event = threading.Event()
        self._worker = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self.long_count = 0
        """Operations that took too long."""
        self.last_report = ""

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        self._stop_event.set()
        if self._worker.is_alive():
            self._worker.join()

    def begin(self, operation: Operation) -> None:
        self._running = _RunningOperation(operation)

    def end(self) -> None:
        running, self._running = self._running, None
        if running is not None and running is self._reported:
            took_s = time.monotonic() - running.started_s
            self.last_report = f"{describe_call(running.operation)} took {took_s:.1f} s"
            self._events.warning("operation.ended", self.last_report)

    def status(self) -> dict[str, Any]:
        running, now = self._running, None
        if running is not None and running is self._reported:
            now = (
                f"{describe_call(running.operation)} for "
                f"{time.monotonic() - running.started_s:.1f} s"
            )
        return {"running": now, "long": self.long_count, "last": self.last_report or None}

    def _run(self) -> None:
        while not self._stop_event.wait(self._limit_s / CHECKS_PER_LIMIT):
            self.check(time.monotonic())

    def check(self, now: float) -> None:
        """Tell of what has been running for too long; and again, each time after twice as long."""
        running = self._running
        if running is None:
            return
        begun, operation = running.started_s, running.operation
        if running is not self._reported:
            self._report_after_s = self._limit_s
        if now - begun < self._report_after_s:
            return
        self.long_count += running is not self._reported
        self._reported = running
        self._report_after_s *= 2
        frame = sys._current_frames().get(running.thread)
        stack = traceback.format_stack(frame)[-STACK_FRAMES_MAX:] if frame is not None else []
        self._events.error(
            OPERATION_LONG,
            f"{describe_call(operation)} has been running for {now - begun:.1f} s: others "
            "wait for it",
            operation=operation.name,
            trace="".join(stack),
        )


SLICE_S: Final = 0.004
"""How long tasks are run before others have their turn."""
JOIN_TIMEOUT_S: Final = 2.0
"""How long a thread is waited for that is to end."""


class Executor(Protocol):
    lock: AbstractContextManager[None]
    """To be held by whoever else uses the replica."""
    executions: int
    execution_time_s: float

    def start(self, replica: Replica, completed: Callable[[Task, ExecutionResult], None]) -> None:
        """`completed` is called on the loop."""

    def submit(self, tasks: tuple[Task, ...]) -> None: ...

    def pending_count(self) -> int:
        """Tasks that are not completed."""

    def halt(self) -> None:
        """Nothing more is completed."""


class NoLock:
    """For who shares the replica with nobody."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class InlineExecutor:
    """`broke` is called when a task cannot be carried out, and then no other is."""

    def __init__(self, watchdog: Watchdog, broke: Callable[[Exception], None]) -> None:
        self.lock: AbstractContextManager[None] = NoLock()
        self.executions = 0
        self.execution_time_s = 0.0
        self._watchdog = watchdog
        self._on_internal_error = broke
        self._loop = asyncio.get_running_loop()
        self._tasks: deque[Task] = deque()
        self._is_scheduled = False

    def start(self, replica: Replica, completed: Callable[[Task, ExecutionResult], None]) -> None:
        self._replica = replica
        self._completed = completed

    def submit(self, tasks: tuple[Task, ...]) -> None:
        self._tasks.extend(tasks)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_slice_guarded)

    def pending_count(self) -> int:
        return len(self._tasks)

    def halt(self) -> None:
        self._tasks.clear()

    def _run_slice_guarded(self) -> None:
        try:
            self._run_slice()
        except Exception as error:
            self._on_internal_error(error)
            raise

    def _run_slice(self) -> None:
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
            if now >= begun + SLICE_S:
                break
        self.execution_time_s += now - begun
        self._is_scheduled = bool(tasks)
        if self._is_scheduled:
            self._loop.call_soon(self._run_slice_guarded)


class ThreadExecutor:
    """`broke` is called on the loop when the thread breaks off."""

    def __init__(
        self, gate: ReplicaLock, watchdog: Watchdog, broke: Callable[[Exception], None]
    ) -> None:
        self.lock: AbstractContextManager[None] = gate
        self.executions = 0
        self.execution_time_s = 0.0
        self._replica_lock = gate
        self._watchdog = watchdog
        self._on_internal_error = broke
        self._loop = asyncio.get_running_loop()
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._completed_tasks: deque[tuple[Task, ExecutionResult]] = deque()
        self._is_completion_scheduled = False
        """Does the loop know that something is done?"""
        self._is_halted = False
        self._in_flight = 0
        self._worker = threading.Thread(target=self._run_worker, name="operations", daemon=True)

    def start(self, replica: Replica, completed: Callable[[Task, ExecutionResult], None]) -> None:
        self._replica = replica
        self._completed = completed
        self._worker.start()

    def submit(self, tasks: tuple[Task, ...]) -> None:
        for task in tasks:
            self._in_flight += 1
            self._tasks.put(task)

    def pending_count(self) -> int:
        return self._in_flight

    def halt(self) -> None:
        """One who executes an operation that never ends is left alone: it ends with the process."""
        self._is_halted = True
        self._tasks.put(None)
        if self._worker.is_alive():
            self._worker.join(JOIN_TIMEOUT_S)

    def _run_worker(self) -> None:
        """What the thread does."""
        self._replica_lock.executor_thread = threading.get_ident()
        try:
            while (task := self._tasks.get()) is not None and not self._is_halted:
                self._completed_tasks.append((task, self._run(task)))
                if not self._is_completion_scheduled:
                    self._is_completion_scheduled = True
                    self._call_on_loop(self._complete_slice)
        except Exception as error:  # noqa: BLE001 - told to whoever waits, or they wait for ever
            self._call_on_loop(self._on_internal_error, error)

    def _run(self, task: Task) -> ExecutionResult:
        begun = time.monotonic()
        self._watchdog.begin(task.request.operation)
        self._replica_lock.acquire()
        try:
            return self._replica.run(task)
        finally:
            self._replica_lock.release()
            self._watchdog.end()
            self.execution_time_s += time.monotonic() - begun

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _complete_slice(self) -> None:
        """A turn of the loop. What is done after the look below has its own."""
        self._is_completion_scheduled = False
        until = time.monotonic() + SLICE_S
        while self._completed_tasks and not self._is_halted:
            task, execution = self._completed_tasks.popleft()
            self._in_flight -= 1
            self.executions += 1
            self._completed(task, execution)
            if time.monotonic() >= until:
                if not self._is_completion_scheduled:
                    self._is_completion_scheduled = True
                    self._loop.call_soon(self._complete_slice)
                return
