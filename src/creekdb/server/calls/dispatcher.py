"""Dispatch of client calls from TCP and HTTP.

A call is an `OpenCall` from its arrival to its last response, whatever it arrived on. It is

- *queued* while a request that it depends on has not arrived,
- *issued* once the replica has given it an identifier,
- *pending* until it has the response that its client waits for: the first one of a weak call, the
  stable one of a strong call,
- *closed* after its last response, or when its client needs no more responses.

A rejected call was certainly not executed, and its rejection carries the reason. The exception is
a call that was issued and whose outcome this replica will never learn.

A connection or an HTTP request is a `ResponseSink`. It encodes and sends, and has no state of the
calls. Their number is bounded for each client and for all of them.
"""

import asyncio
import time
from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from creekdb.errors import MalformedMessage, UnknownName, UsageError
from creekdb.protocol.effects import (
    CheckpointInstalled,
    Event,
    RbDelivered,
    Response,
    ResponseKind,
    Task,
)
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION
from creekdb.protocol.request import Operation
from creekdb.server.calls.admission_control import (
    AdmissionControl,
    DiskState,
    MembershipPort,
    OperationResolver,
    ReplicaLoad,
)
from creekdb.server.observability.latency import CallLatencies
from creekdb.server.runtime.driver import EffectListener
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX
from creekdb.wire.messages import CallRequest, Rejected
from creekdb.wire.reject_reason import RejectReason

_TENTATIVE: Final = ResponseKind.TENTATIVE
STARTUP_BARRIER: Final = Dot(0, 0)
"""Pseudo-request that all calls wait for until the replica has joined."""
SESSION_BITS: Final = 32
SESSION_NUMBER_MAX: Final = 2**SESSION_BITS - 1
"""Greatest session number of one client."""
DURABLE_POLL_S: Final = 0.05
"""Interval between two checks of the durable position, in seconds."""


class CallLimits(NamedTuple):
    """Upper bounds for the calls of a replica's clients."""

    in_flight_max: int = 65_536
    """Calls of all clients that await a response."""
    queued_max: int = 4096
    """Calls that wait for a dependency."""
    queue_time_s_max: float = 30.0
    """Waiting time of one call, in seconds."""
    awaiting_final_max: int = 16_384
    """Weak calls of one client that have a response and await the final one."""
    unattended_max: int = 100_000
    """Calls without a client whose latency is still measured."""


class ResponseSink(Protocol):
    """Origin of calls and receiver of their responses: a connection or an HTTP request."""

    client: str
    """Client name, for the deduplication of retries. Empty if the client does not retry."""
    token: str
    not_joined_reason: RejectReason
    """Reason of the rejection of a call that expires before this replica has joined."""

    def send_issued(self, number: int, id: Dot) -> None: ...

    def send_response(self, number: int, response: Response) -> None: ...

    def send_rejection(self, rejected: Rejected) -> None: ...


class CallObserver(Protocol):
    def on_invocation(self, id: Dot) -> None:
        """Observe a call of a client of this replica."""

    def on_response(self, response: Response) -> None:
        """Observe a response that is sent now."""

    def on_tasks(self, tasks: tuple[Task, ...]) -> None: ...


class CallDriver(ReplicaLoad, Protocol):
    """Operations of the driver that the dispatcher uses."""

    def invoke(
        self, operation: Operation, strong: bool, session: int, after: tuple[Dot, ...] = ()
    ) -> Dot: ...

    def subscribe(self, listener: EffectListener) -> None: ...

    def observe_tasks(self, observer: Callable[[tuple[Task, ...]], None] | None) -> None: ...


class OpenCall:
    """Call of a client, from its arrival to its last response."""

    __slots__ = (
        "client",
        "expiry_timer",
        "has_response",
        "id",
        "is_pending",
        "missing",
        "request",
        "started_s",
    )

    def __init__(self, client: "ClientCalls", request: CallRequest) -> None:
        self.client: ClientCalls | None = client
        """Calls of the same client. None if the client needs no more responses."""
        self.request = request
        self.id: Dot | None = None
        """Identifier of the request. None until the call is issued."""
        self.missing: Dot | None = None
        """Request that the call waits for. None unless the call is queued."""
        self.expiry_timer: asyncio.TimerHandle | None = None
        self.is_pending = True
        self.has_response = False
        self.started_s = 0.0


class ClientCalls:
    """Calls of one connection, or of one HTTP request."""

    def __init__(self, dispatcher: "CallDispatcher", sink: ResponseSink) -> None:
        self._dispatcher = dispatcher
        self.sink = sink
        dispatcher.session_count += 1
        self._session_base = dispatcher.session_count << SESSION_BITS
        """Identifier of the client's session 0."""
        self.by_number: dict[int, OpenCall] = {}
        """Calls that may get more responses."""
        self.pending_count = 0

    def session_id(self, number: int) -> int:
        """Return the replica's identifier for a session of this client.

        A client may use any number of sessions and does not end them, so none is stored.
        """
        return self._session_base | number & SESSION_NUMBER_MAX

    def submit(self, request: CallRequest) -> None:
        """Dispatch a new call. Raise `MalformedMessage` if its number is in use."""
        if self.pending_count >= CALLS_PER_CLIENT_MAX:
            self._dispatcher.count(RejectReason.BUSY)
            message = "this client has too many calls in progress"
            self.sink.send_rejection(Rejected(request.number, RejectReason.BUSY, message))
            return
        previous = self.by_number.get(request.number)
        if previous is not None:
            if previous.is_pending:
                raise MalformedMessage(f"call {request.number} is in progress on this connection")
            self._dispatcher.close_call(previous)
        call = self.by_number[request.number] = OpenCall(self, request)
        self.pending_count += 1
        self._dispatcher.in_flight += 1
        self._dispatcher.dispatch(self, call)

    def cancel(self, number: int) -> None:
        """Send no more responses to a call. An issued call still takes effect."""
        call = self.by_number.get(number)
        if call is not None:
            self._dispatcher.close_call(call)

    def cancel_all(self) -> None:
        for number in tuple(self.by_number):
            self.cancel(number)


class CallDispatcher:
    """All calls of a replica's clients, and the calls of the replica itself."""

    def __init__(
        self,
        driver: CallDriver,
        journal: DiskState,
        membership: MembershipPort,
        admission: AdmissionControl,
        resolver: OperationResolver,
        count: Callable[[str], None],
        limits: CallLimits,
    ) -> None:
        """Connect the dispatcher to the replica, and subscribe to the driver's effects."""
        self._driver = driver
        self._journal = journal
        self._membership = membership
        self._admission = admission
        self._resolver = resolver
        self.datatype = resolver.datatype
        self.count = count
        self._in_flight_max = limits.in_flight_max
        self._awaiting_final_max = limits.awaiting_final_max
        self._unattended_max = limits.unattended_max
        self._queued_max = limits.queued_max
        self._queue_time_s_max = limits.queue_time_s_max
        self._replica = driver.replica.view
        self._has_request = self._replica.has_request
        self._is_local_read = self._replica.can_respond_locally
        self.latencies = CallLatencies()
        self._observer: CallObserver | None = None
        self._open_calls: dict[Dot, OpenCall] = {}
        """Issued calls whose clients receive further responses."""
        self._unattended_calls: dict[Dot, OpenCall] = {}
        """Issued calls without a client that await their last response."""
        self._internal_calls: dict[Dot, Future[Any]] = {}
        """Calls of the replica itself, without a client."""
        self.in_flight = 0
        """Number of pending calls."""
        self.queued_count = 0
        """Number of calls that wait for a dependency."""
        self._queued_by_missing: dict[Dot, dict[OpenCall, None]] = {}
        self.session_count = 0
        driver.subscribe(self)

    def blocked_reason(self) -> str:
        """Return why all calls are blocked, or an empty string.

        The string is also empty while calls are still queued but the next check will release them.
        """
        membership = self._membership
        return "" if membership.accepts_calls else membership.blocked_reason() or ""

    def set_observer(self, observer: CallObserver | None) -> None:
        """Send calls, responses and tasks to `observer` from now on. None removes the observer."""
        self._observer = observer
        self._driver.observe_tasks(None if observer is None else observer.on_tasks)

    def open_calls(self) -> tuple[Dot, ...]:
        """Return the issued calls whose clients receive further responses."""
        return tuple(self._open_calls)

    # --- requests -----------------------------------------------------------------------------

    def dispatch(self, client: ClientCalls, call: OpenCall) -> None:
        """Issue a call, queue it until its dependencies have arrived, or reject it."""
        request, sink = call.request, client.sink
        strong = request.strong
        try:
            operation = self._resolver.resolve(request, sink.client, sink.token)
        except UnknownName as error:
            self._reject(call, RejectReason.UNKNOWN_OPERATION, str(error))
            return
        except UsageError as error:
            self._reject(call, RejectReason.BAD_ARGUMENTS, str(error))
            return
        missing = None if self._membership.accepts_calls else STARTUP_BARRIER
        if missing is None and request.after:
            missing = next((dot for dot in request.after if not self._has_request(dot)), None)
        local_read = missing is None and self._is_local_read(operation, strong)
        rejection = self._admission.rejection(strong, local_read)
        if rejection is None and missing is None and not local_read:
            rejection = self._resolver.rejection(request)
        if rejection is None and self.in_flight >= self._in_flight_max:
            cause = f"too many calls: {self._in_flight_max} are in flight"
            rejection = RejectReason.BUSY, f"{cause}; retry later"
        if rejection is not None:
            self._reject(call, *rejection)
            return
        if missing is not None:
            self._enqueue(call, missing)
            return
        call.started_s = time.perf_counter()
        try:
            session = client.session_id(request.session)
            id = self._driver.invoke(operation, strong, session, request.after)
        except UsageError as error:
            # The replica validates membership changes itself, and it may have been removed in this
            # turn of the loop.
            is_change = operation.name == MEMBERSHIP_OPERATION
            reason = RejectReason.BAD_ARGUMENTS if is_change else RejectReason.STOPPING
            self._reject(call, reason, str(error))
            return
        call.id = id
        self._open_calls[id] = call
        self._admission.pending.add(id)
        if not local_read:
            self._admission.uncommitted.add(id)
        if strong:
            self._admission.pending_strong.add(id)
        if self._observer is not None:
            self._observer.on_invocation(id)
        if not request.is_single_response:
            sink.send_issued(request.number, id)

    async def invoke_internal(self, operation: Operation, strong: bool) -> Any:
        """Invoke an operation without a client. Return the first response.

        The result is empty if the outcome is unknown or an exception.
        """
        id = self._driver.invoke(operation, strong, 0)
        response = self._internal_calls[id] = asyncio.get_running_loop().create_future()
        return await response

    def _complete_internal(self, id: Dot, value: Any) -> None:
        response = self._internal_calls.pop(id)
        if not response.cancelled():
            response.set_result(value)

    # --- queue of calls whose dependencies have not arrived -------------------------------------

    def _enqueue(self, call: OpenCall, missing: Dot) -> None:
        if self.queued_count >= self._queued_max:
            cause = f"{self.queued_count} calls wait for dependencies that have not arrived"
            self._reject(call, RejectReason.BUSY, f"too many calls: {cause}; retry later")
            return
        wait_s = min(call.request.wait_ms / 1000 or self._queue_time_s_max, self._queue_time_s_max)
        timer = asyncio.get_running_loop().call_later(wait_s, self._reject_expired, call, missing)
        call.missing, call.expiry_timer = missing, timer
        self._queued_by_missing.setdefault(missing, {})[call] = None
        self.queued_count += 1

    def _dequeue(self, call: OpenCall) -> None:
        if call.missing is None or call.expiry_timer is None:
            return
        call.expiry_timer.cancel()
        calls = self._queued_by_missing[call.missing]
        del calls[call]
        if not calls:
            del self._queued_by_missing[call.missing]
        call.missing = call.expiry_timer = None
        self.queued_count -= 1

    def release(self, missing: Dot) -> None:
        """Dispatch the calls that wait for a request, which has arrived."""
        for call in tuple(self._queued_by_missing.get(missing, ())):
            self._dequeue(call)
            if call.client is not None:
                self.dispatch(call.client, call)

    def release_barrier(self) -> None:
        """Dispatch the calls that waited until this replica has joined."""
        self.release(STARTUP_BARRIER)

    def recheck_dependencies(self) -> None:
        """Dispatch all queued calls again. Some of them may have to be rejected now."""
        for missing in tuple(self._queued_by_missing):
            self.release(missing)

    def _reject_expired(self, call: OpenCall, missing: Dot) -> None:
        if missing != STARTUP_BARRIER:
            message = f"call expired: its dependency {missing} did not arrive in time"
            self._reject(call, RejectReason.DEADLINE, message)
        elif call.client is not None:
            reason = self.blocked_reason() or "it has just started"
            message = f"this replica has not joined yet: {reason}"
            self._reject(call, call.client.sink.not_joined_reason, message)

    # --- responses ----------------------------------------------------------------------------

    def respond(self, responses: Sequence[Response]) -> None:
        """Send responses to the clients of their calls."""
        now_s, observer, open_calls = time.perf_counter(), self._observer, self._open_calls
        pending, uncommitted = self._admission.pending, self._admission.uncommitted
        for response in responses:
            id = response.id
            if observer is not None:
                observer.on_response(response)
            pending.serve(id)
            if response.kind is not _TENTATIVE:
                uncommitted.serve(id)
                self._admission.pending_strong.discard(id)
            call = open_calls.get(id) or self._unattended_calls.get(id)
            if call is not None:
                self._respond(call, response, now_s)
            elif id in self._internal_calls:
                self._complete_internal(id, response.outcome.value or ())

    def _respond(self, call: OpenCall, response: Response, now_s: float) -> None:
        request, client, is_local_read = call.request, call.client, response.id.event < 0
        is_tentative = response.kind is _TENTATIVE
        is_measured = not call.has_response if is_tentative else not is_local_read
        if is_measured:
            self.latencies.record(request.strong, response.kind, now_s - call.started_s)
        call.has_response = True
        is_last = is_local_read or not is_tentative
        if client is None:
            if is_last:
                del self._unattended_calls[response.id]
            return
        is_needed = is_last or not (request.is_single_response and request.strong)
        if is_needed:
            client.sink.send_response(request.number, response)
        if is_last or (request.is_single_response and not request.strong):
            self.close_call(call, is_last)
        elif not request.strong and call.is_pending:
            self._finish(client, call)
            self._limit_awaiting_final(client)

    def _limit_awaiting_final(self, client: ClientCalls) -> None:
        if len(client.by_number) - client.pending_count > self._awaiting_final_max:
            oldest = next(each for each in client.by_number.values() if not each.is_pending)
            self.close_call(oldest)
            number = oldest.request.number
            message = "too many calls await their final response; this one will not receive it"
            client.sink.send_rejection(
                Rejected(number, RejectReason.BUSY, message, is_certain=False)
            )

    def _reject(
        self, call: OpenCall, reason: RejectReason, message: str, is_certain: bool = True
    ) -> None:
        client = call.client
        self.close_call(call)
        self.count(reason)
        if client is not None:
            client.sink.send_rejection(Rejected(call.request.number, reason, message, is_certain))

    def close_call(self, call: OpenCall, has_last_response: bool = False) -> None:
        """Send no more responses to a call."""
        client, id = call.client, call.id
        if client is None:
            return
        self._finish(client, call)
        del client.by_number[call.request.number]
        call.client = None
        if id is None:
            return
        del self._open_calls[id]
        if not has_last_response:
            self._unattended_calls[id] = call
            if len(self._unattended_calls) > self._unattended_max:
                del self._unattended_calls[next(iter(self._unattended_calls))]

    def _finish(self, client: ClientCalls, call: OpenCall) -> None:
        """Record that a call has the response that its client waits for, or will not get it."""
        if call.is_pending:
            call.is_pending = False
            client.pending_count -= 1
            self.in_flight -= 1
            self._dequeue(call)

    # --- events of the replica ----------------------------------------------------------------

    def observe(self, events: tuple[Event, ...]) -> None:
        """Apply events to the calls that wait for them."""
        queued = self._queued_by_missing
        for event in events:
            # Dependent calls are dispatched after the effects of this batch are applied. A
            # dependent call is executed after its request, and its records follow the records of
            # that request.
            if type(event) is RbDelivered:
                if queued and event.id in queued:
                    asyncio.get_running_loop().call_soon(self.release, event.id)
            elif type(event) is CheckpointInstalled:
                self._admission.pending.serve_all(event.ids)
                self._admission.uncommitted.serve_all(event.ids)
                self._admission.pending_strong.difference_update(
                    [id for id in self._admission.pending_strong if id in event.ids]
                )
                asyncio.get_running_loop().call_soon(self._follow_checkpoint)

    def _follow_checkpoint(self) -> None:
        """Abandon and dispatch calls after an installed checkpoint.

        It carries outcomes for waiting clients, but only a bounded number of them. The other open
        calls get no response any more. It contains dependencies of queued calls, too.
        """
        is_awaited = self._replica.has_pending_response
        issued = (*self._open_calls, *self._unattended_calls)
        lost = [id for id in issued if not is_awaited(id)]
        if lost:
            self._abandon_when_durable(lost, self._journal.end_position)
        for id in [each for each in self._internal_calls if not is_awaited(each)]:
            self._complete_internal(id, ())
        for id in tuple(filter(self._has_request, self._queued_by_missing)):
            self.release(id)

    def _abandon_when_durable(self, ids: list[Dot], end: int) -> None:
        """Abandon the calls after all known responses, which wait for the disk, have been sent."""
        loop = asyncio.get_running_loop()
        if self._journal.durable_position < end:
            loop.call_later(DURABLE_POLL_S, self._abandon_when_durable, ids, end)
        else:
            loop.call_later(DURABLE_POLL_S, self.abandon, ids)

    def abandon(self, ids: Iterable[Dot]) -> None:
        """Report an unknown outcome to the clients. This replica will never learn the outcome."""
        message = "the call took effect, but this replica does not have its outcome"
        for id in ids:
            call = self._open_calls.get(id)
            if call is not None:
                self._reject(call, RejectReason.UNKNOWN_OUTCOME, message, is_certain=False)
            self._unattended_calls.pop(id, None)
