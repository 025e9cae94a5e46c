"""The cores of one node: tasks wait in line for a free core and take their time on it.

A task is run, for its result and its cost, the moment a core takes it up; the result is reported
when the core is done. Handling messages and ticks costs nothing: only execution is charged. The
model knows nothing of what a task does.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from creekdb.execution.result import Execution
from creekdb.protocol.effects import Task, Work
from creekdb.simulation.kernel.simulated_time import EventHeap

Cost: TypeAlias = Callable[[Task, Execution], int]
"""How long a task takes on a core, in microseconds."""


class Cpu:
    __slots__ = (
        "_cores",
        "_cost",
        "_done",
        "_epoch",
        "_free",
        "_heap",
        "_queue",
        "_run",
        "busy_us",
        "executions",
        "factor",
        "rollbacks",
    )

    def __init__(
        self,
        heap: EventHeap,
        cores: int,
        cost: Cost,
        run: Callable[[Task], Execution],
        done: Callable[[Task, Execution], None],
    ) -> None:
        self._heap = heap
        self._cores = self._free = cores
        self._cost = cost
        self._run = run
        self._done = done
        self._queue: deque[Task] = deque()
        self._epoch = 0
        self.factor = 1.0
        """How many times slower than usual, for tasks that start from now on."""
        self.busy_us = 0
        self.executions = 0
        self.rollbacks = 0

    def submit(self, task: Task) -> None:
        if self._free:
            self._free -= 1
            self._start(task)
        else:
            self._queue.append(task)

    def idle(self) -> bool:
        return self._free == self._cores

    def reset(self) -> None:
        """A crash: what runs and what waits is gone."""
        self._epoch += 1
        self._queue.clear()
        self._free = self._cores

    def _start(self, task: Task) -> None:
        execution = self._run(task)
        duration_us = int(self._cost(task, execution) * self.factor)
        self.busy_us += duration_us
        if task.work is Work.EXECUTE:
            self.executions += 1
        else:
            self.rollbacks += 1
        self._heap.after(duration_us, self._finish, task, execution, self._epoch)

    def _finish(self, task: Task, execution: Execution, epoch: int) -> None:
        if epoch != self._epoch:
            return
        # Reported before the core takes up the next task, which thus sees the result installed.
        self._done(task, execution)
        if self._queue:
            self._start(self._queue.popleft())
        else:
            self._free += 1
