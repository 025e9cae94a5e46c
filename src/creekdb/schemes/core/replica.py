"""Contract between a replica and its driver, which is the simulator or a live server.

A replica is a deterministic state machine without I/O. A driver passes inputs to it, one at a time,
and takes and processes the effects of each input. `creekdb.protocol.effects` states the obligations
of each effect. Replica and driver share nothing else, so a replica cannot detect its driver.

`now` is the local wall clock in microseconds. It may be wrong, drift and jump: it only ever
influences the timestamps of requests, and how long a leader holds a proposal. `tick` is called at a
steady rate, independent of the clock.
"""

from collections.abc import Iterable
from typing import Protocol

from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import IncomingMessage
from creekdb.protocol.effects import Effects, Task
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Record
from creekdb.protocol.request import Operation
from creekdb.schemes.core.view import ReplicaView


class Replica(Protocol):
    """Inputs of a replica, and the effects of those inputs."""

    index: int
    guarantees: SchemeGuarantees
    """Guarantees of the scheme, identical on every replica."""

    view: ReplicaView
    """State for observers."""

    def recover(self, records: Iterable[Record]) -> None:
        """Resume from the durable `records`. Called at most once, before any other input."""

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        """Issue a request of the session and return its identifier.

        `after`: requests, already received, that must precede this one in its tentative response,
        like the session's earlier requests.
        """

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None: ...

    def tick(self, now: int) -> None: ...

    def wake(self, now: int) -> None:
        """Process the wake that `Effects.wake_at` requested. An unexpected one has no effect."""

    def run(self, task: Task) -> ExecutionResult:
        """Run a task without changing the replica, between its issue and `completed`."""

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None: ...

    def take_tasks(self) -> tuple[Task, ...]:
        """Take the tasks ahead of the other effects. A driver with capacity for one more task runs
        it first and processes the other effects together with the task's own."""

    def take_effects(self) -> Effects: ...
