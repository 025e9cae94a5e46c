"""The clients of a replica: what they may ask, and what they are told.

A client says hello, with its token if there are tokens, and then calls operations by name. A call
that cannot be carried out is refused with the reason, and then it was certainly not done; one that
was issued is answered, tentatively, stably, finally, as answers come.

What clients may have under way is bounded, for each and for all: beyond that they are told that the
replica is busy.
"""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from creek.cluster.once import CALLS_KEPT, call_once
from creek.cluster.wire import (
    CLIENT_FRAME_MAX,
    WIRE_VERSION,
    Answer,
    Call,
    Denied,
    Enough,
    Frames,
    FrameTooLong,
    FromClient,
    Hello,
    Issued,
    Refused,
    Status,
    StatusRequest,
    ToClient,
    Welcome,
    frame_of,
    from_client,
)
from creek.errors import MalformedMessage, UnknownName, UsageError
from creek.execution.datatype import DataType
from creek.protocol.dots import Dot
from creek.protocol.effects import Kind, Response
from creek.protocol.request import Operation

UNDER_WAY_MAX: Final = 65_536
"""Calls of all clients that are not answered for good."""
CLIENT_LENGTH_MAX: Final = 64
INTERNAL: Final = "creek."
"""Operations with such names are not for clients."""


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
        refusal: Callable[[], tuple[str, str] | None],
        status: Callable[[], dict[str, Any]],
        count: Callable[[str], None],
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        """`refusal`: why nothing can be done at the moment, as (reason, message), or None.
        `tokens`: names of who may call, by token; None: everybody."""
        self.cluster = cluster
        self.replica = replica
        self.datatype = datatype
        self.invoke = invoke
        self.knows = knows
        self.refusal = refusal
        self.status = status
        self.count = count
        self.tokens = tokens
        self.connections: set[Connection] = set()
        self._asked: dict[Dot, tuple[Connection, int]] = {}
        self._waiting: dict[Dot, list[tuple[Connection, Call]]] = {}
        """Calls that come after a request that is not here yet, by one that is missing."""
        self._sessions = 0

    @property
    def under_way(self) -> int:
        return len(self._asked)

    def next_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def call(self, connection: "Connection", call: Call) -> None:
        missing = next((dot for dot in call.after if not self.knows(dot)), None)
        if missing is not None:
            self._waiting.setdefault(missing, []).append((connection, call))
            return
        try:
            operation = self._operation(connection, call)
        except UnknownName as error:
            connection.refuse(call, "unknown_operation", str(error))
            return
        except UsageError as error:
            connection.refuse(call, "bad_arguments", str(error))
            return
        refusal = self.refusal()
        if refusal is None and len(self._asked) >= UNDER_WAY_MAX:
            refusal = "busy", f"{UNDER_WAY_MAX} calls are under way: try again later"
        if refusal is not None:
            connection.refuse(call, *refusal)
            return
        id = self.invoke(operation, call.strong, connection.session(call.session))
        self._asked[id] = connection, call.number
        connection.issued(call.number, id)

    def arrived(self, id: Dot) -> None:
        """A request is here now."""
        for connection, call in self._waiting.pop(id, ()):
            if connection in self.connections:
                self.call(connection, call)

    def arrived_all(self) -> None:
        """A checkpoint brought more than can be listed."""
        for id in [each for each in self._waiting if self.knows(each)]:
            self.arrived(id)

    def respond(self, response: Response) -> None:
        found = self._asked.get(response.id)
        if found is None:
            return
        if response.kind is not Kind.TENTATIVE or response.id.event < 0:
            del self._asked[response.id]
        connection, number = found
        connection.answer(number, response)

    def forget(self, ids: list[Dot]) -> None:
        for id in ids:
            self._asked.pop(id, None)

    def _operation(self, connection: "Connection", call: Call) -> Operation:
        name = call.operation
        if name.startswith(INTERNAL) or name not in self.datatype.operations:
            names = tuple(each for each in self.datatype.operations)
            raise UnknownName(f"operation of {self.datatype.name}", name, names)
        operation = self.datatype.call(name, *call.arguments)
        if self.datatype.is_readonly(name):
            return operation
        return call_once(connection.client, call.number, operation)


class Connection(asyncio.Protocol):
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._frames = Frames(CLIENT_FRAME_MAX)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, Dot | None] = {}
        """Under way, by their numbers."""
        self._sessions: dict[int, int] = {}
        self.client = ""

    # --- asyncio ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._desk.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._desk.connections.discard(self)
        self._desk.forget([id for id in self._calls.values() if id is not None])
        self._calls.clear()

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                self._hear(from_client(payload))
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
                id = self._calls.pop(number, None)
                if id is not None:
                    self._desk.forget([id])
            case StatusRequest(number=number):
                self._say(Status(number, self._desk.status()))

    def _greet(self, hello: Hello) -> None:
        desk = self._desk
        if hello.version != WIRE_VERSION:
            self._deny("version", f"this replica speaks version {WIRE_VERSION}")
        elif desk.tokens is not None and not _is_known(hello.token, desk.tokens):
            self._deny("token", "the token is missing, or none that this replica knows")
        elif hello.datatype not in ("", desk.datatype.name):
            self._deny("datatype", f"'{desk.datatype.name}' is replicated, not '{hello.datatype}'")
        elif not 0 < len(hello.client) <= CLIENT_LENGTH_MAX:
            raise MalformedMessage("a client has a name")
        else:
            self.client = hello.client
            names = desk.datatype.operations
            operations = tuple((name, desk.datatype.is_readonly(name)) for name in names)
            self._say(
                Welcome(WIRE_VERSION, desk.cluster, desk.replica, desk.datatype.name, operations)
            )

    def _call(self, call: Call) -> None:
        if len(self._calls) >= CALLS_KEPT:
            self.refuse(call, "busy", "this client has too many calls under way")
            return
        self._calls[call.number] = None
        self._desk.call(self, call)

    # --- what it is told ----------------------------------------------------------------------

    def session(self, number: int) -> int:
        """The replica's own name for a session of this connection."""
        if number not in self._sessions:
            self._sessions[number] = self._desk.next_session()
        return self._sessions[number]

    def issued(self, number: int, id: Dot) -> None:
        self._calls[number] = id
        self._say(Issued(number, id))

    def answer(self, number: int, response: Response) -> None:
        outcome = response.outcome
        if response.kind is not Kind.TENTATIVE or response.id.event < 0:
            self._calls.pop(number, None)
        self._say(
            Answer(number, response.kind.value, outcome.value, outcome.error, response.changed)
        )

    def refuse(self, call: Call, reason: str, message: str) -> None:
        self._calls.pop(call.number, None)
        self._desk.count(reason)
        self._say(Refused(call.number, reason, message))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

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
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))


def _is_known(token: str, tokens: Mapping[str, str]) -> bool:
    """Compared in a time that does not tell how much of it was right."""
    given = token.encode()
    found = False
    for known in tokens:
        found |= hmac.compare_digest(given, known.encode())
    return found
