"""When calls are too late. Almost none ever is: so one timer serves all, and none is set for each.

The timer is set for the earliest time that was told. What was due then may long be answered: all
that still wait are looked through, which tells the next time. That is done once in a while, and a
call may be told by as much too late.

The calls of one client: sent, answered, asked for again elsewhere, or given up.

Rules it keeps:

- A call that was sent and not answered is asked for again at the next replica, under its number: it
  is executed once. Numbers of such calls stay close together, since replicas remember so many; and
  no later call makes them forget one that was asked for twice, since the first replica may come
  back with it much later. Where that leaves too little room, later calls have another name.
- A call that a replica refuses because of what is wrong with that replica goes on at the next one.
  When all have refused it, or its time is over, the last reason is told.
- A session goes on at another replica only when that has seen all that the session did elsewhere.
- "Certainly not done" is said only of calls that were never sent, or that were refused by the only
  replica that they were sent to, or by all of them.
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
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire import messages
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX

DEADLINE_CHECK_S: Final = 0.01
"""Between two looks, at least."""
TIMER_TOLERANCE_S: Final = 0.001
"""By as much a timer may be early."""


class CallDeadlines:
    def __init__(
        self, waiting: Callable[[], Iterable[Call]], too_late: Callable[[Call], None]
    ) -> None:
        """`waiting` gives the calls that have no answer, and perhaps some that are over."""
        self._pending_calls = waiting
        self._on_timeout = too_late
        self._next_check = inf
        self._timer: asyncio.TimerHandle | None = None

    def schedule(self, until: float) -> None:
        """A call is to be answered by then, in the time of the loop."""
        if until < self._next_check:
            self._arm_timer(until)

    def stop(self) -> None:
        self._arm_timer(inf)

    def _arm_timer(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_check = until
        loop = asyncio.get_running_loop()
        self._timer = None if until == inf else loop.call_at(until, self._check_calls)

    def _check_calls(self) -> None:
        now = asyncio.get_running_loop().time()
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
"""Calls at once that are not answered: replicas remember more than that of a client, and refuse
more than that of a connection."""
DEPENDENCY_WAIT_FRACTION: Final = 0.9
"""Of the time that a call has, what it may wait for others at the replica: then there is time left
to tell that it was not done."""
RESERVED_SLOTS_MAX: Final = CALLS_PER_CLIENT_MAX - IN_FLIGHT_MAX
"""Calls that were asked for again, and are to be remembered, under one name of the client: with
more, all that was asked for is waited for, and what comes then has another name."""
SESSIONS_MAX: Final = 16_384
"""Of which it is known, each for itself, what they did; of as many more for a while."""
REASONS_TO_RETRY_ELSEWHERE: Final = ("disk", "stopping", "no_majority")
"""Reasons that hold at one replica, while others may be well."""
OUTCOME_UNREPORTED: Final = "untold"
"""The reason when what came of a call is not known where it was issued."""


class CallRouter:
    def __init__(
        self, replicas: int, ended: Callable[[Call], Callable[[], Awaitable[Any]]]
    ) -> None:
        """With one of so many replicas. `ended(call)`: how to ask later how it ended."""
        self._replica_count = replicas
        self._outcome_query = ended
        self.connection: ReplicaConnection | None = None
        """To the one that is at hand."""
        self.replica: int | None = None
        """That one, or the one that was last."""
        self.is_replica_joining = False
        """Does it take no part yet, as far as is known?"""
        self._last_number = 0
        self._open_calls: dict[int, Call] = {}
        """To which more may be said."""
        self._in_flight: dict[int, Call] = {}
        """Of these: sent, and to be asked for again if the replica goes away."""
        self._queue: deque[Call] = deque()
        """Not sent yet: there are too many under way, or no replica is at hand."""
        self._session_contexts: dict[int, dict[int, int]] = {}
        """By session and replica: the last request that was answered there. Whoever has that one
        has those before it, for requests of a replica are delivered in order."""
        self._shared_context: dict[int, int] = {}
        """The same for all sessions that are not there."""
        self._reserved_slots: dict[int, None] = {}
        """Where calls are remembered that were asked for again."""
        self._deadlines = CallDeadlines(self._pending_calls, self._time_out)

    def next_number(self) -> int:
        self._last_number += 1
        if self._reserved_slots and not self._has_too_few_slots:
            while self._last_number % CALLS_PER_CLIENT_MAX in self._reserved_slots:
                self._last_number += 1
        return self._last_number

    @property
    def _has_too_few_slots(self) -> bool:
        """Is there too little room for others under this name?"""
        return len(self._reserved_slots) > RESERVED_SLOTS_MAX

    def has_open_calls(self) -> bool:
        """May more be said to any call?"""
        return bool(self._open_calls)

    # --- what is said ---------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        self._open_calls[call.message.number] = call
        if call.timeout_s is not None:
            call.deadline = asyncio.get_running_loop().time() + call.timeout_s
            self._deadlines.schedule(call.deadline)
        self._queue.append(call)
        self.send_queued()

    def send_queued(self) -> None:
        """Whatever may be sent now."""
        line, queue, unanswered = self.connection, self._queue, self._in_flight
        while line is not None and queue:
            call = queue[0]
            number = call.message.number
            if not call.attempts and self._has_too_few_slots:
                if not unanswered:
                    self._drop_connection(line)  # there is another name with the next one
                return
            if unanswered and number - next(iter(unanswered)) >= IN_FLIGHT_MAX:
                return
            queue.popleft()
            if call.is_complete:
                continue
            frame = messages.encode_frame(self._with_dependencies(call))
            if len(frame) > messages.CLIENT_FRAME_BYTES_MAX:
                del self._open_calls[number]
                size = f"{len(frame)} bytes; at most {messages.CLIENT_FRAME_BYTES_MAX} can be sent"
                call.fail(NotDone("too_large", f"{call.message.operation} would take {size}"))
                continue
            call.attempts += 1
            unanswered[number] = call
            line.write(frame)

    def _with_dependencies(self, call: Call) -> messages.CallRequest:
        """Only when this replica has what the session did at others, and while somebody waits."""
        message = call.message
        seen = self._session_contexts.get(message.session, self._shared_context)
        if not seen or (len(seen) == 1 and self.replica in seen):
            if not message.after and not self.is_replica_joining:
                return message
            seen = {}
        elsewhere = [Dot(each, event) for each, event in seen.items() if each != self.replica]
        wait_ms = 0
        if call.timeout_s is not None:
            left = call.deadline - asyncio.get_running_loop().time()
            wait_ms = max(1, int(left * DEPENDENCY_WAIT_FRACTION * 1000))
        return msgspec.structs.replace(message, after=(*message.after, *elsewhere), wait_ms=wait_ms)

    def on_connection_lost(self) -> None:
        """The replica is gone, and with it what it would have told."""
        self.connection = None
        for number in [each for each in self._open_calls if each not in self._in_flight]:
            call = self._open_calls[number]
            if call.has_response:
                del self._open_calls[number]
                self._fail_unreported(call, "the replica that would have told how it ended is gone")

    def _fail_unreported(self, call: Call, why: str) -> None:
        """Whoever wants to know how it ended has to ask for it."""
        if call.id is not None:
            call.query_outcome = self._outcome_query(call)
        call.fail(Unknown(why))

    def resend(self) -> None:
        """At another replica."""
        if self._in_flight:
            self._reserve_slots(self._in_flight)
        self._queue.extendleft(reversed(self._in_flight.values()))
        self._in_flight.clear()
        self.send_queued()

    def _reserve_slots(self, numbers: Iterable[int]) -> None:
        """From now on no call takes the place of these."""
        self._reserved_slots.update(
            dict.fromkeys([number % CALLS_PER_CLIENT_MAX for number in numbers])
        )
        for call in self._queue:
            if not call.attempts and self._open_calls.pop(call.message.number, None) is not None:
                number = self.next_number()
                call.message = msgspec.structs.replace(call.message, number=number)
                self._open_calls[number] = call

    def can_change_client_id(self) -> bool:
        """Is there anything to be gained by another name of the client, and nothing to be asked for
        again under the one that it has?"""
        return bool(self._reserved_slots) and not any(
            call.attempts for call in self._pending_calls()
        )

    def on_client_id_changed(self) -> None:
        """The client has another name, under which nothing was asked for."""
        self._reserved_slots.clear()

    def clear_session_contexts(self) -> None:
        """It is another cluster, where requests have numbers of their own."""
        self._session_contexts.clear()
        self._shared_context.clear()

    # --- when it takes too long -------------------------------------------------------------------

    def _pending_calls(self) -> Iterator[Call]:
        return chain(self._in_flight.values(), self._queue)

    def _time_out(self, call: Call) -> None:
        """It has no answer, and none is waited for any more."""
        number = call.message.number
        self._open_calls.pop(number, None)
        kind = "stable" if call.message.strong else "tentative"
        what = f"{call.message.operation} had no {kind} answer in {call.timeout_s:g} s"
        if call.attempts:
            call.fail(Unknown(what))
        else:
            why = NotDone("deadline", f"{what}, and no replica took it up")
            call.fail(call.rejection or why)
        if self._in_flight.pop(number, None) is not None and self.connection is not None:
            self.connection.write(messages.encode_frame(messages.CancelResponses(number)))
            self.send_queued()

    def fail_all(self, reason: str, message: str) -> None:
        """On all calls."""
        for call in self._open_calls.values():
            call.fail(Unknown(message) if call.attempts else NotDone(reason, message))
        self._open_calls.clear()
        self._in_flight.clear()
        self._queue.clear()
        self._deadlines.stop()

    # --- what is heard ----------------------------------------------------------------------------

    def on_message(self, message: messages.ServerMessage) -> None:
        if isinstance(message, messages.CallResponse):
            call = self._open_calls.get(message.number)
            if call is not None:
                self._on_response(call, message)
        elif isinstance(message, messages.CallIssued):
            call = self._open_calls.get(message.number)
            if call is not None:
                call.id = message.id
        elif isinstance(message, messages.Rejected):
            call = self._open_calls.get(message.number)
            if call is not None:
                self._on_rejection(call, message)
        else:
            raise MalformedMessage(f"unexpected: {type(message).__name__}")

    def _on_response(self, call: Call, answer: messages.CallResponse) -> None:
        was_answered = call.has_response
        self.is_replica_joining = False
        call.add_response(answer)
        if call.is_complete:
            del self._open_calls[answer.number]
        if was_answered:
            return  # this is how it ended
        if call.id is not None:
            self._extend_session_context(call.message.session, call.id)
        if call.has_response:
            self._release_slot(answer.number)

    def _extend_session_context(self, session: int, id: Dot) -> None:
        """What was answered is safe where it was issued. What was only issued may be lost with its
        replica: nobody must wait for that."""
        replica, event = id
        seen = self._session_contexts.get(session)
        if event <= 0:
            pass
        elif seen is None:
            known = self._shared_context
            self._session_contexts[session] = {**known, replica: max(event, known.get(replica, 0))}
            if len(self._session_contexts) > 2 * SESSIONS_MAX:
                self._merge_oldest_sessions()
        elif event > seen.get(replica, 0):
            seen[replica] = event

    def _merge_oldest_sessions(self) -> None:
        """Let the sessions that began first wait for what any of them did."""
        seen, known = list(self._session_contexts.items()), self._shared_context
        for _, events in seen[:-SESSIONS_MAX]:
            for replica, event in events.items():
                known[replica] = max(event, known.get(replica, 0))
        self._session_contexts = dict(seen[-SESSIONS_MAX:])

    def _release_slot(self, number: int) -> None:
        """There is room for another one."""
        if self._in_flight.pop(number, None) is not None and self._queue:
            self.send_queued()

    def _on_rejection(self, call: Call, refused: messages.Rejected) -> None:
        if (
            refused.reason in REASONS_TO_RETRY_ELSEWHERE
            and refused.is_certain
            and self._retry_elsewhere(call, refused)
        ):
            return
        if refused.reason == OUTCOME_UNREPORTED and not call.has_response:
            self._retry(call)
            return
        del self._open_calls[refused.number]
        if call.has_response:
            self._fail_unreported(call, refused.message)
            return
        certain = refused.is_certain and call.attempts == 1
        text = refused.message
        call.fail(NotDone(refused.reason, text) if certain else Unknown(text))
        self._release_slot(refused.number)

    def _retry(self, call: Call) -> None:
        """It was done, and under its number one learns what came of it."""
        number = call.message.number
        if self._in_flight.pop(number, None) is not None:
            self._reserve_slots((number,))
            self._queue.appendleft(call)
            self.send_queued()

    def _retry_elsewhere(self, call: Call, refused: messages.Rejected) -> bool:
        """At another replica, unless it has been everywhere and is back."""
        replica, line = self.replica, self.connection
        assert replica is not None
        if self._replica_count == 1 or replica in call.rejected_by:
            return False
        call.attempts -= 1
        call.rejected_by |= {replica}
        call.rejection = NotDone(refused.reason, refused.message)
        if line is not None:
            self._drop_connection(line)
        return True

    def _drop_connection(self, line: ReplicaConnection) -> None:
        self.connection = None  # and once it is closed, another one is found
        asyncio.get_running_loop().call_soon(line.close)  # it may have said more
