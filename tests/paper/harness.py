"""Cluster of real replicas whose message deliveries, tasks, ticks and crashes a test controls.

The driver is minimal. A message stays in flight until the test delivers or drops it. A record is on
disk at once. A task runs at once, unless the test has paused its replica. `flush` delivers all
messages in flight and those that they cause; `settle` also advances the time.

The first leader is replica 0. Strong no-ops are disabled unless a test enables them.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias, TypedDict, Unpack

import msgspec

from creekdb.datatypes.lists import LIST
from creekdb.execution.datatype import DataType
from creekdb.execution.result import ExecutionResult
from creekdb.protocol import effects
from creekdb.protocol.effects import ResponseKind, Task, TaskKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import (
    Cast,
    CheckpointRecord,
    Message,
    PullResponse,
    Record,
    decode_message,
    decode_record,
    encode,
)
from creekdb.protocol.request import Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.archie import ArchieReplica
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.creek import CreekReplica

TENTATIVE, STABLE, FINAL = ResponseKind.TENTATIVE, ResponseKind.STABLE, ResponseKind.FINAL
EXECUTE, ROLLBACK = TaskKind.EXECUTE, TaskKind.ROLLBACK

AnyReplica: TypeAlias = BasicReplica | CreekReplica | ArchieReplica
Scheme: TypeAlias = Callable[[int, Settings, DataType], AnyReplica]

NEVER = 10**9
DELIVERIES_MAX = 100_000
"""Upper bound for the deliveries of one `flush`; more indicate an endless exchange."""
TASKS_MAX = 10_000
"""Upper bound for the tasks after one input; more indicate an endless loop."""


class Envelope(msgspec.Struct, frozen=True, eq=False):
    """Message in flight. Two copies of a message are two envelopes."""

    sender: int
    receiver: int
    message: Message


class PatternFields(TypedDict, total=False):
    """Fields of a `Pattern`. An omitted field matches every message."""

    sender: int | None
    to: int | None
    carrying: Dot | None


class Pattern(NamedTuple):
    kind: type[object]
    sender: int | None = None
    to: int | None = None
    carrying: Dot | None = None

    def matches(self, envelope: Envelope) -> bool:
        message = envelope.message
        if not isinstance(message, self.kind):
            return False
        if self.sender not in (None, envelope.sender) or self.to not in (None, envelope.receiver):
            return False
        if self.carrying is None:
            return True
        carried = message.requests if isinstance(message, Cast | PullResponse) else ()
        return any(request.id == self.carrying for request in carried)


class Cluster:
    """Cluster of `replicas` members, by default with a leader. `settings` as in `Settings`."""

    def __init__(
        self,
        replicas: int = 3,
        datatype: DataType = LIST,
        *,
        with_leader: bool = True,
        scheme: Scheme = BasicReplica,
        **settings: int,
    ) -> None:
        self.members = tuple(range(replicas))
        self.settings = Settings(members=self.members, **{"noop_ticks": NEVER, **settings})
        self.datatype = datatype
        self.scheme = scheme
        self.now_us = 1_000_000
        self.replicas: dict[int, AnyReplica] = {}
        self.in_flight: list[Envelope] = []
        self.disks: dict[int, list[Record]] = {each: [] for each in self.members}
        self.events: dict[int, list[effects.Event]] = {}
        """Events of each replica since its last start."""
        self.done: dict[int, list[tuple[TaskKind, Dot]]] = {}
        """Completed tasks of each replica since its last start."""
        self.tasks: dict[int, deque[Task]] = {}
        self.responses: list[tuple[int, effects.Response]] = []
        self.requests: dict[Dot, Request] = {}
        self.wakes: dict[int, int] = {}
        """Clock at which each replica asked to be woken."""
        self._paused: set[int] = set()
        self._held_patterns: list[Pattern] = []
        self._groups: tuple[frozenset[int], ...] = (frozenset(self.members),)
        for each in self.members:
            self._start(each)
        if with_leader:
            self._elect_first()

    # --- clients ------------------------------------------------------------------------------

    def weak(self, replica: int, name: str, *arguments: Any, at: int | None = None) -> Dot:
        return self.invoke(replica, name, *arguments, strong=False, at=at)

    def strong(self, replica: int, name: str, *arguments: Any, at: int | None = None) -> Dot:
        return self.invoke(replica, name, *arguments, strong=True, at=at)

    def invoke(
        self,
        replica: int,
        name: str,
        *arguments: Any,
        strong: bool,
        at: int | None = None,
        session: int = 0,
    ) -> Dot:
        """Invoke an operation. `at` is the replica's clock, by default later than all before."""
        self.now_us += 1_000
        operation = self.datatype.call(name, *arguments)
        now = self.now_us if at is None else at
        id = self.replicas[replica].invoke(operation, strong, session, now)
        self._process(replica)
        return id

    def responses_to(self, id: Dot) -> list[tuple[ResponseKind, Any]]:
        """Return the kinds and values of all responses to the request; an error as its text."""
        return [
            (each.kind, each.outcome.value if each.outcome.error is None else each.outcome.error)
            for _, each in self.responses
            if each.id == id
        ]

    # --- the network --------------------------------------------------------------------------

    def pending(
        self, kind: type[object] = object, **fields: Unpack[PatternFields]
    ) -> list[Envelope]:
        """Return the matching messages in flight."""
        pattern = Pattern(kind, **fields)
        return [each for each in self.in_flight if pattern.matches(each)]

    def deliver(self, kind: type[object] = object, **fields: Unpack[PatternFields]) -> None:
        """Deliver the matching messages in flight, held or not. At least one must match."""
        for each in self._matching(kind, **fields):
            self._deliver(each)

    def drop(self, kind: type[object] = object, **fields: Unpack[PatternFields]) -> None:
        """Drop the matching messages in flight. At least one must match."""
        for each in self._matching(kind, **fields):
            self.in_flight.remove(each)

    def duplicate(self, kind: type[object] = object, **fields: Unpack[PatternFields]) -> None:
        """Append a second copy of the matching messages in flight to the queue."""
        matching = self._matching(kind, **fields)
        self.in_flight += [Envelope(each.sender, each.receiver, each.message) for each in matching]

    def _matching(self, kind: type[object], **fields: Unpack[PatternFields]) -> list[Envelope]:
        matching = self.pending(kind, **fields)
        assert matching, "no matching message is in flight"
        return matching

    def inject(self, message: Message, *, sender: int, to: int) -> None:
        """Deliver a forged message from a member or a non-member."""
        self._receive(message, sender, to)

    def hold(self, kind: type[object] = object, **fields: Unpack[PatternFields]) -> None:
        """From now on keep matching messages in flight until `deliver` or `release`."""
        self._held_patterns.append(Pattern(kind, **fields))

    def release(self) -> None:
        self._held_patterns.clear()

    def partition(self, *groups: Iterable[int]) -> None:
        """From now on drop all messages between different groups."""
        self._groups = tuple(frozenset(group) for group in groups)
        assert sorted(each for group in self._groups for each in group) == list(self.members)

    def heal(self) -> None:
        self.partition(self.members)

    def deliver_next(self) -> None:
        """Deliver the oldest message in flight."""
        self._deliver(self._deliverable()[0])

    def round(self) -> None:
        """Advance by one communication delay: deliver the messages that are in flight now."""
        for each in self._deliverable():
            self._deliver(each)

    def flush(self) -> None:
        """Deliver all messages, and those that they cause, in the order of sending."""
        count = 0
        while deliverable := self._deliverable():
            for each in deliverable:
                self._deliver(each)
            count += len(deliverable)
            assert count < DELIVERIES_MAX, "the replicas do not stop sending"

    # --- time, execution, crashes -------------------------------------------------------------

    def tick(self, *replicas: int) -> None:
        for each in replicas or self.members:
            if each in self.replicas:
                self.replicas[each].tick(self.now_us)
                self._process(each)

    def wake(self, now_us: int) -> None:
        """Advance the clock, and wake the replicas that asked for it by then."""
        self.now_us = now_us
        for replica in [each for each, wake_at in self.wakes.items() if wake_at <= now_us]:
            del self.wakes[replica]
            self.replicas[replica].wake(now_us)
            self._process(replica)

    def settle(self, ticks: int = 40) -> None:
        """Deliver all messages and advance the time. The default suffices to replace a leader."""
        self.flush()
        for _ in range(ticks):
            self.tick()
            self.flush()

    def pause(self, replica: int) -> None:
        """From now on, the tasks of the replica wait until the test runs them."""
        self._paused.add(replica)

    def resume(self, replica: int) -> None:
        self._paused.discard(replica)
        self._run_tasks(replica)

    def step(self, replica: int) -> tuple[TaskKind, Dot]:
        """Run and complete the next task of a paused replica."""
        self.finish(replica, *self.begin(replica))
        return self.done[replica][-1]

    def begin(self, replica: int) -> tuple[Task, ExecutionResult]:
        """Run the next task, but do not report its completion yet."""
        task = self.tasks[replica].popleft()
        return task, self.replicas[replica].run(task)

    def finish(self, replica: int, task: Task, execution: ExecutionResult) -> None:
        self.done[replica].append((task.kind, task.request.id))
        self.replicas[replica].completed(task, execution, self.now_us)
        self._collect_effects(replica)

    def crash(self, replica: int) -> None:
        """Stop the replica. Its sent messages stay in flight; those sent to it are lost."""
        del self.replicas[replica]
        self.in_flight = [each for each in self.in_flight if each.receiver != replica]

    def restart(self, replica: int) -> None:
        self._start(replica)
        records = [decode_record(encode(each)) for each in self.disks[replica]]
        checkpoints = [
            position for position, each in enumerate(records) if isinstance(each, CheckpointRecord)
        ]
        self.replicas[replica].recover(records[checkpoints[-1] :] if checkpoints else records)
        self._process(replica)

    # --- observation --------------------------------------------------------------------------

    def leaders(self) -> set[int | None]:
        """Return the leaders that the running replicas trust."""
        return {each.view.leader() for each in self.replicas.values()}

    def committed(self, replica: int) -> list[Dot]:
        return list(self.replicas[replica].view.committed_ids())

    def tentative(self, replica: int) -> list[Dot]:
        return list(self.replicas[replica].view.tentative_ids())

    def state_values(self, replica: int) -> list[Any]:
        """Return the values of the registers in key order; for LIST, the list."""
        return list(self.replicas[replica].view.state().values())

    def context(self, id: Dot) -> set[Dot]:
        """Return the causal context of a strong request."""
        context = self.requests[id].context
        assert context is not None
        return set(context)

    def rb_delivered(self, replica: int) -> list[Dot]:
        return [each.id for each in self.events[replica] if isinstance(each, effects.RbDelivered)]

    def cab_delivered(self, replica: int) -> list[Dot]:
        return [each.id for each in self.events[replica] if isinstance(each, effects.CabDelivered)]

    def rejected(self, replica: int) -> dict[str, int]:
        return self.replicas[replica].view.rejected

    def on_disk(self, replica: int, kind: type[Record]) -> list[Record]:
        return [each for each in self.disks[replica] if isinstance(each, kind)]

    # --- internals ----------------------------------------------------------------------------

    def _start(self, replica: int) -> None:
        assert replica not in self.replicas, "the replica is already running"
        self.replicas[replica] = self.scheme(replica, self.settings, self.datatype)
        self.events[replica] = []
        self.done[replica] = []
        self.tasks[replica] = deque()

    def _elect_first(self) -> None:
        """Elect replica 0. The first heartbeats establish reachability, the second report it."""
        self.settle(3 * self.settings.heartbeat_ticks)
        assert self.leaders() == {0}

    def _deliverable(self) -> list[Envelope]:
        return [
            each
            for each in self.in_flight
            if not any(pattern.matches(each) for pattern in self._held_patterns)
        ]

    def _deliver(self, envelope: Envelope) -> None:
        self.in_flight.remove(envelope)
        sender, receiver = envelope.sender, envelope.receiver
        linked = any(sender in group and receiver in group for group in self._groups)
        if receiver in self.replicas and linked:
            self._receive(envelope.message, sender, receiver)

    def _receive(self, message: Message, sender: int, receiver: int) -> None:
        received = decode_message(encode(message))
        self.replicas[receiver].receive(received, sender, self.now_us)
        self._process(receiver)

    def _process(self, replica: int) -> None:
        self._collect_effects(replica)
        if replica not in self._paused:
            self._run_tasks(replica)

    def _run_tasks(self, replica: int) -> None:
        count = 0
        while self.tasks[replica]:
            self.step(replica)
            count += 1
            assert count < TASKS_MAX, "the replica does not stop scheduling tasks"

    def _collect_effects(self, replica: int) -> None:
        emitted = self.replicas[replica].take_effects()
        self.disks[replica] += emitted.persist
        self.in_flight += [
            Envelope(replica, to, send.message) for send in emitted.send for to in send.to
        ]
        self.responses += [(replica, response) for response in emitted.respond]
        self.tasks[replica] += emitted.tasks
        if emitted.wake_at is not None:
            self.wakes[replica] = emitted.wake_at
        self.events[replica] += emitted.events
        for event in emitted.events:
            if isinstance(event, effects.RbCast):
                self.requests[event.request.id] = event.request
