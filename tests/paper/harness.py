"""A cluster turned by hand: the test decides what happens, to whom, and when.

Replicas are real; around them stands only what the contract asks of a driver. A message that was
sent stays in flight until the test delivers, drops or loses it; a record is on disk at once; a task
runs at once, unless the test has paused its replica. Nothing happens by itself: `flush` delivers
what is in flight and whatever that brings about, `settle` also lets time pass.

The first leader is replica 0. Strong no-ops are off unless a test asks for them.
"""

from collections import deque
from collections.abc import Iterable
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
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.core.versioned import VersionedReplica

TENTATIVE, STABLE, FINAL = ResponseKind.TENTATIVE, ResponseKind.STABLE, ResponseKind.FINAL
EXECUTE, ROLLBACK = TaskKind.EXECUTE, TaskKind.ROLLBACK

Scheme: TypeAlias = type[BasicReplica] | type[VersionedReplica]

NEVER = 10**9
DELIVERIES_MAX = 100_000
"""More than this in one `flush` is a conversation without an end."""
TASKS_MAX = 10_000
"""More than this after one input is work without an end."""


class Envelope(msgspec.Struct, frozen=True, eq=False):
    """A message in flight. Two copies of one message are two envelopes."""

    sender: int
    receiver: int
    message: Message


class Fitting(TypedDict, total=False):
    """Which messages are meant; what is left out does not matter."""

    sender: int | None
    to: int | None
    carrying: Dot | None


class Pattern(NamedTuple):
    kind: type[object]
    sender: int | None = None
    to: int | None = None
    carrying: Dot | None = None

    def fits(self, envelope: Envelope) -> bool:
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
    """`replicas` members, without a leader when `led` is false. `settings` as in `Settings`."""

    def __init__(
        self,
        replicas: int = 3,
        datatype: DataType = LIST,
        *,
        led: bool = True,
        scheme: Scheme = BasicReplica,
        **settings: int,
    ) -> None:
        self.members = tuple(range(replicas))
        self.settings = Settings(members=self.members, **{"noop_ticks": NEVER, **settings})
        self.datatype = datatype
        self.scheme = scheme
        self.now_us = 1_000_000
        self.replicas: dict[int, BasicReplica | VersionedReplica] = {}
        self.in_flight: list[Envelope] = []
        self.disks: dict[int, list[Record]] = {each: [] for each in self.members}
        self.events: dict[int, list[effects.Event]] = {}
        """What each replica let observers see, since it last started."""
        self.done: dict[int, list[tuple[TaskKind, Dot]]] = {}
        """The tasks each replica completed, since it last started."""
        self.tasks: dict[int, deque[Task]] = {}
        self.responses: list[tuple[int, effects.Response]] = []
        self.requests: dict[Dot, Request] = {}
        self._paused: set[int] = set()
        self._held: list[Pattern] = []
        self._groups: tuple[frozenset[int], ...] = (frozenset(self.members),)
        for each in self.members:
            self._start(each)
        if led:
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
        """`at` is what the replica's clock shows; without it, later than ever before."""
        self.now_us += 1_000
        operation = self.datatype.call(name, *arguments)
        now = self.now_us if at is None else at
        id = self.replicas[replica].invoke(operation, strong, session, now)
        self._carry_out(replica)
        return id

    def answers(self, id: Dot) -> list[tuple[ResponseKind, Any]]:
        """All that the client was told, in order; an error as its text."""
        return [
            (each.kind, each.outcome.value if each.outcome.error is None else each.outcome.error)
            for _, each in self.responses
            if each.id == id
        ]

    # --- the network --------------------------------------------------------------------------

    def pending(self, kind: type[object] = object, **fitting: Unpack[Fitting]) -> list[Envelope]:
        """What is in flight and fits."""
        pattern = Pattern(kind, **fitting)
        return [each for each in self.in_flight if pattern.fits(each)]

    def deliver(self, kind: type[object] = object, **fitting: Unpack[Fitting]) -> None:
        """Deliver what is in flight and fits, held back or not; something must."""
        for each in self._some(kind, **fitting):
            self._deliver(each)

    def drop(self, kind: type[object] = object, **fitting: Unpack[Fitting]) -> None:
        """Lose what is in flight and fits; something must."""
        for each in self._some(kind, **fitting):
            self.in_flight.remove(each)

    def duplicate(self, kind: type[object] = object, **fitting: Unpack[Fitting]) -> None:
        """Put a second copy of what is in flight and fits at the end of the queue."""
        chosen = self._some(kind, **fitting)
        self.in_flight += [Envelope(each.sender, each.receiver, each.message) for each in chosen]

    def _some(self, kind: type[object], **fitting: Unpack[Fitting]) -> list[Envelope]:
        chosen = self.pending(kind, **fitting)
        assert chosen, "there is no such message in flight"
        return chosen

    def inject(self, message: Message, *, sender: int, to: int) -> None:
        """Play a peer, or a stranger: deliver a message that no replica here has sent."""
        self._hand_over(message, sender, to)

    def hold(self, kind: type[object] = object, **fitting: Unpack[Fitting]) -> None:
        """From now on leave messages that fit in flight, unless the test delivers them."""
        self._held.append(Pattern(kind, **fitting))

    def release(self) -> None:
        self._held.clear()

    def partition(self, *groups: Iterable[int]) -> None:
        """From now on lose every message between two of the groups."""
        self._groups = tuple(frozenset(group) for group in groups)
        assert sorted(each for group in self._groups for each in group) == list(self.members)

    def heal(self) -> None:
        self.partition(self.members)

    def deliver_next(self) -> None:
        """Deliver the one message that has been in flight for longest."""
        self._deliver(self._deliverable()[0])

    def round(self) -> None:
        """One communication delay: deliver what is in flight now, and nothing it brings about."""
        for each in self._deliverable():
            self._deliver(each)

    def flush(self) -> None:
        """Deliver everything, and what it brings about, in the order it was sent."""
        count = 0
        while deliverable := self._deliverable():
            for each in deliverable:
                self._deliver(each)
            count += len(deliverable)
            assert count < DELIVERIES_MAX, "the replicas do not stop talking"

    # --- time, execution, crashes -------------------------------------------------------------

    def tick(self, *replicas: int) -> None:
        for each in replicas or self.members:
            if each in self.replicas:
                self.replicas[each].tick(self.now_us)
                self._carry_out(each)

    def settle(self, ticks: int = 40) -> None:
        """Deliver everything, and let time pass: long enough to replace a leader."""
        self.flush()
        for _ in range(ticks):
            self.tick()
            self.flush()

    def pause(self, replica: int) -> None:
        """From now on this replica's tasks wait until the test runs them."""
        self._paused.add(replica)

    def resume(self, replica: int) -> None:
        self._paused.discard(replica)
        self._work(replica)

    def step(self, replica: int) -> tuple[TaskKind, Dot]:
        """Run the one task that a paused replica has handed out."""
        self.finish(replica, *self.begin(replica))
        return self.done[replica][-1]

    def begin(self, replica: int) -> tuple[Task, ExecutionResult]:
        """Run the task, but do not report it yet."""
        task = self.tasks[replica].popleft()
        return task, self.replicas[replica].run(task)

    def finish(self, replica: int, task: Task, execution: ExecutionResult) -> None:
        self.done[replica].append((task.kind, task.request.id))
        self.replicas[replica].completed(task, execution, self.now_us)
        self._take(replica)

    def crash(self, replica: int) -> None:
        """What it sent stays in flight; what is on its way to it is lost."""
        del self.replicas[replica]
        self.in_flight = [each for each in self.in_flight if each.receiver != replica]

    def restart(self, replica: int) -> None:
        self._start(replica)
        records = [decode_record(encode(each)) for each in self.disks[replica]]
        images = [at for at, each in enumerate(records) if isinstance(each, CheckpointRecord)]
        self.replicas[replica].recover(records[images[-1] :] if images else records)
        self._carry_out(replica)

    # --- looking on ---------------------------------------------------------------------------

    def leaders(self) -> set[int | None]:
        """Whom the replicas that are up trust."""
        return {each.leader() for each in self.replicas.values()}

    def committed(self, replica: int) -> list[Dot]:
        return list(self.replicas[replica].committed_ids())

    def tentative(self, replica: int) -> list[Dot]:
        return list(self.replicas[replica].tentative_ids())

    def listed(self, replica: int) -> list[Any]:
        """The values in the replica's registers, in key order: for LIST, the list."""
        return list(self.replicas[replica].state().values())

    def context(self, id: Dot) -> set[Dot]:
        """The causal context of a strong request."""
        context = self.requests[id].context
        assert context is not None
        return set(context)

    def rb_delivered(self, replica: int) -> list[Dot]:
        return [each.id for each in self.events[replica] if isinstance(each, effects.RbDelivered)]

    def cab_delivered(self, replica: int) -> list[Dot]:
        return [each.id for each in self.events[replica] if isinstance(each, effects.CabDelivered)]

    def refused(self, replica: int) -> dict[str, int]:
        return self.replicas[replica].rejected

    def on_disk(self, replica: int, kind: type[Record]) -> list[Record]:
        return [each for each in self.disks[replica] if isinstance(each, kind)]

    # --- inside -------------------------------------------------------------------------------

    def _start(self, replica: int) -> None:
        assert replica not in self.replicas, "a replica that is up cannot be started"
        self.replicas[replica] = self.scheme(replica, self.settings, self.datatype)
        self.events[replica] = []
        self.done[replica] = []
        self.tasks[replica] = deque()

    def _elect_first(self) -> None:
        """A heartbeat for everyone to be heard, another to tell of it: then the first is able."""
        self.settle(3 * self.settings.heartbeat_ticks)
        assert self.leaders() == {0}

    def _deliverable(self) -> list[Envelope]:
        return [each for each in self.in_flight if not any(held.fits(each) for held in self._held)]

    def _deliver(self, envelope: Envelope) -> None:
        self.in_flight.remove(envelope)
        sender, receiver = envelope.sender, envelope.receiver
        linked = any(sender in group and receiver in group for group in self._groups)
        if receiver in self.replicas and linked:
            self._hand_over(envelope.message, sender, receiver)

    def _hand_over(self, message: Message, sender: int, receiver: int) -> None:
        travelled = decode_message(encode(message))
        self.replicas[receiver].receive(travelled, sender, self.now_us)
        self._carry_out(receiver)

    def _carry_out(self, replica: int) -> None:
        self._take(replica)
        if replica not in self._paused:
            self._work(replica)

    def _work(self, replica: int) -> None:
        count = 0
        while self.tasks[replica]:
            self.step(replica)
            count += 1
            assert count < TASKS_MAX, "the replica does not stop working"

    def _take(self, replica: int) -> None:
        taken = self.replicas[replica].take_effects()
        self.disks[replica] += taken.persist
        self.in_flight += [
            Envelope(replica, to, send.message) for send in taken.send for to in send.to
        ]
        self.responses += [(replica, response) for response in taken.respond]
        self.tasks[replica] += taken.tasks
        self.events[replica] += taken.events
        for event in taken.events:
            if isinstance(event, effects.RbCast):
                self.requests[event.request.id] = event.request
