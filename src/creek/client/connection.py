"""A client's connection to a cluster: to one replica, and to another when that is gone.

Rules it keeps:

- A call that was sent and not answered is asked for again at the next replica, under its number: it
  is executed once. Numbers of such calls stay close together, since replicas remember so many.
- A call that a replica refuses because of what is wrong with that replica goes on at the next one.
  When all have refused it, or its time is over, the last reason is told.
- A session goes on at another replica only when that has seen all that the session did elsewhere.
- "Certainly not done" is said only of calls that were never sent, or that were refused by the only
  replica that they were sent to, or by all of them.
"""

import asyncio
import ssl
import uuid
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from creek.client.blocking import Blocking
from creek.client.callers import Caller, How, Issued, Session
from creek.client.calls import Call
from creek.client.errors import NotDone, Unknown, not_connected
from creek.client.finding import PAUSE_S, Finder, trusting
from creek.client.line import Line
from creek.cluster import wire
from creek.errors import BadValue, MalformedMessage, UnknownName, UsageError
from creek.execution.carriable import refuse_uncarriable
from creek.execution.datatype import DataType
from creek.protocol.dots import Dot

UNDER_WAY_MAX: Final = 512
"""Calls at once that are not answered: replicas remember more than that of a client, and refuse
more than that of a connection."""
TIMEOUT_S: Final = 60.0
PATIENCE_S: Final = 10.0
WAIT_SHARE: Final = 0.9
"""Of the time that a call has, what it may wait for others at the replica: then there is time left
to tell that it was not done."""
INTERNAL: Final = "creek."
"""Names of what is asked of the cluster itself begin so."""
NEVER_DONE: Final = ("unknown_operation", "bad_arguments", "too_large")
"""Reasons that hold at every replica."""
ELSEWHERE: Final = ("disk", "stopping", "no_majority")
"""Reasons that hold at one replica, while others may be well."""


class Database:
    """What `connect` gives: `db.weak.name(…)` and `db.strong.name(…)` call operations."""

    def __init__(
        self,
        addresses: Iterable[tuple[str, int]],
        *,
        datatype: DataType | str = "",
        token: str = "",
        secured: ssl.SSLContext | None = None,
        timeout: float | None = TIMEOUT_S,
        patience: float = PATIENCE_S,
    ) -> None:
        self._finder = Finder(addresses, secured, patience)
        self._datatype = datatype if isinstance(datatype, DataType) else None
        name = datatype.name if isinstance(datatype, DataType) else datatype
        self._hello = wire.Hello(wire.WIRE_VERSION, uuid.uuid4().hex, token, name)
        self._timeout = timeout
        self._patience = patience
        self._line: Line | None = None
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
        self._sessions = 0
        self._keeper: asyncio.Task[None] | None = None
        self._blocking: Blocking | None = None
        self._is_open = False
        self.welcome: wire.Welcome | None = None
        self._operations: dict[str, bool] = {}

    # --- for people -----------------------------------------------------------------------------

    async def __aenter__(self) -> "Database":
        await self._reach()
        self._is_open = True
        self._keeper = asyncio.get_running_loop().create_task(self._keep_up())
        self._send()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._line is not None:
            self._line.close()
        self._give_up("closed", "the connection was closed before there was an answer")

    def __enter__(self) -> Blocking:
        """Without asyncio."""
        self._blocking = Blocking(self)
        self._blocking.open()
        return self._blocking

    def __exit__(self, *_: object) -> None:
        if self._blocking is not None:
            self._blocking.close()

    @property
    def weak(self) -> Caller[Call]:
        """Calls that are answered at once, tentatively: `await db.weak.name(…)`."""
        return Caller(self.ask, How(strong=False))

    @property
    def strong(self) -> Caller[Call]:
        """Calls that are answered when a majority has fixed their place:
        `await db.strong.name(…)`."""
        return Caller(self.ask, How(strong=True))

    def session(self) -> Session[Call]:
        """Others than this one need not see what it did; it sees all that it did itself."""
        return Session(self.ask, self.new_session())

    async def status(self) -> dict[str, Any]:
        """Of the replica that one is connected to."""
        line = self._line or await self._reach()
        self._number += 1
        try:
            async with asyncio.timeout(self._timeout):
                return await line.status(self._number)
        except TimeoutError:
            message = f"the replica did not say how it is in {self._timeout:g} s"
            raise NotDone("deadline", message) from None

    @property
    def replica(self) -> int | None:
        """The one that one is connected to, or was last."""
        return None if self.welcome is None else self.welcome.replica

    # --- calls ----------------------------------------------------------------------------------

    def new_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def ask(self, how: How, name: str, arguments: tuple[Any, ...]) -> Call:
        self._number += 1
        timeout = self._timeout if how.timeout is None else how.timeout
        after = tuple(dot for each in how.after if (dot := _issued(each)).event > 0)
        message = wire.Call(self._number, name, arguments, how.strong, how.session, after)
        call = Call(message, timeout)
        failure = self._failure_of(message)
        if failure is not None:
            call.failed(failure)
            return call
        self._calls[message.number] = call
        if timeout is not None:
            call.timer = asyncio.get_running_loop().call_later(timeout, self._too_late, call)
        self._queue.append(call)
        self._send()
        return call

    def _failure_of(self, message: wire.Call) -> NotDone | None:
        """Why it cannot work, as far as that can be told from here."""
        if not self._is_open:
            return not_connected()
        try:
            if message.operation.startswith(INTERNAL):
                pass  # the replica knows
            elif self._datatype is not None:
                self._datatype.call(message.operation, *message.arguments)
            else:
                self._check(message)
        except UnknownName as error:
            return NotDone("unknown_operation", str(error))
        except UsageError as error:
            return NotDone("bad_arguments", str(error))
        return None

    def _check(self, message: wire.Call) -> None:
        """By what the replica has told."""
        assert self.welcome is not None
        if message.operation not in self._operations:
            what = f"operation of {self.welcome.datatype}"
            raise UnknownName(what, message.operation, tuple(self._operations))
        for position, argument in enumerate(message.arguments, 1):
            refuse_uncarriable(argument, f"argument {position} of {message.operation}")

    def _send(self) -> None:
        """Whatever may be sent now."""
        line, queue, unanswered = self._line, self._queue, self._unanswered
        while line is not None and queue:
            call = queue[0]
            number = call.message.number
            oldest = next(iter(unanswered), number)
            if number - oldest >= UNDER_WAY_MAX:
                return
            queue.popleft()
            if call.is_over:
                continue
            frame = wire.frame_of(self._as_it_is_now(call))
            if len(frame) > wire.CLIENT_FRAME_MAX:
                del self._calls[number]
                size = f"{len(frame)} bytes; at most {wire.CLIENT_FRAME_MAX} can be sent"
                call.failed(NotDone("too_large", f"{call.message.operation} would take {size}"))
                continue
            call.asked += 1
            unanswered[number] = call
            line.write(frame)

    def _as_it_is_now(self, call: Call) -> wire.Call:
        """Only when this replica has what the session did at others, and while somebody waits."""
        message = call.message
        seen = self._seen.get(message.session, {})
        elsewhere = [Dot(each, event) for each, event in seen.items() if each != self.replica]
        after = (*message.after, *elsewhere)
        if not after:
            return message
        wait_ms = 0
        if call.timer is not None:
            left = call.timer.when() - asyncio.get_running_loop().time()
            wait_ms = max(1, int(left * WAIT_SHARE * 1000))
        return msgspec.structs.replace(message, after=after, wait_ms=wait_ms)

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
        if self._unanswered.pop(number, None) is not None and self._line is not None:
            self._line.write(wire.frame_of(wire.Enough(number)))
            self._send()

    def _give_up(self, reason: str, message: str) -> None:
        """On all calls."""
        for call in self._calls.values():
            call.failed(Unknown(message) if call.asked else NotDone(reason, message))
        self._calls.clear()
        self._unanswered.clear()
        self._queue.clear()

    # --- what is heard ----------------------------------------------------------------------------

    def _heard(self, message: wire.ToClient) -> None:
        match message:
            case wire.Issued(number=number, id=id):
                call = self._calls.get(number)
                if call is not None:
                    call.id = id
            case wire.Answer(number=number):
                call = self._calls.get(number)
                if call is not None:
                    call.answered(message)
                    self._note(call)
                    if call.is_answered:
                        self._answered(number)
                    if call.is_over:
                        del self._calls[number]
            case wire.Refused(number=number):
                call = self._calls.get(number)
                if call is not None:
                    self._refused(call, message)
            case _:
                raise MalformedMessage(f"unexpected: {type(message).__name__}")

    def _note(self, call: Call) -> None:
        """What was answered is safe where it was issued. What was only issued may be lost with its
        replica: nobody must wait for that."""
        id = call.id
        if id is not None and id.event > 0:
            seen = self._seen.setdefault(call.message.session, {})
            seen[id.replica] = max(id.event, seen.get(id.replica, 0))

    def _answered(self, number: int) -> None:
        if self._unanswered.pop(number, None) is not None and self._queue:
            self._send()

    def _refused(self, call: Call, refused: wire.Refused) -> None:
        if refused.reason in ELSEWHERE and refused.certain and self._goes_on(call, refused):
            return
        del self._calls[refused.number]
        certain = refused.certain and (call.asked == 1 or refused.reason in NEVER_DONE)
        text = refused.message
        call.failed(NotDone(refused.reason, text) if certain else Unknown(text))
        self._answered(refused.number)

    def _goes_on(self, call: Call, refused: wire.Refused) -> bool:
        """At another replica, unless it has been everywhere and is back."""
        replica, line = self.replica, self._line
        assert replica is not None
        if len(self._finder.addresses) == 1 or replica in call.refused_by:
            return False
        call.asked -= 1
        call.refused_by.add(replica)
        call.refusal = NotDone(refused.reason, refused.message)
        if line is not None:
            self._line = None  # and once it is closed, another one is found
            asyncio.get_running_loop().call_soon(line.close)  # it may have said more
        return True

    # --- keeping a replica at hand ----------------------------------------------------------------

    async def _keep_up(self) -> None:
        line = self._line
        while line is not None:
            await self._until_gone(line)
            self._line = None
            line = await self._reach_some_time()
            self._send_again()

    async def _reach_some_time(self) -> Line:
        while True:
            try:
                return await self._reach()
            except (NotDone, UsageError) as error:
                self._give_up("unreachable", str(error))
                await asyncio.sleep(PAUSE_S)

    async def _until_gone(self, line: Line) -> None:
        """Until it is closed, or has been silent for long although asked how it is."""
        while not line.closed.done():
            pieces = line.pieces
            await asyncio.wait([line.closed], timeout=self._patience / 2)
            if self._calls and line.pieces == pieces and not line.closed.done():
                self._number += 1
                asked = line.status(self._number)
                await asyncio.wait([asked], timeout=self._patience / 2)
                if line.pieces == pieces:
                    line.abort()
                    await line.closed
                if not asked.cancel() and not asked.cancelled():
                    asked.exception()  # is told by the line's end

    def _send_again(self) -> None:
        """At another replica."""
        for number in [each for each in self._calls if each not in self._unanswered]:
            call = self._calls[number]
            if call.is_answered:
                del self._calls[number]
                call.failed(Unknown("the replica that would have told how it ended is gone"))
        self._queue.extendleft(reversed(self._unanswered.values()))
        self._unanswered.clear()
        self._send()

    async def _reach(self) -> Line:
        """The next replica that answers."""
        before = self.welcome
        self._line, self.welcome = await self._finder.find(self._hello, self._heard)
        if before is not None and before.cluster != self.welcome.cluster:
            self._seen.clear()  # restored from a backup: it gives the numbers of requests anew
        self._operations = dict(self.welcome.operations)
        return self._line


def _issued(call: Issued | Dot) -> Dot:
    id = call if isinstance(call, Dot) else call.id
    if id is None:
        raise BadValue("a call can only come after one that was issued: wait for its answer first")
    return id


def connect(
    addresses: str | Iterable[str],
    datatype: DataType | str = "",
    *,
    token: str = "",
    authority: str | None = None,
    timeout: float | None = TIMEOUT_S,
    patience: float = PATIENCE_S,
) -> Database:
    """A cluster, by the addresses (`HOST:PORT`) of one or more of its replicas: for `async with`,
    or for `with`, where calls give their answers without `await`.

    `datatype`: what one expects to find there; given as such and not by its name, calls are checked
    before they are sent. `authority`: a file with the certificates that are trusted; then the
    connection is encrypted. `timeout`: seconds that a call waits for its answer; None: for ever.
    `patience`: seconds for which replicas are looked for before calls are given up.
    """
    texts = addresses.split(",") if isinstance(addresses, str) else list(addresses)
    if not isinstance(getattr(datatype, "name", datatype), str):
        what = f"{type(datatype).__name__} {datatype!r}"
        raise BadValue(f"datatype is a creek.DataType or its name, not {what}")
    if not texts:
        raise BadValue("no address was given: name at least one replica as HOST:PORT")
    return Database(
        [wire.address_of(text.strip()) for text in texts],
        datatype=datatype,
        token=token,
        secured=trusting(authority),
        timeout=timeout,
        patience=patience,
    )
