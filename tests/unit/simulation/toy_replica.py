"""Toy replica that satisfies the contract of the driver: a counter without agreement.

Requests are RB-cast to all peers and repaired by summaries. A request counts as committed when it
arrives, and its response is the number of requests executed by the replica so far.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from creekdb.execution.keys import CollationKey
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import IncomingMessage, LazyCheckpoint, RegisterLoader
from creekdb.protocol.effects import (
    Committed,
    Effects,
    Response,
    ResponseKind,
    Send,
    Task,
    TaskKind,
)
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot, DotSet
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.messages import Cast, PullResponse, Received, Record, Summary
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probes
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key
from creekdb.schemes.core.view import ReplicaView
from creekdb.simulation.kernel.cluster import Simulation, SimulationRun
from creekdb.simulation.kernel.scenario import Scenario


class ToyReplica(ReplicaView):
    """A replica that is its own view."""

    def __init__(self, index: int, replicas: int) -> None:
        self.index = index
        self.view: ReplicaView = self
        self.guarantees = SchemeGuarantees()
        self.probes = Probes()
        self.rejected: dict[str, int] = {}
        self.drift_us: dict[int, int] = {}
        self.received_messages: list[tuple[IncomingMessage, int]] = []
        self.ticks = 0
        self.woken_at: list[int] = []
        self.recovered: list[Record] = []
        self._peers = tuple(each for each in range(replicas) if each != index)
        self._outbox = Outbox()
        self._received = DotSet()
        self._requests: dict[Dot, Request] = {}
        self._sessions: dict[Dot, int] = {}
        self._executed = 0
        self._tasks = 0
        self._tasks_done = 0

    def recover(self, records: Iterable[Record]) -> None:
        for record in records:
            self.recovered.append(record)
            assert isinstance(record, Received)
            self._accept(record.request)

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        request = Request(
            now, Dot(self.index, self._received.last(self.index) + 1), operation, strong
        )
        self._sessions[request.id] = session
        self._outbox.records.append(Received(request))
        self._outbox.sends.append(Send(self._peers, Cast((request,))))
        self._accept(request)
        return request.id

    def new_state_loader(self) -> RegisterLoader:
        raise NotImplementedError("a toy replica receives no snapshots")

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None:
        if sender not in self._peers:
            self.rejected["stranger"] = self.rejected.get("stranger", 0) + 1
            return
        self.received_messages.append((message, sender))
        if isinstance(message, Cast | PullResponse):
            for request in message.requests:
                if request.id not in self._received:
                    self._outbox.records.append(Received(request))
                    self._accept(request)
        elif isinstance(message, Summary):
            missing = DotSet(message.received).missing(self._received)
            if len(missing):
                requests = tuple(self._requests[id] for id in missing)
                self._outbox.sends.append(Send((sender,), PullResponse(requests)))

    def tick(self, now: int) -> None:
        self.ticks += 1
        self._outbox.sends.append(Send(self._peers, Summary(self._received.freeze())))

    def wake(self, now: int) -> None:
        self.woken_at.append(now)

    def run(self, task: Task) -> ExecutionResult:
        return ExecutionResult(
            outcome=Outcome(self._executed + 1), writes={"count": 1}, read_count=1
        )

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        self._tasks_done += 1
        self._executed += 1
        request = task.request
        if request.id in self._sessions:
            session = self._sessions[request.id]
            kinds = (
                (ResponseKind.TENTATIVE, ResponseKind.STABLE)
                if request.strong
                else (ResponseKind.TENTATIVE,)
            )
            for kind in kinds:
                self._outbox.responses.append(
                    Response(request.id, session, kind, Outcome(self._executed))
                )

    def take_tasks(self) -> tuple[Task, ...]:
        return self._outbox.take_tasks()

    def take_effects(self) -> Effects:
        return self._outbox.take()

    def has_request(self, id: Dot) -> bool:
        return id in self.committed_ids()

    def is_visible(self, id: Dot) -> bool:
        return self.has_request(id)

    def last_issued(self) -> Dot:
        return Dot(self.index, 0)

    def has_pending_response(self, id: Dot) -> bool:
        return False

    def committed_length(self) -> int:
        return len(self._received)

    def can_respond_locally(self, operation: Operation, strong: bool) -> bool:
        return False

    def awaited_members(self) -> tuple[int, ...] | None:
        return None

    def must_be_replaced(self) -> bool:
        return False

    def leader(self) -> int | None:
        return None

    def tentative_length(self) -> int:
        return 0

    def configuration(self) -> Configuration:
        return Configuration(0, tuple((each, "") for each in sorted((self.index, *self._peers))))

    def can_shut_down(self) -> bool:
        return False

    def tentative_ids(self) -> tuple[Dot, ...]:
        return ()

    def committed_ids(self) -> tuple[Dot, ...]:
        return tuple(self._received)

    def last_committed(self, most: int) -> tuple[Request, ...]:
        return ()

    def last_tentative(self, most: int) -> tuple[Request, ...]:
        return ()

    def readable_lengths(self) -> range:
        return range(len(self._received), len(self._received) + 1)

    def committed_items(
        self, length: int, start: CollationKey, stop: CollationKey
    ) -> Iterator[tuple[Key, object]]:
        return iter(self.state().items())

    def lazy_checkpoint(self) -> LazyCheckpoint:
        raise NotImplementedError("a toy replica takes no checkpoints")

    def stable_instances(self) -> dict[int, int]:
        return {}

    def state(self) -> dict[Key, object]:
        return {"count": self._executed}

    def is_idle(self) -> bool:
        return self._tasks == self._tasks_done

    def _accept(self, request: Request) -> None:
        self._received.add(request.id)
        self._requests[request.id] = request
        self._outbox.events.append(Committed(request.id, len(self._received) - 1))
        self._tasks += 1
        self._outbox.tasks.append(Task(self._tasks, TaskKind.EXECUTE, request))


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    return "increment", (random.randrange(100),)


def build_toy_simulation(scenario: Scenario) -> Simulation:
    return Simulation(scenario, lambda index: ToyReplica(index, scenario.replicas), sample)


def run(scenario: Scenario) -> SimulationRun:
    return build_toy_simulation(scenario).run()


def request(event: int, replica: int = 0) -> Request:
    return Request(event, Dot(replica, event), Operation("increment"), False)
