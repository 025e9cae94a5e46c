"""Executors of a replica's tasks, and the watchdog for long operations.

`InlineExecutor` runs tasks on the loop, in slices of bounded length. Messages, ticks and clients
get their turns between slices, however many tasks there are. Only a long operation delays them.
`ThreadExecutor` runs tasks in a thread of its own. There a long operation delays only other
operations, but each task costs more, because two threads alternate.

A replica executes one operation after the other, so an operation that hangs blocks all others.
Executed inline, it blocks the whole replica. Therefore the watchdog has a thread of its own, which
reports the running operation and its stack.
"""

import asyncio
import queue
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import Task
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica
from creekdb.server.runtime.replica_lock import ReplicaLock
from creekdb.wire.deduplication import describe_call
from creekdb.wire.event_log import EventLog, EventName

CHECKS_PER_LIMIT: Final = 4
"""Number of checks within the time limit of an operation."""
STACK_FRAMES_MAX: Final = 12


class RunningOperation:
    """Operation that is being executed, its start time and its thread.

    Compared by identity. Compiled code copies a tuple, and a copy is another object.
    """

    __slots__ = ("operation", "started_s", "thread")

    def __init__(self, operation: Operation, started_s: float, thread: int) -> None:
        self.operation = operation
        self.started_s = started_s
        self.thread = thread


class Watchdog:
    """Reports operations that run for too long, including those that never end.

    The executing thread calls `begin` and `end`.
    """

    def __init__(self, limit_s: float, events: EventLog) -> None:
        self._limit_s = limit_s
        self._events = events
        self._running: RunningOperation | None = None
        self._reported: RunningOperation | None = None
        self._report_after_s = limit_s
        self._stop_event = threading.Event()
        self._worker = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self.long_count = 0
        """Number of operations that exceeded the limit."""
        self.last_report = ""

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        self._stop_event.set()
        if self._worker.is_alive():
            self._worker.join()

    def begin(self, operation: Operation, started_s: float, thread: int | None = None) -> None:
        """Record the beginning of an operation in a thread, by default the current one."""
        self._running = RunningOperation(
            operation, started_s, threading.get_ident() if thread is None else thread
        )

    def end(self) -> None:
        running, self._running = self._running, None
        if running is not None and running is self._reported:
            elapsed_s = time.monotonic() - running.started_s
            self.last_report = f"{describe_call(running.operation)} took {elapsed_s:.1f} s"
            self._events.warning(EventName.OPERATION_ENDED, self.last_report)

    def status(self) -> dict[str, Any]:
        running, description = self._running, None
        if running is not None and running is self._reported:
            elapsed_s = time.monotonic() - running.started_s
            description = f"{describe_call(running.operation)} for {elapsed_s:.1f} s"
        return {"running": description, "long": self.long_count, "last": self.last_report or None}

    def _run(self) -> None:
        while not self._stop_event.wait(self._limit_s / CHECKS_PER_LIMIT):
            self.check(time.monotonic())

    def check(self, now_s: float) -> None:
        """Report an operation that exceeds the limit, and again each time its duration doubles."""
        running = self._running
        if running is None:
            return
        if running is not self._reported:
            self._report_after_s = self._limit_s
        running_s = now_s - running.started_s
        if running_s < self._report_after_s:
            return
        self.long_count += running is not self._reported
        self._reported = running
        self._report_after_s *= 2
        frame = sys._current_frames().get(running.thread)
        stack = traceback.format_stack(frame)[-STACK_FRAMES_MAX:] if frame is not None else []
        self._events.error(
            EventName.OPERATION_LONG,
            f"{describe_call(running.operation)} has been running for {running_s:.1f} s and "
            "blocks other operations",
            operation=running.operation.name,
            trace="".join(stack),
        )


SLICE_S_MIN: Final = 0.004
"""Shortest time slice for tasks before other callbacks of the loop get their turn, in seconds."""
SLICE_S_MAX: Final = 0.1
JOIN_TIMEOUT_S: Final = 2.0
"""Time limit for joining a thread, in seconds."""


class TimeSlices:
    """Share of the loop's time for tasks.

    A slice is as long as the other callbacks took since the previous slice. So tasks get half of
    the time of a loop that many messages keep busy, and the replica does not accept work faster
    than it executes it.
    """

    def __init__(self) -> None:
        self._previous_end_s: float | None = None
        """End of the previous slice, or None if it completed all tasks."""

    def begin(self, now_s: float) -> float:
        """Begin a slice. Return its deadline."""
        elapsed_s = 0.0 if self._previous_end_s is None else now_s - self._previous_end_s
        return now_s + min(max(elapsed_s, SLICE_S_MIN), SLICE_S_MAX)

    def end(self, now_s: float, has_more: bool) -> None:
        """End a slice. `has_more` is True if tasks wait for the next one."""
        self._previous_end_s = now_s if has_more else None


class Executor(ABC):
    """Executor of a replica's tasks. If a task fails, `on_internal_error` is called on the loop."""

    def __init__(
        self,
        lock: AbstractContextManager[None],
        watchdog: Watchdog,
        on_internal_error: Callable[[Exception], None],
    ) -> None:
        self.lock = lock
        """Lock that every other user of the replica must hold."""
        self.executions = 0
        self.execution_time_s = 0.0
        self._slices = TimeSlices()
        self._watchdog = watchdog
        self._on_internal_error = on_internal_error
        self._loop = asyncio.get_running_loop()

    def start(self, replica: Replica, completed: Callable[[Task, ExecutionResult], None]) -> None:
        """Start execution. `completed` is called on the loop."""
        self._replica = replica
        self._completed = completed

    @abstractmethod
    def submit(self, tasks: tuple[Task, ...]) -> None: ...

    @abstractmethod
    def pending_count(self) -> int:
        """Return the number of tasks that are not completed."""

    @abstractmethod
    def halt(self) -> None:
        """Stop execution. No further task is completed."""


class InlineExecutor(Executor):
    """Executor on the loop, for a replica that is not shared between threads."""

    def __init__(self, watchdog: Watchdog, on_internal_error: Callable[[Exception], None]) -> None:
        super().__init__(nullcontext(), watchdog, on_internal_error)
        self._tasks: deque[Task] = deque()
        self._is_scheduled = False

    def submit(self, tasks: tuple[Task, ...]) -> None:
        self._tasks.extend(tasks)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_slice)

    def pending_count(self) -> int:
        return len(self._tasks)

    def halt(self) -> None:
        self._tasks.clear()

    def _run_slice(self) -> None:
        tasks, watchdog, replica = self._tasks, self._watchdog, self._replica
        thread = threading.get_ident()
        started_s = now_s = time.monotonic()
        deadline_s = self._slices.begin(now_s)
        try:
            while tasks and now_s < deadline_s:
                task = tasks.popleft()
                watchdog.begin(task.request.operation, now_s, thread)
                execution = replica.run(task)
                watchdog.end()
                self.executions += 1
                self._completed(task, execution)
                now_s = time.monotonic()
        except Exception as error:
            self._on_internal_error(error)
            raise
        self.execution_time_s += now_s - started_s
        self._is_scheduled = bool(tasks)
        self._slices.end(now_s, self._is_scheduled)
        if self._is_scheduled:
            self._loop.call_soon(self._run_slice)


class ThreadExecutor(Executor):
    """Executor in a thread."""

    def __init__(
        self, lock: ReplicaLock, watchdog: Watchdog, on_internal_error: Callable[[Exception], None]
    ) -> None:
        super().__init__(lock, watchdog, on_internal_error)
        self._replica_lock = lock
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._completed_tasks: deque[tuple[Task, ExecutionResult]] = deque()
        self._is_completion_scheduled = False
        """True if a call of `_complete_slice` is scheduled on the loop."""
        self._is_halted = False
        self._in_flight = 0
        self._worker = threading.Thread(target=self._run_worker, name="operations", daemon=True)

    def start(self, replica: Replica, completed: Callable[[Task, ExecutionResult], None]) -> None:
        super().start(replica, completed)
        self._worker.start()

    def submit(self, tasks: tuple[Task, ...]) -> None:
        for task in tasks:
            self._in_flight += 1
            self._tasks.put(task)

    def pending_count(self) -> int:
        return self._in_flight

    def halt(self) -> None:
        """Stop execution. A thread in an operation that never ends is not joined: it ends with the
        process."""
        self._is_halted = True
        self._tasks.put(None)
        if self._worker.is_alive():
            self._worker.join(JOIN_TIMEOUT_S)

    def _run_worker(self) -> None:
        """Run tasks until `halt`."""
        self._replica_lock.executor_thread = threading.get_ident()
        try:
            while (task := self._tasks.get()) is not None and not self._is_halted:
                self._completed_tasks.append((task, self._run(task)))
                if not self._is_completion_scheduled:
                    self._is_completion_scheduled = True
                    self._call_on_loop(self._complete_slice)
        except Exception as error:  # noqa: BLE001 - reported to the loop, or callers wait for ever
            self._call_on_loop(self._on_internal_error, error)

    def _run(self, task: Task) -> ExecutionResult:
        started_s = time.monotonic()
        self._watchdog.begin(task.request.operation, started_s)
        self._replica_lock.acquire()
        try:
            return self._replica.run(task)
        finally:
            self._replica_lock.release()
            self._watchdog.end()
            self.execution_time_s += time.monotonic() - started_s

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _complete_slice(self) -> None:
        """Complete tasks for one slice. A task that finishes later schedules another slice."""
        self._is_completion_scheduled = False
        now_s = time.monotonic()
        deadline_s = self._slices.begin(now_s)
        while self._completed_tasks and not self._is_halted:
            task, execution = self._completed_tasks.popleft()
            self._in_flight -= 1
            self.executions += 1
            self._completed(task, execution)
            now_s = time.monotonic()
            if now_s >= deadline_s:
                if not self._is_completion_scheduled:
                    self._is_completion_scheduled = True
                    self._loop.call_soon(self._complete_slice)
                break
        self._slices.end(now_s, bool(self._completed_tasks))
