"""Connections of clients.

A client sends a hello, with its token if tokens are configured. Then it calls operations by name,
and the `CallDispatcher` that all connections share executes them.

The calls in progress of a client are bounded. Beyond the bound, they are rejected with `busy`. The
unsent bytes are bounded, too: the replica stops reading from a client that does not
read its responses, and finally closes the connection.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from creekdb.errors import FrameTooLong, MalformedMessage
from creekdb.protocol.effects import Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.server.backup.sessions import BackupSessions
from creekdb.server.calls.capabilities import operation_signatures
from creekdb.server.calls.dispatcher import CallDispatcher, ClientCalls
from creekdb.server.changes.readers import ChangeReaders
from creekdb.server.changes.snapshots import LeasedSnapshots
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.security.authentication import AccessTokens
from creekdb.server.transport.keepalive import HELLO_TIMEOUT_S, HelloTimeout, enable_keepalive
from creekdb.wire.counters import ServerCounter
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
    ChangesRequest,
    ClientHello,
    ClientMessage,
    ConnectionRejected,
    Rejected,
    ServerMessage,
    SnapshotRead,
    SnapshotRelease,
    SnapshotRequest,
    StatusRequest,
    StatusResponse,
    Welcome,
    common_version,
    decode_client_message,
    encode_frame,
    encode_response_frame,
)
from creekdb.wire.reject_reason import RejectReason

CLIENT_ID_LENGTH_MAX: Final = 64
CONNECTION_LIMIT_FRAME: Final = encode_frame(
    ConnectionRejected(
        RejectReason.BUSY,
        "this replica has reached its connection limit; connect to another one, or retry later",
    )
)
"""Frame that a client receives when it connects beyond the limit."""


class ConnectionLimits(NamedTuple):
    """Limits of one client connection."""

    unread_bytes_max: int = 16 * 1024 * 1024
    """Upper bound for the unsent bytes of a client that does not read them."""
    hello_timeout_s: float = HELLO_TIMEOUT_S


class StateReaders(NamedTuple):
    """Parts through which clients read the committed state and its changes."""

    backup_sessions: BackupSessions
    changes: ChangeReaders
    snapshots: LeasedSnapshots


class ClientService:
    """State shared by all client connections of a replica."""

    def __init__(
        self,
        config: ServerConfig,
        dispatcher: CallDispatcher,
        tokens: AccessTokens,
        readers: StateReaders,
        status: Callable[[], dict[str, Any]],
        limits: ConnectionLimits,
    ) -> None:
        self.changes = readers.changes
        self.snapshots = readers.snapshots
        self.dispatcher = dispatcher
        self.count = dispatcher.count
        self.tokens = tokens
        self.backup_sessions = readers.backup_sessions
        self.status = status
        self.limits = limits
        self.page_url = config.page_url
        self.datatype = dispatcher.datatype
        self._signatures = operation_signatures(dispatcher.datatype)
        self._cluster = config.cluster
        self._replica = config.replica
        self.connections: set[ClientConnection] = set()

    def welcome(self, version: int) -> Welcome:
        datatype = self.datatype
        operations = tuple((name, datatype.is_readonly(name)) for name in datatype.operations)
        return Welcome(
            version,
            self._cluster,
            self._replica,
            datatype.name,
            operations,
            self.dispatcher.blocked_reason(),
            self._signatures,
        )

    def recheck_tokens(self) -> None:
        """Close the connections whose token is no longer valid."""
        for connection in tuple(self.connections):
            connection.recheck_token()

    def close(self) -> None:
        for connection in tuple(self.connections):
            connection.close()
        self.snapshots.close()


class ClientConnection:
    """Connection of one client, and `ResponseSink` of its calls.

    It implements `asyncio.Protocol` without inheriting from it, so that mypyc can compile it.
    """

    def __init__(self, service: ClientService) -> None:
        self._service = service
        self.calls = ClientCalls(service.dispatcher, self)
        self._frames = FrameDecoder(HELLO_FRAME_BYTES_MAX)
        self._writer = FrameWriter(service.limits.unread_bytes_max, abort_when_full=True)
        self.client = ""
        self.token = ""
        self.not_joined_reason = RejectReason.DEADLINE
        self._hello_timeout = HelloTimeout(service.limits.hello_timeout_s)

    # --- asyncio ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        enable_keepalive(self._writer.connect(transport))
        self._hello_timeout.start(self._reject_silent)
        self._service.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hello_timeout.cancel()
        if self._writer.has_overflowed:
            self._service.count(ServerCounter.SLOW_CLIENT)
        self._service.connections.discard(self)
        self._service.backup_sessions.close(self)
        self._service.changes.close(self)
        self.calls.cancel_all()

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
                self._close_with(protocol, _http_error_page(self._service.page_url))
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
                self.calls.submit(message)
            case ClientHello():
                self._handle_hello(message)
            case CancelResponses(number=number):
                self.calls.cancel(number)
            case StatusRequest(number=number):
                self._send(StatusResponse(number, self._service.status()))
            case BackupRequest():
                self._handle_backup_request(message)
            case ChangesRequest():
                self._service.changes.start(self, message, self._send)
            case SnapshotRequest():
                self._service.snapshots.start(message, self._send)
            case SnapshotRead():
                self._send(self._service.snapshots.read(message))
                self._writer.flush()
            case SnapshotRelease(id=id):
                self._service.snapshots.release(id)
            case BackupPartRequest():
                self._send(self._service.backup_sessions.next_part(self, message))
                self._writer.flush()  # a part is large: a client that does not read it gets no more

    def _handle_hello(self, hello: ClientHello) -> None:
        service = self._service
        if self.client:
            raise MalformedMessage("a second hello")
        version = common_version(hello.version, hello.oldest_version)
        if version is None:
            supported = f"{OLDEST_WIRE_VERSION} to {WIRE_VERSION}"
            message = f"this replica supports versions {supported}, not {hello.version}"
            self._reject_connection(RejectReason.VERSION, message)
        elif not service.tokens.can_call(hello.token):
            self._reject_connection(RejectReason.TOKEN, "the token is missing or unknown")
        elif hello.datatype not in ("", service.datatype.name):
            self._reject_connection(
                RejectReason.DATATYPE,
                f"this cluster replicates '{service.datatype.name}', not '{hello.datatype}'; "
                "connect to another cluster, or name the data type of this one",
            )
        elif not 0 < len(hello.client) <= CLIENT_ID_LENGTH_MAX:
            raise MalformedMessage(
                f"the client identifier must have 1 to {CLIENT_ID_LENGTH_MAX} characters"
            )
        else:
            self.client, self.token = hello.client, hello.token
            self._hello_timeout.cancel()
            self._frames.payload_bytes_max = CLIENT_FRAME_BYTES_MAX
            self._send(service.welcome(version))

    def _handle_backup_request(self, request: BackupRequest) -> None:
        if self._service.tokens.can_administer(self.token):
            self._service.backup_sessions.start(self, request, self._send)
        else:
            self._service.count(RejectReason.TOKEN)
            message = "this token permits calls, but not backups; use an administrator's token"
            self._send(Rejected(request.number, RejectReason.TOKEN, message))

    # --- responses ----------------------------------------------------------------------------

    def send_issued(self, number: int, id: Dot) -> None:
        """Queue the notification. It is sent together with the next response."""
        self._writer.append(encode_frame(CallIssued(number, id)))

    def send_response(self, number: int, response: Response) -> None:
        kind = response.kind
        frame = encode_response_frame(number, kind, response.outcome, response.changed)
        if len(frame) > CLIENT_FRAME_BYTES_MAX:
            self._service.count(ServerCounter.RESPONSE_TOO_LARGE)
            frame = encode_response_frame(number, kind, _oversized_outcome(len(frame)))
        self._writer.write(frame)

    def send_rejection(self, rejected: Rejected) -> None:
        self._send(rejected)

    # --- end of the connection ----------------------------------------------------------------

    def recheck_token(self) -> None:
        """Close the connection if a reload has removed its token."""
        if self.client and not self._service.tokens.can_call(self.token):
            self._reject_connection(RejectReason.TOKEN, "the token is no longer valid")

    def close(self) -> None:
        self._writer.close()

    def _reject_silent(self) -> None:
        self._reject_connection(
            RejectReason.MALFORMED, f"no hello within {self._service.limits.hello_timeout_s:g} s"
        )

    def _reject_connection(self, reason: RejectReason, message: str) -> None:
        self._close_with(reason, encode_frame(ConnectionRejected(reason, message)))

    def _close_with(self, reason: RejectReason, last_bytes: bytes) -> None:
        self._service.count(reason)
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
