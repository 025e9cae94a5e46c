"""Connections of clients.

A client sends a hello, with its token if tokens are configured. Then it calls operations by name,
and the `CallDispatcher` that all connections share executes them.

The calls in progress of a client are bounded. Beyond the bound, they are rejected with `busy`. The
unsent bytes are bounded, too: the replica stops reading from a client that does not
read its responses, and finally closes the connection.
"""

import asyncio
from typing import Final

from creekdb.errors import FrameTooLong, MalformedMessage
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.server.calls.dispatcher import CallDispatcher
from creekdb.server.transport.keepalive import HELLO_TIMEOUT_S, HelloTimeout, enable_keepalive
from creekdb.wire.counters import ServerCounter
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX
from creekdb.wire.framing import FrameDecoder, FrameWriter, detect_foreign_protocol
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
from creekdb.wire.reject_reason import RejectReason

AWAITING_FINAL_MAX: Final = 16_384
"""Upper bound for a client's weak calls that have a response and await the final one."""
CLIENT_ID_LENGTH_MAX: Final = 64
SESSION_BITS: Final = 32
SESSION_NUMBER_MAX: Final = 2**SESSION_BITS - 1
"""Greatest session number of one connection."""
UNREAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Upper bound for the unsent bytes of a client that does not read them."""
CONNECTION_LIMIT_FRAME: Final = encode_frame(
    ConnectionRejected(
        RejectReason.BUSY,
        "this replica has reached its connection limit; connect to another one, or retry later",
    )
)
"""Frame that a client receives when it connects beyond the limit."""

_TENTATIVE: Final = ResponseKind.TENTATIVE.value


class ClientConnection:
    """Connection of one client.

    It implements `asyncio.Protocol` without inheriting from it, so that mypyc can compile it.
    """

    def __init__(self, dispatcher: CallDispatcher) -> None:
        self._dispatcher = dispatcher
        self._frames = FrameDecoder(HELLO_FRAME_BYTES_MAX)
        self._writer = FrameWriter(UNREAD_BYTES_MAX, abort_when_full=True)
        self._pending_calls: dict[int, CallRequest] = {}
        """Calls that await their first response, by number."""
        self._issued_ids: dict[int, Dot] = {}
        """Request identifiers of issued calls that may get more responses, by call number."""
        self._session_base = dispatcher.next_session() << SESSION_BITS
        """Identifier of this connection's session 0."""
        self.client = ""
        self.token = ""
        self._hello_timeout = HelloTimeout()

    # --- asyncio ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        enable_keepalive(self._writer.connect(transport))
        self._hello_timeout.start(self._reject_silent)
        self._dispatcher.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hello_timeout.cancel()
        if self._writer.has_overflowed:
            self._dispatcher.count(ServerCounter.SLOW_CLIENT)
        self._dispatcher.connections.discard(self)
        self._dispatcher.backup_sessions.close(self)
        self._dispatcher.unregister(self._issued_ids.values())
        self._issued_ids.clear()
        for number in tuple(self._pending_calls):
            self._finish_call(number)

    def eof_received(self) -> None:
        """Close the connection, which is the default."""

    def pause_writing(self) -> None:
        """Stop reading calls until the client has read its responses."""
        if self._writer.transport is not None:
            self._writer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._writer.transport is not None:
            self._writer.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                self._handle(decode_client_message(payload))
                if not self._writer.is_open:
                    return
        except FrameTooLong as error:
            protocol = None if self.client else detect_foreign_protocol(error.first_bytes)
            if protocol == RejectReason.UNEXPECTED_TLS:
                self._reject_connection(
                    protocol, "this replica does not use TLS; omit the authority"
                )
            elif protocol == RejectReason.UNEXPECTED_HTTP:
                self._close_with(protocol, _http_error_page(self._dispatcher.page_url))
            else:
                self._reject_connection(RejectReason.TOO_LARGE, str(error))
        except MalformedMessage as error:
            self._reject_connection(RejectReason.MALFORMED, f"not a client message: {error}")

    # --- requests -----------------------------------------------------------------------------

    def _handle(self, message: ClientMessage) -> None:
        if not self.client and not isinstance(message, ClientHello):
            raise MalformedMessage("the first message must be a hello")
        match message:  # the most frequent messages first
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
                self._writer.flush()  # a part is large: a client that does not read it gets no more

    def _handle_hello(self, hello: ClientHello) -> None:
        dispatcher = self._dispatcher
        if self.client:
            raise MalformedMessage("a second hello")
        version = common_version(hello.version, hello.oldest_version)
        if version is None:
            supported = f"{OLDEST_WIRE_VERSION} to {WIRE_VERSION}"
            message = f"this replica supports versions {supported}, not {hello.version}"
            self._reject_connection(RejectReason.VERSION, message)
        elif not dispatcher.tokens.can_call(hello.token):
            self._reject_connection(RejectReason.TOKEN, "the token is missing or unknown")
        elif hello.datatype not in ("", dispatcher.datatype.name):
            self._reject_connection(
                RejectReason.DATATYPE,
                f"this cluster replicates '{dispatcher.datatype.name}', not '{hello.datatype}'",
            )
        elif not 0 < len(hello.client) <= CLIENT_ID_LENGTH_MAX:
            raise MalformedMessage(
                f"the client identifier must have 1 to {CLIENT_ID_LENGTH_MAX} characters"
            )
        else:
            self.client, self.token = hello.client, hello.token
            self._hello_timeout.cancel()
            self._frames.payload_bytes_max = CLIENT_FRAME_BYTES_MAX
            datatype = dispatcher.datatype
            operations = tuple((name, datatype.is_readonly(name)) for name in datatype.operations)
            self._send(
                Welcome(
                    version,
                    dispatcher.cluster,
                    dispatcher.replica,
                    datatype.name,
                    operations,
                    dispatcher.blocked_reason(),
                )
            )

    def _handle_call(self, call: CallRequest) -> None:
        if len(self._pending_calls) >= CALLS_PER_CLIENT_MAX:
            self.reject(call, RejectReason.BUSY, "this client has too many calls in progress")
            return
        if call.number in self._pending_calls:
            raise MalformedMessage(f"call {call.number} is in progress on this connection")
        self._pending_calls[call.number] = call
        self._dispatcher.in_flight += 1
        self._dispatcher.dispatch(self, call)

    def _handle_backup_request(self, request: BackupRequest) -> None:
        if self._dispatcher.tokens.can_administer(self.token):
            self._dispatcher.backup_sessions.start(self, request, self._send)
        else:
            self._dispatcher.count(RejectReason.TOKEN)
            message = "this token permits calls, but not backups; use an administrator's token"
            self._send(Rejected(request.number, RejectReason.TOKEN, message))

    def retry(self, number: int) -> None:
        """Dispatch a call again, after its missing dependency has arrived."""
        self._dispatcher.dispatch(self, self._pending_calls[number])

    def reject_expired(self, number: int, missing: Dot) -> None:
        message = self._dispatcher.expiry_message(missing)
        self.reject(self._pending_calls[number], RejectReason.DEADLINE, message)

    # --- responses ----------------------------------------------------------------------------

    def session_id(self, number: int) -> int:
        """Return the replica's identifier for a session of this connection.

        A client may use any number of sessions and does not end them, so none is stored.
        """
        return self._session_base | number & SESSION_NUMBER_MAX

    def report_issued(self, number: int, id: Dot) -> None:
        """Queue the notification. It is sent together with the next response."""
        self._issued_ids[number] = id
        if not self._pending_calls[number].is_single_response:
            self._writer.append(encode_frame(CallIssued(number, id)))

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
            self._dispatcher.count(ServerCounter.RESPONSE_TOO_LARGE)
            frame = encode_response_frame(number, kind, _oversized_outcome(len(frame)))
        self._writer.write(frame)
        if is_last:
            self._finish_call(number)
            self._release_call(number)
        elif call is not None and not call.strong:
            self._finish_call(number)
            self._limit_awaiting_final()

    def reject(self, call: CallRequest, reason: RejectReason, message: str) -> None:
        self._finish_call(call.number)
        self._dispatcher.count(reason)
        self._send(Rejected(call.number, reason, message))

    def reject_unknown_outcome(self, number: int) -> None:
        self._finish_call(number)
        self._release_call(number)
        message = "the call took effect, but this replica does not have its outcome"
        self._send(Rejected(number, RejectReason.UNKNOWN_OUTCOME, message, is_certain=False))

    def _finish_call(self, number: int) -> None:
        """Remove a call that has the response it waited for, or will not get it."""
        if self._pending_calls.pop(number, None) is not None:
            self._dispatcher.in_flight -= 1
            if self._dispatcher.dependency_queue:
                self._dispatcher.dependency_queue.remove((self, number))

    def _release_call(self, number: int) -> None:
        """Stop routing responses to a call."""
        id = self._issued_ids.pop(number, None)
        if id is not None:
            self._dispatcher.unregister((id,))

    def _limit_awaiting_final(self) -> None:
        if len(self._issued_ids) - len(self._pending_calls) > AWAITING_FINAL_MAX:
            number = next(each for each in self._issued_ids if each not in self._pending_calls)
            self._release_call(number)
            message = "too many calls await their final response; this one will not receive it"
            self._send(Rejected(number, RejectReason.BUSY, message, is_certain=False))

    def recheck_token(self) -> None:
        """Close the connection if a reload has removed its token."""
        if self.client and not self._dispatcher.tokens.can_call(self.token):
            self._reject_connection(RejectReason.TOKEN, "the token is no longer valid")

    def close(self) -> None:
        self._writer.close()

    def _reject_silent(self) -> None:
        self._reject_connection(RejectReason.MALFORMED, f"no hello within {HELLO_TIMEOUT_S:g} s")

    def _reject_connection(self, reason: RejectReason, message: str) -> None:
        self._close_with(reason, encode_frame(ConnectionRejected(reason, message)))

    def _close_with(self, reason: RejectReason, last_bytes: bytes) -> None:
        self._dispatcher.count(reason)
        self._writer.write(last_bytes)
        self._writer.close()

    def _send(self, message: ServerMessage) -> None:
        self._writer.write(encode_frame(message))


def _oversized_outcome(size: int) -> Outcome:
    """Return the error that replaces an oversized response. The call took effect nevertheless."""
    error = (
        f"TooLarge: the call took effect, but its response of {size} bytes exceeds the limit of "
        f"{CLIENT_FRAME_BYTES_MAX}"
    )
    return Outcome(None, error)


def _http_error_page(page_url: str) -> bytes:
    """Return an HTTP response that names the port for HTTP."""
    where = f"at {page_url}/" if page_url else "at the address of 'creek serve --http HOST:PORT'"
    text = f"This port is for Creek clients. HTTP is served {where}\n".encode()
    head = (
        "HTTP/1.1 400 Bad Request",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(text)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + text
