"""Router for the calls of one client: sends, retries and completes them, or fails them.

Rules:

- A call that was sent and has no response is retried at the next replica under the same number. The
  cluster executes it once. Replicas retain the outcomes of a bounded number of calls per client.
  Therefore the numbers of open calls stay close together, and no later call takes the slot of a
  retried one: the first replica may return with that call much later. If the reserved slots leave
  too few for others, later calls use another client id.
- A call that a replica rejects because of the state of that replica is retried at the next one. If
  all replicas reject the call, or its deadline passes, the call fails with the last reason.
- A session continues at another replica only once that replica has the session's causal context.
- `NotDone` is reported only for a call that was never sent, or that was rejected by all replicas to
  which it was sent.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import chain
from math import inf
from typing import Any, Final

import msgspec

from creekdb.client.calls import Call
from creekdb.client.errors import NotDone, Unknown
from creekdb.client.replica_connection import ReplicaConnection
from creekdb.errors import MalformedMessage
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire import messages
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX
from creekdb.wire.reject_reason import RejectReason, reject_rule

DEADLINE_CHECK_S: Final = 0.01
"""Least time between two checks of the deadlines."""
TIMER_TOLERANCE_S: Final = 0.001
"""Time by which a timer of the event loop may fire early."""


class CallDeadlines:
    """Timeouts of all calls of a client, with one timer.

    Almost no call times out, so calls have no timers of their own. The timer is set to the earliest
    deadline scheduled. When it fires, that call is usually complete. A scan of all pending calls
    finds the late ones and the next deadline. Scans are `DEADLINE_CHECK_S` apart, so a call
    may time out late by that much.
    """

    def __init__(
        self,
        pending_calls: Callable[[], Iterable[Call[Any]]],
        on_timeout: Callable[[Call[Any]], None],
        running_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.get_running_loop,
    ) -> None:
        """`pending_calls` returns the calls without a response, and possibly complete ones."""
        self._pending_calls = pending_calls
        self._on_timeout = on_timeout
        self._running_loop = running_loop
        self._next_check = inf
        self._timer: asyncio.TimerHandle | None = None

    def schedule(self, deadline: float) -> None:
        """Ensure a check at `deadline`, in the time of the event loop."""
        if deadline < self._next_check:
            self._arm_timer(deadline)

    def stop(self) -> None:
        """Cancel the timer. A later `schedule` starts it again."""
        self._arm_timer(inf)

    def _arm_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_check = when
        self._timer = None if when == inf else self._running_loop().call_at(when, self._check_calls)

    def _check_calls(self) -> None:
        now = self._running_loop().time()
        late, earliest = [], inf
        for call in self._pending_calls():
            if call.deadline <= now + TIMER_TOLERANCE_S:
                late.append(call)
            elif call.deadline < earliest:
                earliest = call.deadline
        self._arm_timer(max(earliest, now + DEADLINE_CHECK_S))
        for call in late:
            if not call.is_complete:
                self._on_timeout(call)


IN_FLIGHT_MAX: Final = 512
"""Upper bound for the calls in flight. Replicas retain more calls of a client than this, and reject
more than this on one connection."""
DEPENDENCY_WAIT_FRACTION: Final = 0.9
"""Share of a call's remaining time that the replica may wait for dependencies. The rest is for the
rejection to arrive."""
RESERVED_SLOTS_MAX: Final = CALLS_PER_CLIENT_MAX - IN_FLIGHT_MAX
"""Upper bound for reserved slots under one client id. Beyond it, the router waits until no call is
in flight; later calls use another client id."""
UNENCODABLE: Final = (OverflowError, TypeError, ValueError)
"""Errors of encoding a value that no message can hold."""
SESSIONS_MAX: Final = 16_384
"""Number of sessions with a separate causal context. Twice as many are kept between two merges."""


class CallRouter:
    """Open calls of one client, and the connection to its current replica."""

    def __init__(
        self,
        replica_count: int,
        outcome_query: Callable[[Call[Any]], Callable[[], Awaitable[Any]]],
        sessions_max: int = SESSIONS_MAX,
    ) -> None:
        """`outcome_query(call)` returns a function that queries the outcome of the call later."""
        self._replica_count = replica_count
        self._outcome_query = outcome_query
        self._sessions_max = sessions_max
        self.connection: ReplicaConnection | None = None
        """Connection to the current replica."""
        self.replica: int | None = None
        """Number of the current replica, or of the last one."""
        self.is_replica_joining = False
        """True if the replica was still joining when the client connected, until it responds."""
        self._last_number = 0
        self._open_calls: dict[int, Call[Any]] = {}
        """Calls that may receive more messages, by number."""
        self._in_flight: dict[int, Call[Any]] = {}
        """Open calls that were sent and are retried if the replica is lost, by number."""
        self._queue: deque[Call[Any]] = deque()
        """Calls not sent yet: too many calls are in flight, or no replica is connected."""
        self._session_contexts: dict[int, dict[int, int]] = {}
        """Last request with a response, by session and replica. The requests of a replica are
        delivered in order, so a replica that has this request has all earlier ones."""
        self._shared_context: dict[int, int] = {}
        """Last request with a response, by replica, for sessions without a context of their own."""
        self._reserved_slots: dict[int, None] = {}
        """Slots of retried calls in the deduplication registers."""
        self._deadlines = CallDeadlines(self._pending_calls, self._time_out)

    def next_number(self) -> int:
        """Return the number of a new call. Skips reserved slots."""
        self._last_number += 1
        if self._reserved_slots and not self._has_too_few_slots:
            while self._last_number % CALLS_PER_CLIENT_MAX in self._reserved_slots:
                self._last_number += 1
        return self._last_number

    @property
    def _has_too_few_slots(self) -> bool:
        """True if the reserved slots leave too few for other calls under this client id."""
        return len(self._reserved_slots) > RESERVED_SLOTS_MAX

    def has_open_calls(self) -> bool:
        """Return True if any call may receive more messages."""
        return bool(self._open_calls)

    # --- sending ----------------------------------------------------------------------------------

    def submit(self, call: Call[Any]) -> None:
        """Queue a new call, start its timeout and send it if possible."""
        self._open_calls[call.message.number] = call
        if call.timeout_s is not None:
            call.deadline = asyncio.get_running_loop().time() + call.timeout_s
            self._deadlines.schedule(call.deadline)
        self._queue.append(call)
        self.send_queued()

    def send_queued(self) -> None:
        """Send queued calls, as far as the limits allow."""
        connection, queue, in_flight = self.connection, self._queue, self._in_flight
        while connection is not None and queue:
            call = queue[0]
            number = call.message.number
            if not call.attempts and self._has_too_few_slots:
                if not in_flight:
                    self._drop_connection(connection)  # the next one has another client id
                return
            if in_flight and number - next(iter(in_flight)) >= IN_FLIGHT_MAX:
                return
            queue.popleft()
            if call.is_complete:
                continue
            try:
                frame = messages.encode_frame(self._with_dependencies(call))
            except UNENCODABLE as error:  # an argument of an internal operation
                self._fail_unsent(call, RejectReason.BAD_ARGUMENTS, f"cannot be sent: {error}")
                continue
            if len(frame) > messages.CLIENT_FRAME_BYTES_MAX:
                size = f"{len(frame)} bytes; the limit is {messages.CLIENT_FRAME_BYTES_MAX} bytes"
                self._fail_unsent(call, RejectReason.TOO_LARGE, f"call is too large: {size}")
                continue
            call.attempts += 1
            in_flight[number] = call
            connection.write(frame)

    def _fail_unsent(self, call: Call[Any], reason: RejectReason, problem: str) -> None:
        """Fail a call that cannot be sent. A retry may exceed a limit by its dependencies."""
        del self._open_calls[call.message.number]
        text = f"{call.message.operation}: {problem}"
        call.fail(Unknown(text) if call.attempts else NotDone(reason, text))

    def _with_dependencies(self, call: Call[Any]) -> messages.CallRequest:
        """Return the request with the session's dependencies on other replicas.

        The replica executes the call once it has them, and waits at most until shortly before the
        deadline of the call.
        """
        message = call.message
        context = self._session_contexts.get(message.session, self._shared_context)
        if not context or (len(context) == 1 and self.replica in context):
            if not message.after and not self.is_replica_joining:
                return message
            context = {}
        dependencies = [
            Dot(replica, event) for replica, event in context.items() if replica != self.replica
        ]
        wait_ms = 0
        if call.timeout_s is not None:
            remaining_s = call.deadline - asyncio.get_running_loop().time()
            wait_ms = max(1, int(remaining_s * DEPENDENCY_WAIT_FRACTION * 1000))
        return msgspec.structs.replace(
            message, after=(*message.after, *dependencies), wait_ms=wait_ms
        )

    def on_connection_lost(self) -> None:
        """Fail the calls that wait for a final response. The lost replica would have sent it."""
        self.connection = None
        for number in [number for number in self._open_calls if number not in self._in_flight]:
            call = self._open_calls[number]
            if call.has_response:
                del self._open_calls[number]
                self._fail_unreported(
                    call, "no final response: the connection to the replica was lost"
                )

    def _fail_unreported(self, call: Call[Any], message: str) -> None:
        """Fail a call without a final response. `call.final` queries the outcome on demand."""
        if call.id is not None:
            call.query_outcome = self._outcome_query(call)
        call.fail(Unknown(message))

    def resend(self) -> None:
        """Retry all calls in flight at the replica that is connected now."""
        if self._in_flight:
            self._reserve_slots(self._in_flight)
        self._queue.extendleft(reversed(self._in_flight.values()))
        self._in_flight.clear()
        self.send_queued()

    def _reserve_slots(self, numbers: Iterable[int]) -> None:
        """Reserve the slots of these calls, and give queued calls other numbers if necessary."""
        self._reserved_slots.update(
            dict.fromkeys([number % CALLS_PER_CLIENT_MAX for number in numbers])
        )
        for call in self._queue:
            if not call.attempts and self._open_calls.pop(call.message.number, None) is not None:
                number = self.next_number()
                call.message = msgspec.structs.replace(call.message, number=number)
                self._open_calls[number] = call

    def release_slots(self) -> bool:
        """Release all slots if no retry needs them. The client must then use another client id."""
        if not self._reserved_slots or any(call.attempts for call in self._pending_calls()):
            return False
        self._reserved_slots.clear()
        return True

    def clear_session_contexts(self) -> None:
        """Clear all contexts: the cluster is another one, with request numbers of its own."""
        self._session_contexts.clear()
        self._shared_context.clear()

    # --- timeouts ---------------------------------------------------------------------------------

    def _pending_calls(self) -> Iterator[Call[Any]]:
        return chain(self._in_flight.values(), self._queue)

    def _time_out(self, call: Call[Any]) -> None:
        """Fail a call without a response, and cancel its responses at the replica."""
        number = call.message.number
        self._open_calls.pop(number, None)
        kind = ResponseKind.STABLE if call.message.strong else ResponseKind.TENTATIVE
        text = f"{call.message.operation}: no {kind} response within {call.timeout_s:g} s"
        if call.attempts:
            call.fail(Unknown(text))
        else:
            failure = NotDone(RejectReason.DEADLINE, f"{text}; no replica accepted the call")
            call.fail(call.rejection or failure)
        if self._in_flight.pop(number, None) is not None and self.connection is not None:
            self.connection.write(messages.encode_frame(messages.CancelResponses(number)))
            self.send_queued()

    def fail_all(self, reason: RejectReason, message: str) -> None:
        """Fail all open calls."""
        for call in self._open_calls.values():
            call.fail(Unknown(message) if call.attempts else NotDone(reason, message))
        self._open_calls.clear()
        self._in_flight.clear()
        self._queue.clear()
        self._deadlines.stop()

    # --- receiving --------------------------------------------------------------------------------

    def on_message(self, message: messages.ServerMessage) -> None:
        """Handle a message about a call."""
        if isinstance(message, messages.CallResponse):
            if (call := self._open_calls.get(message.number)) is not None:
                self._on_response(call, message)
        elif isinstance(message, messages.CallIssued):
            if (call := self._open_calls.get(message.number)) is not None:
                call.id = message.id
        elif isinstance(message, messages.Rejected):
            if (call := self._open_calls.get(message.number)) is not None:
                self._on_rejection(call, message)
        else:
            raise MalformedMessage(f"unexpected message: {type(message).__name__}")

    def _on_response(self, call: Call[Any], response: messages.CallResponse) -> None:
        had_response = call.has_response
        self.is_replica_joining = False
        call.add_response(response)
        if call.is_complete:
            del self._open_calls[response.number]
        if had_response:
            return  # the final response changes neither the context nor the slots
        if call.id is not None:
            self._extend_session_context(call.message.session, call.id)
        if call.has_response:
            self._release_slot(response.number)

    def _extend_session_context(self, session: int, id: Dot) -> None:
        """Add a request with a response to the causal context of its session.

        Such a request is safe at its replica. A request without a response may be lost with its
        replica, and no other call may wait for it.
        """
        replica, event = id
        context = self._session_contexts.get(session)
        if context is None and event > 0:
            shared = self._shared_context
            self._session_contexts[session] = {
                **shared,
                replica: max(event, shared.get(replica, 0)),
            }
            if len(self._session_contexts) > 2 * self._sessions_max:
                self._merge_oldest_sessions()
        elif context is not None and event > context.get(replica, 0):
            context[replica] = event

    def _merge_oldest_sessions(self) -> None:
        """Merge the contexts of the oldest sessions into one that all of them depend on."""
        contexts, shared = list(self._session_contexts.items()), self._shared_context
        for _, context in contexts[: -self._sessions_max]:
            for replica, event in context.items():
                shared[replica] = max(event, shared.get(replica, 0))
        self._session_contexts = dict(contexts[-self._sessions_max :])

    def _release_slot(self, number: int) -> None:
        """Remove a call from the calls in flight, and send queued calls instead."""
        if self._in_flight.pop(number, None) is not None and self._queue:
            self.send_queued()

    def _on_rejection(self, call: Call[Any], rejected: messages.Rejected) -> None:
        if (
            reject_rule(rejected.reason).retry_elsewhere
            and rejected.is_certain
            and self._retry_elsewhere(call, rejected)
        ):
            return
        if rejected.reason == RejectReason.UNKNOWN_OUTCOME and not call.has_response:
            if self._in_flight.pop(rejected.number, None) is not None:
                self._reserve_slots((rejected.number,))
                self._queue.appendleft(call)
                self.send_queued()  # deduplication returns the stored outcome
            return
        del self._open_calls[rejected.number]
        if call.has_response:
            self._fail_unreported(call, rejected.message)
            return
        is_certain = rejected.is_certain and call.attempts == 1
        text = rejected.message
        call.fail(NotDone(rejected.reason, text) if is_certain else Unknown(text))
        self._release_slot(rejected.number)

    def _retry_elsewhere(self, call: Call[Any], rejected: messages.Rejected) -> bool:
        """Retry at another replica. Returns False if this replica has rejected the call before."""
        replica, connection = self.replica, self.connection
        assert replica is not None
        if self._replica_count == 1 or replica in call.rejected_by:
            return False
        call.attempts -= 1
        call.rejected_by |= {replica}
        call.rejection = NotDone(rejected.reason, rejected.message)
        if connection is not None:
            self._drop_connection(connection)
        return True

    def _drop_connection(self, connection: ReplicaConnection) -> None:
        self.connection = None  # the database reconnects once the connection is closed
        loop = asyncio.get_running_loop()
        loop.call_soon(connection.close)  # after the messages already received
