"""Harness for replica 0 of three, whose peers and executor are played by the test.

The test chooses the timestamps of the peers' requests and the decisions of consensus. An issued
task waits until the test runs it.
"""

from collections import Counter
from typing import Any

from creekdb.datatypes.kv import KV
from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import RequestEntry
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import Committed, Response, ResponseKind, Send, Task
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.messages import Cast, Decisions, Record
from creekdb.protocol.request import Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica

TASKS_MAX = 100_000
"""Number of tasks above which the execution is considered endless."""


class SingleReplica:
    def __init__(self, datatype: DataType = KV, **settings: int) -> None:
        self.settings = Settings(members=(0, 1, 2), **settings)
        self.datatype = datatype
        self.replica = CreekReplica(0, self.settings, datatype)
        self.tasks: list[Task] = []
        self.issue_counts: Counter[Dot] = Counter()
        """Number of tasks issued for each request."""
        self.responses: list[Response] = []
        self.sent: list[Send] = []
        self.journal: list[Record] = []
        self.committed: list[Dot] = []
        self.now = 1_000
        self._instance = 0
        self._events = {1: 0, 2: 0}

    # --- inputs -------------------------------------------------------------------------------

    def invoke(
        self,
        name: str,
        *arguments: Any,
        strong: bool = False,
        session: int = 0,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        """Issue a request without running tasks. The clock advances by 10 with each call."""
        self.now += 10
        operation = self.datatype.call(name, *arguments)
        id = self.replica.invoke(operation, strong, session, self.now, after)
        self.take_effects()
        return id

    def receive_request(
        self, at: int, name: str, *arguments: Any, origin: int = 1, context: Dots | None = None
    ) -> Dot:
        """Deliver a request of another replica, which is strong if it has a `context`."""
        self._events[origin] += 1
        id = Dot(origin, self._events[origin])
        operation = self.datatype.call(name, *arguments)
        request = Request(at, id, operation, context is not None, context)
        self.replica.receive(Cast((request,)), origin, self.now)
        self.take_effects()
        return id

    def decide(self, *ids: Dot) -> None:
        """Decide these strong requests in one instance, which commits each after its context."""
        self.replica.receive(Decisions(self._instance, (ids,)), 1, self.now)
        self._instance += 1
        self.take_effects()

    def stabilise(self, *context_ids: Dot) -> Dot:
        """Deliver and decide a strong no-op with these requests as its context."""
        id = self.receive_request(self.now + 10**6, "noop", origin=2, context=dots(*context_ids))
        self.decide(id)
        return id

    def tick(self) -> None:
        self.replica.tick(self.now)
        self.take_effects()

    # --- execution ----------------------------------------------------------------------------

    def start(self, id: Dot | None = None) -> tuple[Task, ExecutionResult]:
        """Run the first task, or the one of `id`, without completing it."""
        at = 0 if id is None else [task.request.id for task in self.tasks].index(id)
        task = self.tasks.pop(at)
        return task, self.replica.run(task)

    def complete(self, task: Task, execution: ExecutionResult) -> None:
        self.replica.completed(task, execution, self.now)
        self.take_effects()

    def execute(self, id: Dot | None = None) -> Dot:
        task, execution = self.start(id)
        self.complete(task, execution)
        return task.request.id

    def execute_all(self) -> list[Dot]:
        """Run and complete all tasks. Return the executed requests in order."""
        executed: list[Dot] = []
        while self.tasks:
            executed.append(self.execute())
            assert len(executed) < TASKS_MAX, "the replica issues tasks endlessly"
        return executed

    def take_effects(self) -> None:
        effects = self.replica.take_effects()
        self.tasks += effects.tasks
        self.issue_counts.update(task.request.id for task in effects.tasks)
        self.responses += effects.respond
        self.sent += effects.send
        self.journal += effects.persist
        self.committed += [each.id for each in effects.events if isinstance(each, Committed)]

    # --- inspection ---------------------------------------------------------------------------

    def responses_to(self, id: Dot) -> list[tuple[ResponseKind, Any]]:
        return [
            (each.kind, each.outcome.value if each.outcome.error is None else each.outcome.error)
            for each in self.responses
            if each.id == id
        ]

    def entry(self, id: Dot) -> RequestEntry:
        return self.replica._execution.entries[id]

    def version_count(self) -> int:
        contents = self.replica._execution.store.table
        versioned = [key for key in contents.registers if contents.has_versions(key)]
        return sum(len(contents.chain(key).versions) for key in versioned)

    def read_count(self) -> int:
        """Return the number of reads recorded for separate requests."""
        return sum(len(entry.reads) for entry in self.replica._execution.entries.values())


def dots(*ids: Dot) -> Dots:
    context_ids = DotSet()
    for id in ids:
        context_ids.add(id)
    return context_ids.freeze()
