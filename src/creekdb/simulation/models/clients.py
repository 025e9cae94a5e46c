"""Clients: who asks for what, and what they do while they wait.

- Closed loop: each session waits for its answer, thinks, and asks again. A weak operation waits for
  the tentative answer; a strong one for the stable answer or, sometimes, only for the tentative
  one. A client whose patience ends goes on without its answer.
- Open loop (`rate_per_second` above 0): operations arrive at each replica whether or not earlier
  ones are answered; each takes a session that waits for nothing, or opens one.
- Scripted invocations happen when they are told to, on sessions of their own.

A session is attached to one replica and ends with it; after a restart new sessions begin. What a
session asks for comes from a generator of its own: faults change when it asks, never what. Clients
know replicas only through `invoke` and the responses they get.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, TypeAlias

from creekdb.protocol.effects import Kind, Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.simulation.kernel.scenario import ClientModel, Invocation, Source
from creekdb.simulation.kernel.seeds import derive
from creekdb.simulation.kernel.simulated_time import EventHeap, Handle

Invoke: TypeAlias = Callable[[int, Operation, bool, int], None]
"""(replica, operation, strong, session)."""

Loop: TypeAlias = Literal["closed", "open", "script"]
"""What a session does once it is answered: think and ask again, stand by, or nothing."""


class _Session:
    __slots__ = (
        "asked",
        "current",
        "ended",
        "loop",
        "number",
        "patience",
        "random",
        "replica",
        "think_us",
        "waits",
    )

    def __init__(self, number: int, replica: int, loop: Loop, random: Random) -> None:
        self.number = number
        self.replica = replica
        self.loop = loop
        self.random = random
        self.asked = 0
        self.think_us = 0
        self.current: Dot | None = None
        """The operation it last asked for."""
        self.waits: Kind | None = None
        """Which answer to that operation it waits for."""
        self.patience: Handle | None = None
        self.ended = False


class Clients:
    def __init__(
        self,
        heap: EventHeap,
        model: ClientModel,
        replicas: int,
        seed: int,
        source: Source,
        invoke: Invoke,
    ) -> None:
        self._heap = heap
        self._model = model
        self._seed = seed
        self._source = source
        self._strong_kinds = frozenset(model.strong_kinds)
        self._invoke = invoke
        self._sessions: dict[int, _Session] = {}
        self._scripted: dict[tuple[int, int], _Session] = {}
        self._idle: list[list[_Session]] = [[] for _ in range(replicas)]
        """For the open loop: sessions that wait for nothing, by replica."""
        self._up = [False] * replicas
        self._generations = [0] * replicas
        self._opened = 0
        self._asked_between = 0
        self._stopped = False
        self.waiting = 0
        """Sessions that wait for an answer."""
        self.gave_up = 0
        self.unserved = 0
        """Operations that found their replica down."""

    # --- the lives of sessions -----------------------------------------------------------------

    def start(self, script: Sequence[Invocation]) -> None:
        for invocation in script:
            self._heap.at(invocation.at_us, self._invoke_scripted, invocation)
        if self._model.rate_per_second:
            for replica in range(len(self._up)):
                self._next_arrival(replica, derive(self._seed, "arrivals", replica))

    def replica_started(self, replica: int) -> None:
        self._up[replica] = True
        self._generations[replica] += 1
        if self._stopped or self._model.rate_per_second:
            return
        for each in range(self._model.sessions):
            session = self._open(replica, "closed", each)
            self._heap.after(self._think(session), self._next, session)

    def replica_crashed(self, replica: int) -> None:
        self._up[replica] = False
        self._idle[replica].clear()
        for session in [each for each in self._sessions.values() if each.replica == replica]:
            self._stop_waiting(session)
            session.ended = True
            del self._sessions[session.number]
        for key in [key for key in self._scripted if key[0] == replica]:
            del self._scripted[key]

    def stop(self) -> None:
        """No new operations; those under way are waited for."""
        self._stopped = True

    def _open(self, replica: int, loop: Loop, each: int) -> _Session:
        generation = self._generations[replica]
        random = derive(self._seed, "client", replica, generation, loop, each)
        self._opened += 1
        session = _Session(self._opened, replica, loop, random)
        self._sessions[session.number] = session
        return session

    # --- asking ----------------------------------------------------------------------------------

    def _next(self, session: _Session) -> None:
        if session.ended or self._stopped:
            return
        limit = self._model.operations_per_session
        if limit and session.asked == limit:
            return
        self._ask(session, session.random)

    def _ask(self, session: _Session, random: Random) -> None:
        # Everything is drawn before the answer is known, so that it does not depend on it.
        operation, strong, kind = self._draw(session.replica, random)
        session.think_us = self._think(session)
        self._invoke_for(session, operation, strong, kind)

    def _draw(self, replica: int, random: Random) -> tuple[Operation, bool, Kind]:
        operation = self._source(replica, random)
        strong = random.random() < self._model.strong_share or operation.name in self._strong_kinds
        tentative_only = random.random() < self._model.tentative_only_share
        kind = Kind.STABLE if strong and not tentative_only else Kind.TENTATIVE
        return operation, strong, kind

    def _invoke_for(
        self, session: _Session, operation: Operation, strong: bool, kind: Kind
    ) -> None:
        self._stop_waiting(session)
        session.asked += 1
        session.waits = kind
        if patience_us := self._model.patience_us:
            session.patience = self._heap.after(patience_us, self._give_up, session, session.asked)
        self.waiting += 1
        self._invoke(session.replica, operation, strong, session.number)

    def _think(self, session: _Session) -> int:
        return int(session.random.random() * 2 * self._model.think_us)

    def _next_arrival(self, replica: int, random: Random) -> None:
        gap_us = int(random.expovariate(self._model.rate_per_second) * 1_000_000)
        self._heap.after(gap_us, self._arrive, replica, random)

    def _arrive(self, replica: int, random: Random) -> None:
        if self._stopped:
            return
        self._next_arrival(replica, random)
        if self._up[replica]:
            idle = self._idle[replica]
            session = idle.pop() if idle else self._open(replica, "open", 0)
            self._ask(session, random)
        else:
            self._draw(replica, random)
            self.unserved += 1

    def _invoke_scripted(self, invocation: Invocation) -> None:
        replica = invocation.replica
        if not self._up[replica]:
            self.unserved += 1
            return
        key = (replica, invocation.session)
        session = self._scripted.get(key)
        if session is None:
            session = self._scripted[key] = self._open(replica, "script", invocation.session)
        kind = Kind.STABLE if invocation.strong else Kind.TENTATIVE
        self._invoke_for(session, invocation.operation, invocation.strong, kind)

    def ask(self, replica: int, operation: Operation) -> None:
        """A strong operation that somebody asks for in between, on a session of its own."""
        self._asked_between += 1
        session = self._open(replica, "script", -self._asked_between)
        self._invoke_for(session, operation, True, Kind.STABLE)

    # --- being answered --------------------------------------------------------------------------

    def issued(self, session: int, id: Dot) -> None:
        """The operation that `session` just asked for has got its identifier."""
        self._sessions[session].current = id

    def answered(self, response: Response) -> None:
        session = self._sessions.get(response.session)
        if session is None or session.waits is None or session.current != response.id:
            return
        if response.kind is session.waits or response.kind is Kind.STABLE:
            self._go_on(session)

    def _give_up(self, session: _Session, asked: int) -> None:
        if session.asked == asked and session.waits is not None:
            self.gave_up += 1
            self._go_on(session)

    def _go_on(self, session: _Session) -> None:
        self._stop_waiting(session)
        if session.loop == "open":
            self._idle[session.replica].append(session)
        elif session.loop == "closed":
            # Through the heap even without a pause: the replica is still handing out effects.
            self._heap.after(session.think_us, self._next, session)

    def _stop_waiting(self, session: _Session) -> None:
        if session.waits is not None:
            session.waits = None
            self.waiting -= 1
        if session.patience is not None:
            self._heap.cancel(session.patience)
            session.patience = None
