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
from creekdb.client.replica_connection import Line
from creekdb.errors import MalformedMessage
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire import messages
from creekdb.wire.deduplication import CALLS_KEPT

BEAT_S: Final = 0.01
"""Between two looks, at least."""
EARLY_S: Final = 0.001
"""By as much a timer may be early."""


class Deadlines:
    def __init__(
        self, waiting: Callable[[], Iterable[Call]], too_late: Callable[[Call], None]
    ) -> None:
        """`waiting` gives the calls that have no answer, and perhaps some that are over."""
        self._waiting = waiting
        self._too_late = too_late
        self._next = inf
        self._timer: asyncio.TimerHandle | None = None

    def note(self, until: float) -> None:
        """A call is to be answered by then, in the time of the loop."""
        if until < self._next:
            self._set(until)

    def stop(self) -> None:
        self._set(inf)

    def _set(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = until
        loop = asyncio.get_running_loop()
        self._timer = None if until == inf else loop.call_at(until, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        late, earliest = [], inf
        for call in self._waiting():
            if call.until <= now + EARLY_S:
                late.append(call)
            elif call.until < earliest:
                earliest = call.until
        self._set(max(earliest, now + BEAT_S))
        for call in late:
            if not call.is_over:
                self._too_late(call)


UNDER_WAY_MAX: Final = 512
"""Calls at once that are not answered: replicas remember more than that of a client, and refuse
more than that of a connection."""
WAIT_SHARE: Final = 0.9
"""Of the time that a call has, what it may wait for others at the replica: then there is time left
to tell that it was not done."""
SPARED_MAX: Final = CALLS_KEPT - UNDER_WAY_MAX
"""Calls that were asked for again, and are to be remembered, under one name of the client: with
more, all that was asked for is waited for, and what comes then has another name."""
SESSIONS_MAX: Final = 16_384
"""Of which it is known, each for itself, what they did; of as many more for a while."""
ELSEWHERE: Final = ("disk", "stopping", "no_majority")
"""Reasons that hold at one replica, while others may be well."""
UNTOLD: Final = "untold"
"""The reason when what came of a call is not known where it was issued."""


class Exchange:
    def __init__(
        self, replicas: int, ended: Callable[[Call], Callable[[], Awaitable[Any]]]
    ) -> None:
        """With one of so many replicas. `ended(call)`: how to ask later how it ended."""
        self._replicas = replicas
        self._ended = ended
        self.line: Line | None = None
        """To the one that is at hand."""
        self.replica: int | None = None
        """That one, or the one that was last."""
        self.waits = False
        """Does it take no part yet, as far as is known?"""
        self._number = 0
        self._calls: dict[int, Call] = {}
        """To which more may be said."""
        self._unanswered: dict[int, Call] = {}
        """Of these: sent, and to be asked for again if the replica goes away."""
        self._queue: deque[Call] = deque()
        """Not sent yet: there are too many under way, or no replica is at hand."""
        self._seen: dict[int, dict[int, int]] = {}
        """By session and replica: the last request that was answered there. Whoever has that one
        has those before it, for requests of a replica are delivered in order."""
        self._seen_by_any: dict[int, int] = {}
        """The same for all sessions that are not there."""
        self._spared: dict[int, None] = {}
        """Where calls are remembered that were asked for again."""
        self._deadlines = Deadlines(self._waiting, self._too_late)

    def next_number(self) -> int:
        self._number += 1
        if self._spared and not self._is_crowded:
            while self._number % CALLS_KEPT in self._spared:
                self._number += 1
        return self._number

    @property
    def _is_crowded(self) -> bool:
        """Is there too little room for others under this name?"""
        return len(self._spared) > SPARED_MAX

    def is_waited_for(self) -> bool:
        """May more be said to any call?"""
        return bool(self._calls)

    # --- what is said ---------------------------------------------------------------------------

    def ask(self, call: Call) -> None:
        self._calls[call.message.number] = call
        if call.timeout is not None:
            call.until = asyncio.get_running_loop().time() + call.timeout
            self._deadlines.note(call.until)
        self._queue.append(call)
        self.send()

    def send(self) -> None:
        """Whatever may be sent now."""
        line, queue, unanswered = self.line, self._queue, self._unanswered
        while line is not None and queue:
            call = queue[0]
            number = call.message.number
            if not call.asked and self._is_crowded:
                if not unanswered:
                    self._leave(line)  # there is another name with the next one
                return
            if unanswered and number - next(iter(unanswered)) >= UNDER_WAY_MAX:
                return
            queue.popleft()
            if call.is_over:
                continue
            frame = messages.frame_of(self._as_it_is_now(call))
            if len(frame) > messages.CLIENT_FRAME_MAX:
                del self._calls[number]
                size = f"{len(frame)} bytes; at most {messages.CLIENT_FRAME_MAX} can be sent"
                call.failed(NotDone("too_large", f"{call.message.operation} would take {size}"))
                continue
            call.asked += 1
            unanswered[number] = call
            line.write(frame)

    def _as_it_is_now(self, call: Call) -> messages.Call:
        """Only when this replica has what the session did at others, and while somebody waits."""
        message = call.message
        seen = self._seen.get(message.session, self._seen_by_any)
        if not seen or (len(seen) == 1 and self.replica in seen):
            if not message.after and not self.waits:
                return message
            seen = {}
        elsewhere = [Dot(each, event) for each, event in seen.items() if each != self.replica]
        wait_ms = 0
        if call.timeout is not None:
            left = call.until - asyncio.get_running_loop().time()
            wait_ms = max(1, int(left * WAIT_SHARE * 1000))
        return msgspec.structs.replace(message, after=(*message.after, *elsewhere), wait_ms=wait_ms)

    def lost(self) -> None:
        """The replica is gone, and with it what it would have told."""
        self.line = None
        for number in [each for each in self._calls if each not in self._unanswered]:
            call = self._calls[number]
            if call.is_answered:
                del self._calls[number]
                self._untold(call, "the replica that would have told how it ended is gone")

    def _untold(self, call: Call, why: str) -> None:
        """Whoever wants to know how it ended has to ask for it."""
        if call.id is not None:
            call.elsewhere = self._ended(call)
        call.failed(Unknown(why))

    def send_again(self) -> None:
        """At another replica."""
        if self._unanswered:
            self._spare(self._unanswered)
        self._queue.extendleft(reversed(self._unanswered.values()))
        self._unanswered.clear()
        self.send()

    def _spare(self, numbers: Iterable[int]) -> None:
        """From now on no call takes the place of these."""
        self._spared.update(dict.fromkeys([number % CALLS_KEPT for number in numbers]))
        for call in self._queue:
            if not call.asked and self._calls.pop(call.message.number, None) is not None:
                number = self.next_number()
                call.message = msgspec.structs.replace(call.message, number=number)
                self._calls[number] = call

    def may_be_renamed(self) -> bool:
        """Is there anything to be gained by another name of the client, and nothing to be asked for
        again under the one that it has?"""
        return bool(self._spared) and not any(call.asked for call in self._waiting())

    def renamed(self) -> None:
        """The client has another name, under which nothing was asked for."""
        self._spared.clear()

    def forget_seen(self) -> None:
        """It is another cluster, where requests have numbers of their own."""
        self._seen.clear()
        self._seen_by_any.clear()

    # --- when it takes too long -------------------------------------------------------------------

    def _waiting(self) -> Iterator[Call]:
        return chain(self._unanswered.values(), self._queue)

    def _too_late(self, call: Call) -> None:
        """It has no answer, and none is waited for any more."""
        number = call.message.number
        self._calls.pop(number, None)
        kind = "stable" if call.message.strong else "tentative"
        what = f"{call.message.operation} had no {kind} answer in {call.timeout:g} s"
        if call.asked:
            call.failed(Unknown(what))
        else:
            why = NotDone("deadline", f"{what}, and no replica took it up")
            call.failed(call.refusal or why)
        if self._unanswered.pop(number, None) is not None and self.line is not None:
            self.line.write(messages.frame_of(messages.Enough(number)))
            self.send()

    def give_up(self, reason: str, message: str) -> None:
        """On all calls."""
        for call in self._calls.values():
            call.failed(Unknown(message) if call.asked else NotDone(reason, message))
        self._calls.clear()
        self._unanswered.clear()
        self._queue.clear()
        self._deadlines.stop()

    # --- what is heard ----------------------------------------------------------------------------

    def heard(self, message: messages.ToClient) -> None:
        if isinstance(message, messages.Answer):
            call = self._calls.get(message.number)
            if call is not None:
                self._answered(call, message)
        elif isinstance(message, messages.Issued):
            call = self._calls.get(message.number)
            if call is not None:
                call.id = message.id
        elif isinstance(message, messages.Refused):
            call = self._calls.get(message.number)
            if call is not None:
                self._refused(call, message)
        else:
            raise MalformedMessage(f"unexpected: {type(message).__name__}")

    def _answered(self, call: Call, answer: messages.Answer) -> None:
        was_answered = call.is_answered
        self.waits = False
        call.answered(answer)
        if call.is_over:
            del self._calls[answer.number]
        if was_answered:
            return  # this is how it ended
        if call.id is not None:
            self._note(call.message.session, call.id)
        if call.is_answered:
            self._done(answer.number)

    def _note(self, session: int, id: Dot) -> None:
        """What was answered is safe where it was issued. What was only issued may be lost with its
        replica: nobody must wait for that."""
        replica, event = id
        seen = self._seen.get(session)
        if event <= 0:
            pass
        elif seen is None:
            known = self._seen_by_any
            self._seen[session] = {**known, replica: max(event, known.get(replica, 0))}
            if len(self._seen) > 2 * SESSIONS_MAX:
                self._sum_up()
        elif event > seen.get(replica, 0):
            seen[replica] = event

    def _sum_up(self) -> None:
        """Let the sessions that began first wait for what any of them did."""
        seen, known = list(self._seen.items()), self._seen_by_any
        for _, events in seen[:-SESSIONS_MAX]:
            for replica, event in events.items():
                known[replica] = max(event, known.get(replica, 0))
        self._seen = dict(seen[-SESSIONS_MAX:])

    def _done(self, number: int) -> None:
        """There is room for another one."""
        if self._unanswered.pop(number, None) is not None and self._queue:
            self.send()

    def _refused(self, call: Call, refused: messages.Refused) -> None:
        if refused.reason in ELSEWHERE and refused.certain and self._goes_on(call, refused):
            return
        if refused.reason == UNTOLD and not call.is_answered:
            self._ask_again(call)
            return
        del self._calls[refused.number]
        if call.is_answered:
            self._untold(call, refused.message)
            return
        certain = refused.certain and call.asked == 1
        text = refused.message
        call.failed(NotDone(refused.reason, text) if certain else Unknown(text))
        self._done(refused.number)

    def _ask_again(self, call: Call) -> None:
        """It was done, and under its number one learns what came of it."""
        number = call.message.number
        if self._unanswered.pop(number, None) is not None:
            self._spare((number,))
            self._queue.appendleft(call)
            self.send()

    def _goes_on(self, call: Call, refused: messages.Refused) -> bool:
        """At another replica, unless it has been everywhere and is back."""
        replica, line = self.replica, self.line
        assert replica is not None
        if self._replicas == 1 or replica in call.refused_by:
            return False
        call.asked -= 1
        call.refused_by |= {replica}
        call.refusal = NotDone(refused.reason, refused.message)
        if line is not None:
            self._leave(line)
        return True

    def _leave(self, line: Line) -> None:
        self.line = None  # and once it is closed, another one is found
        asyncio.get_running_loop().call_soon(line.close)  # it may have said more
