"""The connections of a replica's clients.

A client says hello, with its token if there are tokens, and then calls operations by name, at the
desk that all of them share.

What a client may have under way is bounded: beyond that it is told that the replica is busy. So is
what waits to be sent to it: a client that does not read is not listened to, and then left alone.
"""

import asyncio
from typing import Final, cast

from creekdb.errors import FrameTooLong, MalformedMessage
from creekdb.protocol.effects import Kind, Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.server.calls.dispatcher import Desk
from creekdb.server.transport.keepalive import HELLO_S, UntilHello, notice_silence
from creekdb.wire.deduplication import CALLS_KEPT
from creekdb.wire.framing import NO_HTTP, NO_TLS, Frames, another_language
from creekdb.wire.messages import (
    CLIENT_FRAME_MAX,
    HELLO_FRAME_MAX,
    WIRE_OLDEST,
    WIRE_VERSION,
    Call,
    CopyRequest,
    Denied,
    Enough,
    FromClient,
    Hello,
    Issued,
    MoreRequest,
    Refused,
    Status,
    StatusRequest,
    ToClient,
    Welcome,
    answer_frame,
    common_version,
    frame_of,
    from_client,
)

TOLD_MAX: Final = 16_384
"""Weak calls of a client that were answered and are to be told how they ended."""
CLIENT_LENGTH_MAX: Final = 64
SESSION_BITS: Final = 32
SESSIONS_MAX: Final = 2**SESSION_BITS - 1
"""Of one connection."""
UNREAD_MAX: Final = 16 * 1024 * 1024
"""Bytes for a client that does not read them."""
CROWDED: Final = frame_of(
    Denied("busy", "this replica has no room for more connections: ask another one, or try again")
)
"""What one is told who comes when there are too many."""

_TENTATIVE: Final = Kind.TENTATIVE.value


class Connection:
    """An `asyncio.Protocol` by its methods; it does not inherit from it, so that it can be
    compiled."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._frames = Frames(HELLO_FRAME_MAX)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._due = False
        """Will what is to be said leave in this turn?"""
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, Call] = {}
        """That wait for an answer, by their numbers."""
        self._ids: dict[int, Dot] = {}
        """Of those that were issued, and to which more may be said."""
        self._sessions = desk.next_session() << SESSION_BITS
        """Before the first of them."""
        self.client = ""
        self.token = ""
        self._until_hello = UntilHello()

    # --- asyncio ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        notice_silence(self._transport)
        self._until_hello.begin(self._deny_silence)
        self._desk.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._until_hello.end()
        self._desk.connections.discard(self)
        self._desk.copies.give_up(self)
        self._desk.forget(self._ids.values())
        self._ids.clear()
        for number in tuple(self._calls):
            self._done(number)

    def eof_received(self) -> None:
        """It says no more: the connection is closed."""

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
            language = None if self.client else another_language(error.begins)
            if language == NO_TLS:
                self._deny(NO_TLS, "this replica does not encrypt: leave out the authority")
            elif language == NO_HTTP:
                self._end(NO_HTTP, _for_browsers(self._desk.page))
            else:
                self._deny("too_large", str(error))
        except MalformedMessage as error:
            self._deny("malformed", f"not a message of a client: {error}")

    # --- what it says -------------------------------------------------------------------------

    def _hear(self, message: FromClient) -> None:
        if not self.client and not isinstance(message, Hello):
            raise MalformedMessage("a client says hello first")
        match message:  # what comes most often stands first
            case Call():
                self._call(message)
            case Hello():
                self._greet(message)
            case Enough(number=number):
                self._done(number)
                self._over(number)
            case StatusRequest(number=number):
                self._say(Status(number, self._desk.status()))
            case CopyRequest():
                self._copy(message)
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
        elif not desk.tokens.allow(hello.token):
            self._deny("token", "the token is missing, or none that this replica knows")
        elif hello.datatype not in ("", desk.datatype.name):
            self._deny("datatype", f"'{desk.datatype.name}' is replicated, not '{hello.datatype}'")
        elif not 0 < len(hello.client) <= CLIENT_LENGTH_MAX:
            raise MalformedMessage("a client has a name")
        else:
            self.client, self.token = hello.client, hello.token
            self._until_hello.end()
            self._frames.most = CLIENT_FRAME_MAX
            names = desk.datatype.operations
            operations = tuple((name, desk.datatype.is_readonly(name)) for name in names)
            name, waits = desk.datatype.name, desk.why_closed()
            self._say(Welcome(version, desk.cluster, desk.replica, name, operations, waits))

    def _call(self, call: Call) -> None:
        if len(self._calls) >= CALLS_KEPT:
            self.refuse(call, "busy", "this client has too many calls under way")
            return
        if call.number in self._calls:
            raise MalformedMessage("a call that is under way on this very connection")
        self._calls[call.number] = call
        self._desk.under_way += 1
        self._desk.call(self, call)

    def _copy(self, asked: CopyRequest) -> None:
        if self._desk.tokens.allow_all(self.token):
            self._desk.copies.begin(self, asked, self._say)
        else:
            self._desk.count("token")
            message = "this token may call operations, and not take a copy of all there is"
            self._say(Refused(asked.number, "token", message))

    def again(self, number: int) -> None:
        """What the call waited for is here."""
        self._desk.call(self, self._calls[number])

    def too_late(self, number: int, missing: Dot) -> None:
        self.refuse(self._calls[number], "deadline", self._desk.why_too_late(missing))

    # --- what it is told ----------------------------------------------------------------------

    def session(self, number: int) -> int:
        """The replica's own name for a session of this connection. There may be any number of
        them, and nobody says when one is over: so nothing is kept."""
        return self._sessions | number & SESSIONS_MAX

    def issued(self, number: int, id: Dot) -> None:
        """Told together with the answer: before it, nobody could do anything with it."""
        self._ids[number] = id
        if not self._calls[number].brief:
            self._out.append(frame_of(Issued(number, id)))

    def answer(self, number: int, response: Response) -> None:
        call = self._calls.get(number)
        is_tentative = response.kind is Kind.TENTATIVE
        is_last = not is_tentative or response.id.event < 0
        if call is not None and call.brief and not is_last:
            if call.strong:
                return
            is_last = True
        kind = _TENTATIVE if is_tentative else response.kind.value
        frame = answer_frame(number, kind, response.outcome, response.changed)
        if len(frame) > CLIENT_FRAME_MAX:
            self._desk.count("answer too large")
            frame = answer_frame(number, kind, _too_long(len(frame)))
        self._leave(frame)
        if is_last:
            self._done(number)
            self._over(number)
        elif call is not None and not call.strong:
            self._done(number)
            self._bound_told()

    def refuse(self, call: Call, reason: str, message: str) -> None:
        self._done(call.number)
        self._desk.count(reason)
        self._say(Refused(call.number, reason, message))

    def untold(self, number: int) -> None:
        self._done(number)
        self._over(number)
        message = "it was done, and what came of it is not known at this replica"
        self._say(Refused(number, "untold", message, certain=False))

    def _done(self, number: int) -> None:
        """It has what it asked for, or will not get it."""
        if self._calls.pop(number, None) is not None:
            self._desk.under_way -= 1
            if self._desk.waiting:
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

    def look_at_token(self) -> None:
        """Perhaps it is none any more."""
        if self.client and not self._desk.tokens.allow(self.token):
            self._deny("token", "the token is none any more that this replica knows")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _deny_silence(self) -> None:
        self._deny("malformed", f"nothing was said in {HELLO_S:g} s")

    def _deny(self, reason: str, message: str) -> None:
        self._end(reason, frame_of(Denied(reason, message)))

    def _end(self, reason: str, word: bytes) -> None:
        self._desk.count(reason)
        self._leave(word)
        self._flush()
        self.close()

    def _say(self, message: ToClient) -> None:
        self._leave(frame_of(message))

    def _leave(self, frame: bytes) -> None:
        """With all else that is said in this turn."""
        self._out.append(frame)
        if not self._due:
            self._due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._due = False
        out, self._out = self._out, []
        if not out or self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"".join(out))
        if self._transport.get_write_buffer_size() > UNREAD_MAX:
            self._desk.count("slow client")
            self._transport.abort()


def _too_long(size: int) -> Outcome:
    """It was carried out all the same."""
    error = f"TooLarge: it was done, and its answer of {size} bytes is too long to be sent"
    return Outcome(None, error)


def _for_browsers(page: str) -> bytes:
    """Who speaks HTTP is answered in it."""
    where = f"at {page}/" if page else "where 'creek serve --http HOST:PORT' says"
    text = f"Here clients of Creek find a replica. HTTP is spoken {where}\n".encode()
    head = (
        "HTTP/1.1 400 Bad Request",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(text)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + text
