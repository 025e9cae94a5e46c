"""Simulated clients: sessions that issue operations and wait for responses.

- Closed loop: each session waits for its response, thinks, and issues the next operation. A weak
  operation waits for the tentative response; a strong one for the stable response or, sometimes,
  only for the tentative one. A session whose patience ends, or whose call is rejected, continues
  without a response.
- Open loop (`rate_per_second` above 0): operations arrive at each replica independently of earlier
  responses. Each uses an idle session, or opens a new one.
- Scripted invocations happen at their given times, on their own sessions.

A session is attached to one replica and ends with it; new sessions begin after a restart. Each
session draws its operations from its own generator, so that faults change when an operation is
issued, but never which. Clients interact with replicas only through `invoke` and responses.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, TypeAlias

from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.simulation.kernel.scenario import ClientModel, OperationSource, ScriptedInvocation
from creekdb.simulation.kernel.seeds import derive_generator
from creekdb.simulation.kernel.simulated_time import EventHandle, EventHeap

InvokeOperation: TypeAlias = Callable[[int, Operation, bool, int], None]
"""Called with (replica, operation, strong, session)."""

SessionLoop: TypeAlias = Literal["closed", "open", "script"]
"""Behaviour of a session after a response: think and continue, become idle, or nothing."""

REJECTION_PAUSE_US = 1_000
"""Minimum time between a rejected call and the next one of a session, in microseconds."""


class _ClientSession:
    def __init__(self, number: int, replica: int, loop: SessionLoop, random: Random) -> None:
        self.number = number
        self.replica = replica
        self.loop = loop
        self.random = random
        self.issued_calls = 0
        self.think_us = 0
        self.current_id: Dot | None = None
        """Identifier of the last operation issued."""
        self.awaited_kind: ResponseKind | None = None
        """Kind of response to that operation that the session waits for, or None."""
        self.timeout_event: EventHandle | None = None
        self.is_ended = False


class SimulatedClients:
    def __init__(
        self,
        heap: EventHeap,
        model: ClientModel,
        replicas: int,
        seed: int,
        source: OperationSource,
        invoke: InvokeOperation,
    ) -> None:
        self._heap = heap
        self._model = model
        self._seed = seed
        self._source = source
        self._strong_kinds = frozenset(model.strong_kinds)
        self._invoke = invoke
        self._sessions: dict[int, _ClientSession] = {}
        self._scripted: dict[tuple[int, int], _ClientSession] = {}
        self._idle_sessions: list[list[_ClientSession]] = [[] for _ in range(replicas)]
        """By replica: idle sessions of the open loop."""
        self._is_up = [False] * replicas
        self._generations = [0] * replicas
        self._opened_sessions = 0
        self._injected_calls = 0
        self._is_stopped = False
        self.waiting_sessions = 0
        """Number of sessions that wait for a response."""
        self.timed_out_calls = 0
        self.unserved_calls = 0
        """Number of operations whose replica was down."""

    # --- session lifecycle ---------------------------------------------------------------------

    def start(self, script: Sequence[ScriptedInvocation]) -> None:
        for invocation in script:
            self._heap.schedule_at(invocation.at_us, self._invoke_scripted, invocation)
        if self._model.rate_per_second:
            for replica in range(len(self._is_up)):
                self._schedule_arrival(replica, derive_generator(self._seed, "arrivals", replica))

    def replica_started(self, replica: int) -> None:
        self._is_up[replica] = True
        self._generations[replica] += 1
        if self._is_stopped or self._model.rate_per_second:
            return
        for each in range(self._model.sessions):
            session = self._open_session(replica, "closed", each)
            self._heap.schedule_after(self._draw_think_us(session), self._next_call, session)

    def replica_crashed(self, replica: int) -> None:
        self._is_up[replica] = False
        self._idle_sessions[replica].clear()
        for session in [each for each in self._sessions.values() if each.replica == replica]:
            self._stop_waiting(session)
            session.is_ended = True
            del self._sessions[session.number]
        for key in [key for key in self._scripted if key[0] == replica]:
            del self._scripted[key]

    def stop(self) -> None:
        """Issue no more operations; pending responses are still awaited."""
        self._is_stopped = True

    def _open_session(self, replica: int, loop: SessionLoop, each: int) -> _ClientSession:
        generation = self._generations[replica]
        random = derive_generator(self._seed, "client", replica, generation, loop, each)
        self._opened_sessions += 1
        session = _ClientSession(self._opened_sessions, replica, loop, random)
        self._sessions[session.number] = session
        return session

    # --- issuing operations ----------------------------------------------------------------------

    def _next_call(self, session: _ClientSession) -> None:
        if session.is_ended or self._is_stopped:
            return
        limit = self._model.operations_per_session
        if limit and session.issued_calls == limit:
            return
        self._issue_call(session, session.random)

    def _issue_call(self, session: _ClientSession, random: Random) -> None:
        # All draws precede the response, so that they cannot depend on it.
        operation, strong, kind = self._draw_call(session.replica, random)
        session.think_us = self._draw_think_us(session)
        self._invoke_in_session(session, operation, strong, kind)

    def _draw_call(self, replica: int, random: Random) -> tuple[Operation, bool, ResponseKind]:
        operation = self._source(replica, random)
        strong = random.random() < self._model.strong_share or operation.name in self._strong_kinds
        tentative_only = random.random() < self._model.tentative_only_share
        kind = ResponseKind.STABLE if strong and not tentative_only else ResponseKind.TENTATIVE
        return operation, strong, kind

    def _invoke_in_session(
        self, session: _ClientSession, operation: Operation, strong: bool, kind: ResponseKind
    ) -> None:
        self._stop_waiting(session)
        session.issued_calls += 1
        session.awaited_kind = kind
        if patience_us := self._model.patience_us:
            session.timeout_event = self._heap.schedule_after(
                patience_us, self._time_out, session, session.issued_calls
            )
        self.waiting_sessions += 1
        self._invoke(session.replica, operation, strong, session.number)

    def _draw_think_us(self, session: _ClientSession) -> int:
        return int(session.random.random() * 2 * self._model.think_us)

    def _schedule_arrival(self, replica: int, random: Random) -> None:
        gap_us = int(random.expovariate(self._model.rate_per_second) * 1_000_000)
        self._heap.schedule_after(gap_us, self._arrive, replica, random)

    def _arrive(self, replica: int, random: Random) -> None:
        if self._is_stopped:
            return
        self._schedule_arrival(replica, random)
        if self._is_up[replica]:
            idle = self._idle_sessions[replica]
            session = idle.pop() if idle else self._open_session(replica, "open", 0)
            self._issue_call(session, random)
        else:
            self._draw_call(replica, random)
            self.unserved_calls += 1

    def _invoke_scripted(self, invocation: ScriptedInvocation) -> None:
        if not self._is_up[invocation.replica]:
            self.unserved_calls += 1
            return
        self.invoke_now(invocation)

    def invoke_now(self, invocation: ScriptedInvocation) -> None:
        """Issue a scripted operation at a replica that is up."""
        replica = invocation.replica
        key = (replica, invocation.session)
        session = self._scripted.get(key)
        if session is None:
            session = self._scripted[key] = self._open_session(
                replica, "script", invocation.session
            )
        kind = ResponseKind.STABLE if invocation.strong else ResponseKind.TENTATIVE
        self._invoke_in_session(session, invocation.operation, invocation.strong, kind)

    def inject_call(self, replica: int, operation: Operation) -> None:
        """Issue a strong operation on a session of its own."""
        self._injected_calls += 1
        session = self._open_session(replica, "script", -self._injected_calls)
        self._invoke_in_session(session, operation, True, ResponseKind.STABLE)

    # --- responses -------------------------------------------------------------------------------

    def record_id(self, session: int, id: Dot) -> None:
        """Record the identifier of the operation that `session` has just issued."""
        self._sessions[session].current_id = id

    def handle_response(self, response: Response) -> None:
        session = self._sessions.get(response.session)
        if session is None or session.awaited_kind is None or session.current_id != response.id:
            return
        if response.kind is session.awaited_kind or response.kind is ResponseKind.STABLE:
            self._continue_session(session)

    def reject_call(self, session: int) -> None:
        """End the current call of the session, which its replica does not accept."""
        rejected = self._sessions[session]
        rejected.think_us = max(rejected.think_us, REJECTION_PAUSE_US)
        self._continue_session(rejected)

    def _time_out(self, session: _ClientSession, call_number: int) -> None:
        if session.issued_calls == call_number and session.awaited_kind is not None:
            self.timed_out_calls += 1
            self._continue_session(session)

    def _continue_session(self, session: _ClientSession) -> None:
        self._stop_waiting(session)
        if session.loop == "open":
            self._idle_sessions[session.replica].append(session)
        elif session.loop == "closed":
            # Scheduled even without think time, since the replica is still releasing effects.
            self._heap.schedule_after(session.think_us, self._next_call, session)

    def _stop_waiting(self, session: _ClientSession) -> None:
        if session.awaited_kind is not None:
            session.awaited_kind = None
            self.waiting_sessions -= 1
        if session.timeout_event is not None:
            self._heap.cancel(session.timeout_event)
            session.timeout_event = None
