"""The clients of a replica: what they may ask, and what they are told.

A client says hello, with its token if there are tokens, and then calls operations by name. A call
that cannot be carried out is refused with the reason, and then it was certainly not done; one that
was issued is answered, tentatively, stably, finally, as answers come.

What clients may have under way is bounded, for each and for all: beyond that they are told that the
replica is busy. So is what waits to be sent to one of them: a client that does not read is not
listened to, and then left alone.
"""

import asyncio
import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, cast

import msgspec

from creek.cluster.copies import Copies
from creek.cluster.membership import ADD, REMOVE
from creek.cluster.once import CALLS_KEPT, call_once
from creek.cluster.waiting import WaitingRoom
from creek.cluster.wire import (
    CLIENT_FRAME_MAX,
    WIRE_OLDEST,
    WIRE_VERSION,
    Answer,
    Call,
    CopyRequest,
    Denied,
    Enough,
    Frames,
    FrameTooLong,
    FromClient,
    Hello,
    Issued,
    MoreRequest,
    Refused,
    Status,
    StatusRequest,
    ToClient,
    Welcome,
    common_version,
    frame_of,
    from_client,
)
from creek.errors import BadValue, MalformedMessage, UnknownName, UsageError
from creek.execution.datatype import DataType
from creek.protocol.dots import Dot
from creek.protocol.effects import Kind, Response
from creek.protocol.request import Operation

UNDER_WAY_MAX: Final = 65_536
"""Calls of all clients that wait for an answer."""
TOLD_MAX: Final = 16_384
"""Weak calls of a client that were answered and are to be told how they ended."""
CLIENT_LENGTH_MAX: Final = 64
AFTER_MAX: Final = 64
"""Requests that a call may come after."""
UNREAD_MAX: Final = 16 * 1024 * 1024
"""Bytes for a client that does not read them."""
HELLO_S: Final = 10.0
"""How long a connection may be silent before it says hello."""
INTERNAL: Final = "creek."
"""Operations with such names are not for clients."""


class Caller(Protocol):
    """Who calls at the desk: a connection, for instance."""

    client: str
    """Its name, so that what it asks for again is not done again; empty: it does not ask again."""

    def session(self, number: int) -> int: ...

    def issued(self, number: int, id: Dot) -> None: ...

    def answer(self, number: int, response: Response) -> None: ...

    def refuse(self, call: Call, reason: str, message: str) -> None: ...

    def again(self, number: int) -> None: ...

    def too_late(self, number: int, missing: Dot) -> None: ...


class Desk:
    """What all connections of clients share."""

    def __init__(
        self,
        cluster: str,
        replica: int,
        datatype: DataType,
        *,
        invoke: Callable[[Operation, bool, int], Dot],
        knows: Callable[[Dot], bool],
        alone: Callable[[Operation, bool], bool],
        refusal: Callable[[bool, bool], tuple[str, str] | None],
        status: Callable[[], dict[str, Any]],
        count: Callable[[str], None],
        copies: Copies,
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        """`alone(operation, strong)`: is it answered without records and messages?
        `refusal(strong, alone)`: why nothing can be done now, as (reason, message), or None.
        `tokens`: names of who may call, by token; None: everybody."""
        self.cluster = cluster
        self.replica = replica
        self.datatype = datatype
        self.invoke = invoke
        self.knows = knows
        self.alone = alone
        self.refusal = refusal
        self.status = status
        self.count = count
        self.copies = copies
        self.tokens = tokens
        self.connections: set[Connection] = set()
        self._asked: dict[Dot, tuple[Caller, int]] = {}
        self.under_way = 0
        """Calls that wait for an answer."""
        self.waiting: WaitingRoom[tuple[Caller, int]] = WaitingRoom(_again, _too_late)
        self._sessions = 0
        self.change_members: Callable[[str, tuple[Any, ...]], Operation] = _nobody_changes
        """The operation that a call of that name stands for, or `BadValue` with the reason."""
        self.opening: Dot | None = None
        """What all calls wait for, as if it were a request."""

    def next_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def call(self, caller: Caller, call: Call) -> None:
        try:
            operation = self._operation(caller, call)
        except UnknownName as error:
            caller.refuse(call, "unknown_operation", str(error))
            return
        except UsageError as error:
            caller.refuse(call, "bad_arguments", str(error))
            return
        missing = self.opening or next((dot for dot in call.after if not self.knows(dot)), None)
        alone = missing is None and self.alone(operation, call.strong)
        refusal = self.refusal(call.strong, alone)
        if refusal is None and self.under_way >= UNDER_WAY_MAX:
            refusal = "busy", f"{UNDER_WAY_MAX} calls are under way: try again later"
        if refusal is not None:
            caller.refuse(call, *refusal)
            return
        if missing is not None:
            self._wait(caller, call, missing)
            return
        id = self.invoke(operation, call.strong, caller.session(call.session))
        self._asked[id] = caller, call.number
        caller.issued(call.number, id)

    def _wait(self, caller: Caller, call: Call, missing: Dot) -> None:
        if self.waiting.is_full:
            what = f"{len(self.waiting)} calls wait for requests that are not here"
            caller.refuse(call, "busy", f"{what}: try again later")
        else:
            self.waiting.enter((caller, call.number), missing, call.wait_ms)

    def why_too_late(self, missing: Dot) -> str:
        if missing == self.opening:
            return "this replica has an empty disk, and does not take part yet: see 'creek status'"
        return f"it comes after request {missing}, which did not arrive here in time"

    def arrived(self, id: Dot) -> None:
        """A request is here now."""
        self.waiting.arrived(id)

    def look_again(self) -> None:
        """At what waits: perhaps it waits in vain."""
        for id in self.waiting.missing():
            self.waiting.arrived(id)

    def arrived_all(self) -> None:
        """A checkpoint brought more than can be listed."""
        for id in filter(self.knows, self.waiting.missing()):
            self.waiting.arrived(id)

    def allows(self, token: str) -> bool:
        return self.tokens is None or _is_known(token, self.tokens)

    def respond(self, response: Response) -> None:
        found = self._asked.get(response.id)
        if found is not None:
            caller, number = found
            caller.answer(number, response)

    def forget(self, ids: Iterable[Dot]) -> None:
        for id in ids:
            self._asked.pop(id, None)

    def _operation(self, caller: Caller, call: Call) -> Operation:
        name = call.operation
        if name in (ADD, REMOVE):
            if not call.strong:
                raise BadValue(f"{name} is called strongly")
            return self.change_members(name, call.arguments)
        if name.startswith(INTERNAL):
            known = self.datatype.operations
            raise UnknownName(f"operation of {self.datatype.name}", name, known)
        if len(call.after) > AFTER_MAX:
            raise BadValue(f"after {len(call.after)} requests: at most {AFTER_MAX} can be named")
        operation = self.datatype.call(name, *call.arguments)
        if self.datatype.is_readonly(name) or not caller.client:
            return operation
        return call_once(caller.client, call.number, operation)


def _nobody_changes(name: str, arguments: tuple[Any, ...]) -> Operation:
    raise BadValue("the members of this cluster do not change")


class Connection(asyncio.Protocol):
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._frames = Frames(CLIENT_FRAME_MAX)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, Call] = {}
        """That wait for an answer, by their numbers."""
        self._ids: dict[int, Dot] = {}
        """Of those that were issued, and to which more may be said."""
        self._sessions: dict[int, int] = {}
        self.client = ""
        self._silence = self._loop.call_later(HELLO_S, self._deny_silence)

    # --- asyncio ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._desk.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._silence.cancel()
        self._desk.connections.discard(self)
        self._desk.copies.give_up(self)
        self._desk.forget(self._ids.values())
        self._ids.clear()
        for number in tuple(self._calls):
            self._done(number)

    def pause_writing(self) -> None:
        """It does not read what it was told: hear no more of it until it does."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                self._hear(from_client(payload))
                if self._transport is None or self._transport.is_closing():
                    return
        except FrameTooLong as error:
            self._deny("too_large", str(error))
        except MalformedMessage as error:
            self._deny("malformed", f"not a message of a client: {error}")

    # --- what it says -------------------------------------------------------------------------

    def _hear(self, message: FromClient) -> None:
        if not self.client and not isinstance(message, Hello):
            raise MalformedMessage("a client says hello first")
        match message:
            case Hello():
                self._greet(message)
            case Call():
                self._call(message)
            case Enough(number=number):
                self._done(number)
                self._over(number)
            case StatusRequest(number=number):
                self._say(Status(number, self._desk.status()))
            case CopyRequest():
                self._desk.copies.begin(self, message, self._say)
            case MoreRequest():
                self._say(self._desk.copies.more(self, message))
                self._flush()  # a piece is large: whoever does not read it gets no more

    def _greet(self, hello: Hello) -> None:
        desk = self._desk
        if self.client:
            raise MalformedMessage("a client says hello once")
        version = common_version(hello.version, hello.oldest)
        if version is None:
            spoken = f"{WIRE_OLDEST} to {WIRE_VERSION}"
            self._deny("version", f"this replica speaks version {spoken}, not {hello.version}")
        elif not desk.allows(hello.token):
            self._deny("token", "the token is missing, or none that this replica knows")
        elif hello.datatype not in ("", desk.datatype.name):
            self._deny("datatype", f"'{desk.datatype.name}' is replicated, not '{hello.datatype}'")
        elif not 0 < len(hello.client) <= CLIENT_LENGTH_MAX:
            raise MalformedMessage("a client has a name")
        else:
            self.client = hello.client
            self._silence.cancel()
            names = desk.datatype.operations
            operations = tuple((name, desk.datatype.is_readonly(name)) for name in names)
            self._say(Welcome(version, desk.cluster, desk.replica, desk.datatype.name, operations))

    def _call(self, call: Call) -> None:
        if len(self._calls) >= CALLS_KEPT:
            self.refuse(call, "busy", "this client has too many calls under way")
            return
        if call.number in self._calls:
            raise MalformedMessage("a call that is under way on this very connection")
        self._calls[call.number] = call
        self._desk.under_way += 1
        self._desk.call(self, call)

    def again(self, number: int) -> None:
        """What the call waited for is here."""
        self._desk.call(self, self._calls[number])

    def too_late(self, number: int, missing: Dot) -> None:
        self.refuse(self._calls[number], "deadline", self._desk.why_too_late(missing))

    # --- what it is told ----------------------------------------------------------------------

    def session(self, number: int) -> int:
        """The replica's own name for a session of this connection."""
        if number not in self._sessions:
            self._sessions[number] = self._desk.next_session()
        return self._sessions[number]

    def issued(self, number: int, id: Dot) -> None:
        self._ids[number] = id
        self._say(Issued(number, id))

    def answer(self, number: int, response: Response) -> None:
        outcome = response.outcome
        self._say(
            Answer(number, response.kind.value, outcome.value, outcome.error, response.changed)
        )
        call = self._calls.get(number)
        if response.kind is not Kind.TENTATIVE or response.id.event < 0:
            self._done(number)
            self._over(number)
        elif call is not None and not call.strong:
            self._done(number)
            self._bound_told()

    def refuse(self, call: Call, reason: str, message: str) -> None:
        self._done(call.number)
        self._desk.count(reason)
        self._say(Refused(call.number, reason, message))

    def _done(self, number: int) -> None:
        """It has what it asked for, or will not get it."""
        if self._calls.pop(number, None) is not None:
            self._desk.under_way -= 1
            self._desk.waiting.leave((self, number))

    def _over(self, number: int) -> None:
        """Nothing more will be said."""
        id = self._ids.pop(number, None)
        if id is not None:
            self._desk.forget((id,))

    def _bound_told(self) -> None:
        if len(self._ids) - len(self._calls) > TOLD_MAX:
            number = next(each for each in self._ids if each not in self._calls)
            self._over(number)
            message = "too many calls wait to hear how they ended: this one will not"
            self._say(Refused(number, "busy", message, certain=False))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _deny_silence(self) -> None:
        self._deny("malformed", f"nothing was said in {HELLO_S:g} s")

    def _deny(self, reason: str, message: str) -> None:
        self._desk.count(reason)
        self._say(Denied(reason, message))
        self._flush()
        self.close()

    def _say(self, message: ToClient) -> None:
        """With all else that is said in this turn."""
        try:
            frame = frame_of(message)
        except (msgspec.EncodeError, OverflowError, ValueError) as error:
            raise AssertionError("an answer that cannot be sent was let through") from error
        if len(frame) > CLIENT_FRAME_MAX and isinstance(message, Answer):
            self._desk.count("answer too large")
            frame = frame_of(_without_value(message, len(frame)))
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if not out or self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"".join(out))
        if self._transport.get_write_buffer_size() > UNREAD_MAX:
            self._desk.count("slow client")
            self._transport.abort()


def _again(call: tuple[Caller, int]) -> None:
    caller, number = call
    caller.again(number)


def _too_late(call: tuple[Caller, int], missing: Dot) -> None:
    caller, number = call
    caller.too_late(number, missing)


def _without_value(answer: Answer, size: int) -> Answer:
    """It was carried out all the same."""
    error = f"TooLarge: it was done, and its answer of {size} bytes is too long to be sent"
    return msgspec.structs.replace(answer, value=None, error=error)


def _is_known(token: str, tokens: Mapping[str, str]) -> bool:
    """Compared in a time that does not tell how much of it was right."""
    given = token.encode()
    found = False
    for known in tokens:
        found |= hmac.compare_digest(given, known.encode())
    return found
