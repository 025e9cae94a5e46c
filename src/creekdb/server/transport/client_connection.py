"""The connections of a replica's clients.

A client says hello, with its token if there are tokens, and then calls operations by name, at the
desk that all of them share.

What a client may have under way is bounded: beyond that it is told that the replica is busy. So is
what waits to be sent to it: a client that does not read is not listened to, and then left alone.
"""

import asyncio
from typing import Final, cast

from creekdb.errors import FrameTooLong, MalformedMessage
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.server.calls.dispatcher import CallDispatcher
from creekdb.server.transport.keepalive import HELLO_TIMEOUT_S, HelloTimeout, enable_keepalive
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX
from creekdb.wire.framing import (
    UNEXPECTED_HTTP,
    UNEXPECTED_TLS,
    FrameDecoder,
    detect_foreign_protocol,
)
from creekdb.wire.messages import (
    CLIENT_FRAME_BYTES_MAX,
    HELLO_FRAME_BYTES_MAX,
    OLDEST_WIRE_VERSION,
    WIRE_VERSION,
    BackupPartRequest,
    BackupRequest,
    CallIssued,
    CallRequest,
    CancelResponses,
    ClientHello,
    ClientMessage,
    ConnectionRejected,
    Rejected,
    ServerMessage,
    StatusRequest,
    StatusResponse,
    Welcome,
    common_version,
    decode_client_message,
    encode_frame,
    encode_response_frame,
)

AWAITING_FINAL_MAX: Final = 16_384
"""Weak calls of a client that were answered and are to be told how they ended."""
CLIENT_ID_LENGTH_MAX: Final = 64
SESSION_BITS: Final = 32
SESSION_NUMBER_MAX: Final = 2**SESSION_BITS - 1
"""Of one connection."""
UNREAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes for a client that does not read them."""
CONNECTION_LIMIT_FRAME: Final = encode_frame(
    ConnectionRejected(
        "busy", "this replica has no room for more connections: ask another one, or try again"
    )
)
"""What one is told who comes when there are too many."""

_TENTATIVE: Final = ResponseKind.TENTATIVE.value


class ClientConnection:
    """An `asyncio.Protocol` by its methods; it does not inherit from it, so that it can be
    compiled."""

    def __init__(self, desk: CallDispatcher) -> None:
        self._dispatcher = desk
        self._frames = FrameDecoder(HELLO_FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._outgoing: list[bytes] = []
        self._is_flush_scheduled = False
        """Will what is to be said leave in this turn?"""
        self._loop = asyncio.get_running_loop()
        self._pending_calls: dict[int, CallRequest] = {}
        """That wait for an answer, by their numbers."""
        self._issued_ids: dict[int, Dot] = {}
        """Of those that were issued, and to which more may be said."""
        self._session_base = desk.next_session() << SESSION_BITS
        """Before the first of them."""
        self.client = ""
        self.token = ""
        self._hello_timeout = HelloTimeout()

    # --- asyncio ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        enable_keepalive(self._transport)
        self._hello_timeout.start(self._reject_silent)
        self._dispatcher.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hello_timeout.cancel()
        self._dispatcher.connections.discard(self)
        self._dispatcher.backup_sessions.close(self)
        self._dispatcher.unregister(self._issued_ids.values())
        self._issued_ids.clear()
        for number in tuple(self._pending_calls):
            self._finish_call(number)

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
                self._handle(decode_client_message(payload))
                if self._transport is None or self._transport.is_closing():
                    return
        except FrameTooLong as error:
            language = None if self.client else detect_foreign_protocol(error.first_bytes)
            if language == UNEXPECTED_TLS:
                self._reject_connection(
                    UNEXPECTED_TLS, "this replica does not encrypt: leave out the authority"
                )
            elif language == UNEXPECTED_HTTP:
                self._close_with(UNEXPECTED_HTTP, _http_error_page(self._dispatcher.page_url))
            else:
                self._reject_connection("too_large", str(error))
        except MalformedMessage as error:
            self._reject_connection("malformed", f"not a message of a client: {error}")

    # --- what it says -------------------------------------------------------------------------

    def _handle(self, message: ClientMessage) -> None:
        if not self.client and not isinstance(message, ClientHello):
            raise MalformedMessage("a client says hello first")
        match message:  # what comes most often stands first
            case CallRequest():
                self._handle_call(message)
            case ClientHello():
                self._handle_hello(message)
            case CancelResponses(number=number):
                self._finish_call(number)
                self._release_call(number)
            case StatusRequest(number=number):
                self._send(StatusResponse(number, self._dispatcher.status()))
            case BackupRequest():
                self._handle_backup_request(message)
            case BackupPartRequest():
                self._send(self._dispatcher.backup_sessions.next_part(self, message))
                self._flush()  # a piece is large: whoever does not read it gets no more

    def _handle_hello(self, hello: ClientHello) -> None:
        desk = self._dispatcher
        if self.client:
            raise MalformedMessage("a client says hello once")
        version = common_version(hello.version, hello.oldest_version)
        if version is None:
            spoken = f"{OLDEST_WIRE_VERSION} to {WIRE_VERSION}"
            self._reject_connection(
                "version", f"this replica speaks version {spoken}, not {hello.version}"
            )
        elif not desk.tokens.can_call(hello.token):
            self._reject_connection(
                "token", "the token is missing, or none that this replica knows"
            )
        elif hello.datatype not in ("", desk.datatype.name):
            self._reject_connection(
                "datatype", f"'{desk.datatype.name}' is replicated, not '{hello.datatype}'"
            )
        elif not 0 < len(hello.client) <= CLIENT_ID_LENGTH_MAX:
            raise MalformedMessage("a client has a name")
        else:
            self.client, self.token = hello.client, hello.token
            self._hello_timeout.cancel()
            self._frames.payload_bytes_max = CLIENT_FRAME_BYTES_MAX
            names = desk.datatype.operations
            operations = tuple((name, desk.datatype.is_readonly(name)) for name in names)
            name, waits = desk.datatype.name, desk.blocked_reason()
            self._send(Welcome(version, desk.cluster, desk.replica, name, operations, waits))

    def _handle_call(self, call: CallRequest) -> None:
        if len(self._pending_calls) >= CALLS_PER_CLIENT_MAX:
            self.reject(call, "busy", "this client has too many calls under way")
            return
        if call.number in self._pending_calls:
            raise MalformedMessage("a call that is under way on this very connection")
        self._pending_calls[call.number] = call
        self._dispatcher.in_flight += 1
        self._dispatcher.dispatch(self, call)

    def _handle_backup_request(self, asked: BackupRequest) -> None:
        if self._dispatcher.tokens.can_administer(self.token):
            self._dispatcher.backup_sessions.start(self, asked, self._send)
        else:
            self._dispatcher.count("token")
            message = "this token may call operations, and not take a copy of all there is"
            self._send(Rejected(asked.number, "token", message))

    def retry(self, number: int) -> None:
        """What the call waited for is here."""
        self._dispatcher.dispatch(self, self._pending_calls[number])

    def reject_expired(self, number: int, missing: Dot) -> None:
        self.reject(
            self._pending_calls[number], "deadline", self._dispatcher.expiry_message(missing)
        )

    # --- what it is told ----------------------------------------------------------------------

    def session_id(self, number: int) -> int:
        """The replica's own name for a session of this connection. There may be any number of
        them, and nobody says when one is over: so nothing is kept."""
        return self._session_base | number & SESSION_NUMBER_MAX

    def report_issued(self, number: int, id: Dot) -> None:
        """Told together with the answer: before it, nobody could do anything with it."""
        self._issued_ids[number] = id
        if not self._pending_calls[number].is_single_response:
            self._outgoing.append(encode_frame(CallIssued(number, id)))

    def respond(self, number: int, response: Response) -> None:
        call = self._pending_calls.get(number)
        is_tentative = response.kind is ResponseKind.TENTATIVE
        is_last = not is_tentative or response.id.event < 0
        if call is not None and call.is_single_response and not is_last:
            if call.strong:
                return
            is_last = True
        kind = _TENTATIVE if is_tentative else response.kind.value
        frame = encode_response_frame(number, kind, response.outcome, response.changed)
        if len(frame) > CLIENT_FRAME_BYTES_MAX:
            self._dispatcher.count("answer too large")
            frame = encode_response_frame(number, kind, _oversized_outcome(len(frame)))
        self._enqueue(frame)
        if is_last:
            self._finish_call(number)
            self._release_call(number)
        elif call is not None and not call.strong:
            self._finish_call(number)
            self._limit_awaiting_final()

    def reject(self, call: CallRequest, reason: str, message: str) -> None:
        self._finish_call(call.number)
        self._dispatcher.count(reason)
        self._send(Rejected(call.number, reason, message))

    def reject_unknown_outcome(self, number: int) -> None:
        self._finish_call(number)
        self._release_call(number)
        message = "it was done, and what came of it is not known at this replica"
        self._send(Rejected(number, "untold", message, is_certain=False))

    def _finish_call(self, number: int) -> None:
        """It has what it asked for, or will not get it."""
        if self._pending_calls.pop(number, None) is not None:
            self._dispatcher.in_flight -= 1
            if self._dispatcher.dependency_queue:
                self._dispatcher.dependency_queue.remove((self, number))

    def _release_call(self, number: int) -> None:
        """Nothing more will be said."""
        id = self._issued_ids.pop(number, None)
        if id is not None:
            self._dispatcher.unregister((id,))

    def _limit_awaiting_final(self) -> None:
        if len(self._issued_ids) - len(self._pending_calls) > AWAITING_FINAL_MAX:
            number = next(each for each in self._issued_ids if each not in self._pending_calls)
            self._release_call(number)
            message = "too many calls wait to hear how they ended: this one will not"
            self._send(Rejected(number, "busy", message, is_certain=False))

    def recheck_token(self) -> None:
        """Perhaps it is none any more."""
        if self.client and not self._dispatcher.tokens.can_call(self.token):
            self._reject_connection("token", "the token is none any more that this replica knows")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _reject_silent(self) -> None:
        self._reject_connection("malformed", f"nothing was said in {HELLO_TIMEOUT_S:g} s")

    def _reject_connection(self, reason: str, message: str) -> None:
        self._close_with(reason, encode_frame(ConnectionRejected(reason, message)))

    def _close_with(self, reason: str, word: bytes) -> None:
        self._dispatcher.count(reason)
        self._enqueue(word)
        self._flush()
        self.close()

    def _send(self, message: ServerMessage) -> None:
        self._enqueue(encode_frame(message))

    def _enqueue(self, frame: bytes) -> None:
        """With all else that is said in this turn."""
        self._outgoing.append(frame)
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        out, self._outgoing = self._outgoing, []
        if not out or self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"".join(out))
        if self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self._dispatcher.count("slow client")
            self._transport.abort()


def _oversized_outcome(size: int) -> Outcome:
    """It was carried out all the same."""
    error = f"TooLarge: it was done, and its answer of {size} bytes is too long to be sent"
    return Outcome(None, error)


def _http_error_page(page: str) -> bytes:
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
