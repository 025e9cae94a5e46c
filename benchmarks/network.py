"""A cluster in one process: real replicas and one queue of messages.

There is no simulator, no codec and no disk, so the replicas alone are measured. Messages are
delivered in the order of sending, immediately, or never if they cross a partition. Protocol and
execution are timed separately: tasks run when no message is left. With `immediate`, the tasks of
each message run before the next message, and all time counts as the protocol's.
"""

from collections import deque

from benchmarks.timing import Stopwatch
from creekdb.datatypes.counter import COUNTER
from creekdb.execution.datatype import DataType
from creekdb.protocol.effects import Task, TaskKind
from creekdb.protocol.messages import Message
from creekdb.protocol.request import Operation
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.core.replica import Replica
from creekdb.schemes.core.spec import Scheme

TICK_US = 5_000


class Cluster:
    def __init__(
        self,
        settings: Settings,
        immediate: bool = False,
        scheme: Scheme = BasicReplica,
        datatype: DataType = COUNTER,
    ) -> None:
        self.replicas = [scheme(index, settings, datatype) for index in settings.members]
        self.protocol = Stopwatch()
        self.execution = Stopwatch()
        self.executions = 0
        self._immediate = immediate
        self._now = 0
        self._side = [0] * len(self.replicas)
        self._queue: deque[tuple[int, int, Message]] = deque()
        self._tasks: deque[tuple[Replica, Task]] = deque()

    def partition(self, side: tuple[int, ...]) -> None:
        """Drop all messages between the replicas of `side` and the others from now on."""
        for replica in side:
            self._side[replica] = 1

    def heal(self) -> None:
        self._side = [0] * len(self.replicas)

    def tick(self) -> None:
        self._now += TICK_US
        with self.protocol.running():
            for replica in self.replicas:
                replica.tick(self._now)
                self._apply_effects(replica)
        self.run_until_quiet()

    def invoke(self, index: int, operation: Operation, strong: bool) -> None:
        self._now += 1
        replica = self.replicas[index]
        with self.protocol.running():
            replica.invoke(operation, strong, 0, self._now)
            self._apply_effects(replica)
        self.run_until_quiet()

    def run_until_quiet(self) -> None:
        """Deliver and execute until no message and no task is left."""
        while self._queue or self._tasks:
            with self.protocol.running():
                self._deliver()
            with self.execution.running():
                self._execute()

    def is_stable(self) -> bool:
        lengths = {replica.view.committed_length() for replica in self.replicas}
        return len(lengths) == 1 and all(
            replica.view.is_idle() and not replica.view.tentative_ids() for replica in self.replicas
        )

    def _deliver(self) -> None:
        queue, replicas = self._queue, self.replicas
        while queue:
            receiver, sender, message = queue.popleft()
            replica = replicas[receiver]
            replica.receive(message, sender, self._now)
            self._apply_effects(replica)
            if self._immediate:
                self._execute()

    def _execute(self) -> None:
        while self._tasks:
            replica, task = self._tasks.popleft()
            self.executions += task.kind is TaskKind.EXECUTE
            replica.completed(task, replica.run(task), self._now)
            self._apply_effects(replica)

    def _apply_effects(self, replica: Replica) -> None:
        effects = replica.take_effects()
        side, sender = self._side, replica.index
        for send in effects.send:
            for receiver in send.to:
                if side[receiver] == side[sender]:
                    self._queue.append((receiver, sender, send.message))
        self._tasks.extend((replica, task) for task in effects.tasks)
