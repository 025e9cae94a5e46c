"""Model of the cores of one node: tasks queue for a free core and occupy it for their duration.

A core runs a task, for its result and its cost, at the moment it starts the task. It reports the
result when the duration has passed. Handling messages and ticks is free; only execution is charged.
The model is independent of the content of tasks.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import Task, TaskKind
from creekdb.simulation.kernel.simulated_time import EventHeap

TaskCost: TypeAlias = Callable[[Task, ExecutionResult], int]
"""Returns the duration of a task on a core, in microseconds."""


class Cpu:
    def __init__(
        self,
        heap: EventHeap,
        cores: int,
        cost: TaskCost,
        run: Callable[[Task], ExecutionResult],
        on_done: Callable[[Task, ExecutionResult], None],
    ) -> None:
        self._heap = heap
        self._cores = self._free_cores = cores
        self._cost = cost
        self._run = run
        self._on_done = on_done
        self._queue: deque[Task] = deque()
        self._epoch = 0
        self.slowdown_factor = 1.0
        """Factor on the duration of tasks that start from now on."""
        self.busy_us = 0
        self.executions = 0
        self.rollbacks = 0

    def submit(self, task: Task) -> None:
        if self._free_cores:
            self._free_cores -= 1
            self._start(task)
        else:
            self._queue.append(task)

    def is_idle(self) -> bool:
        return self._free_cores == self._cores

    def reset(self) -> None:
        """Drop all running and queued tasks, as a crash does."""
        self._epoch += 1
        self._queue.clear()
        self._free_cores = self._cores

    def _start(self, task: Task) -> None:
        execution = self._run(task)
        duration_us = int(self._cost(task, execution) * self.slowdown_factor)
        self.busy_us += duration_us
        if task.kind is TaskKind.EXECUTE:
            self.executions += 1
        else:
            self.rollbacks += 1
        self._heap.schedule_after(duration_us, self._finish, task, execution, self._epoch)

    def _finish(self, task: Task, execution: ExecutionResult, epoch: int) -> None:
        if epoch != self._epoch:
            return
        # Reported before the core starts the next task, which therefore sees the result installed.
        self._on_done(task, execution)
        if self._queue:
            self._start(self._queue.popleft())
        else:
            self._free_cores += 1
