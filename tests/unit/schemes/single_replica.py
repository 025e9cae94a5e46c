"""One replica of three, number 0, without the others: the test plays them, and the cores.

Requests of others arrive with the timestamps that the test wants; commits are decided as the test
says; a task that is handed out waits until the test runs it, at once or one by one.
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
"""More than this is work without an end."""


class Alone:
    def __init__(self, datatype: DataType = KV, **settings: int) -> None:
        self.settings = Settings(members=(0, 1, 2), **settings)
        self.datatype = datatype
        self.replica = CreekReplica(0, self.settings, datatype)
        self.tasks: list[Task] = []
        self.begun: Counter[Dot] = Counter()
        """How often each request was handed out to be executed."""
        self.answers: list[Response] = []
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
        """Without running anything yet. The clock goes on by 10 with each."""
        self.now += 10
        operation = self.datatype.call(name, *arguments)
        id = self.replica.invoke(operation, strong, session, self.now, after)
        self.take()
        return id

    def hear(
        self, at: int, name: str, *arguments: Any, origin: int = 1, knows: Dots | None = None
    ) -> Dot:
        """A request of another replica arrives, strong when it says what it `knows`."""
        self._events[origin] += 1
        id = Dot(origin, self._events[origin])
        operation = self.datatype.call(name, *arguments)
        request = Request(at, id, operation, knows is not None, knows)
        self.replica.receive(Cast((request,)), origin, self.now)
        self.take()
        return id

    def decide(self, *ids: Dot) -> None:
        """These strong requests are committed, each after what it knew."""
        self.replica.receive(Decisions(self._instance, (ids,)), 1, self.now)
        self._instance += 1
        self.take()

    def commit(self, *known: Dot) -> Dot:
        """A strong request that knows these, and writes nothing, arrives and is committed."""
        id = self.hear(self.now + 10**6, "noop", origin=2, knows=dots(*known))
        self.decide(id)
        return id

    def tick(self) -> None:
        self.replica.tick(self.now)
        self.take()

    # --- execution ----------------------------------------------------------------------------

    def begin(self, id: Dot | None = None) -> tuple[Task, ExecutionResult]:
        """Run a task, the first or that of `id`, and do not report it yet."""
        at = 0 if id is None else [task.request.id for task in self.tasks].index(id)
        task = self.tasks.pop(at)
        return task, self.replica.run(task)

    def finish(self, task: Task, execution: ExecutionResult) -> None:
        self.replica.completed(task, execution, self.now)
        self.take()

    def step(self, id: Dot | None = None) -> Dot:
        task, execution = self.begin(id)
        self.finish(task, execution)
        return task.request.id

    def work(self) -> list[Dot]:
        """Run everything there is to run; what was executed, in this order."""
        done: list[Dot] = []
        while self.tasks:
            done.append(self.step())
            assert len(done) < TASKS_MAX, "the replica does not stop working"
        return done

    def take(self) -> None:
        effects = self.replica.take_effects()
        self.tasks += effects.tasks
        self.begun.update(task.request.id for task in effects.tasks)
        self.answers += effects.respond
        self.sent += effects.send
        self.journal += effects.persist
        self.committed += [each.id for each in effects.events if isinstance(each, Committed)]

    # --- looking on ---------------------------------------------------------------------------

    def answers_to(self, id: Dot) -> list[tuple[ResponseKind, Any]]:
        return [
            (each.kind, each.outcome.value if each.outcome.error is None else each.outcome.error)
            for each in self.answers
            if each.id == id
        ]

    def entry(self, id: Dot) -> RequestEntry:
        return self.replica._entries[id]

    def version_count(self) -> int:
        contents = self.replica._store._table
        unsettled = [key for key in contents.registers if contents.has_versions(key)]
        return sum(len(contents.chain(key).versions) for key in unsettled)

    def read_count(self) -> int:
        """How many reads of single requests are remembered."""
        return sum(len(entry.reads) for entry in self.replica._entries.values())


def dots(*ids: Dot) -> Dots:
    known = DotSet()
    for id in ids:
        known.add(id)
    return known.freeze()
