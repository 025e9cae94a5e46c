"""Connection of a client to one replica, and discovery of a replica that accepts the client."""

import asyncio
import errno
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

from creekdb.client.errors import NotDone
from creekdb.errors import MalformedMessage, UsageError
from creekdb.wire import messages
from creekdb.wire.addresses import format_address
from creekdb.wire.framing import FrameWriter
from creekdb.wire.reject_reason import RejectReason, reject_rule
from creekdb.wire.tls import accepts_tls

CLOSE_TIMEOUT_S: Final = 1.0
"""Longest wait for a replica that does not close its side of a connection, in seconds."""

_CALL_MESSAGES: Final[frozenset[type]] = frozenset(
    (messages.CallIssued, messages.CallResponse, messages.Rejected)
)


class ReplicaConnection(asyncio.Protocol):
    """Client side of one connection: handshake, status requests, and buffered writes.

    Messages about calls are passed to `on_message`.
    """

    def __init__(
        self,
        hello: messages.ClientHello,
        on_message: Callable[[messages.ServerMessage], None],
        frame_bytes_max: int = messages.CLIENT_FRAME_BYTES_MAX,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.handshake: asyncio.Future[messages.Welcome | messages.ConnectionRejected] = (
            self._loop.create_future()
        )
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.chunks_received = 0
        """Number of chunks of data received, for the failure detector."""
        self._hello = hello
        self._on_message = on_message
        self._frames = messages.FrameDecoder(frame_bytes_max)
        self._writer = FrameWriter()
        self.write: Final = self._writer.write
        self.close: Final = self._writer.close
        self.abort: Final = self._writer.abort
        self._status_requests: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._forwarded_types: frozenset[type] = frozenset()
        """Message types that are passed to `on_message` directly; empty before the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._writer.connect(transport)
        self._writer.append(messages.encode_frame(self._hello))
        self._writer.flush()

    @property
    def peer_address(self) -> tuple[Any, ...] | None:
        """Socket address of the peer, or None if it is not available any more."""
        transport = self._writer.transport
        return None if transport is None else transport.get_extra_info("peername")

    def connection_lost(self, exc: Exception | None) -> None:
        cause = exc or ConnectionResetError("the replica closed the connection")
        if not self.handshake.done():
            self.handshake.set_exception(cause)
        for request in self._status_requests.values():
            if not request.done():
                request.set_exception(NotDone(RejectReason.UNREACHABLE, str(cause)))
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.chunks_received += 1
        try:
            for payload in self._frames.feed(data):
                message = messages.decode_server_message(payload)
                if type(message) in self._forwarded_types:
                    self._on_message(message)
                else:
                    self._handle_message(message)
        except MalformedMessage as error:
            self._on_malformed(data, error)

    async def aclose(self) -> None:
        """Close the connection, and wait until its socket is closed.

        An event loop that ends earlier would leave the socket open, because TLS awaits the farewell
        of the replica.
        """
        self.close()
        try:
            await asyncio.wait([self.closed], timeout=CLOSE_TIMEOUT_S)
        finally:
            if not self.closed.done():
                self.abort()

    def _on_malformed(self, data: bytes, error: MalformedMessage) -> None:
        if not self.handshake.done():
            self.handshake.set_exception(wrong_port_error(data) or error)
        self.close()

    def request_status(self, number: int) -> "asyncio.Future[dict[str, Any]]":
        """Request the status of the replica. `number` identifies the request."""
        request: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._status_requests[number] = request
        request.add_done_callback(lambda _: self._status_requests.pop(number, None))
        if self.closed.done():
            request.set_exception(NotDone(RejectReason.UNREACHABLE, "the connection is closed"))
        else:
            self.write(messages.encode_frame(messages.StatusRequest(number)))
        return request

    def _handle_message(self, message: messages.ServerMessage) -> None:
        if not self.handshake.done():
            if not isinstance(message, messages.Welcome | messages.ConnectionRejected):
                raise MalformedMessage(f"expected a Welcome, received {type(message).__name__}")
            self.handshake.set_result(message)
            self._forwarded_types = _CALL_MESSAGES
        elif isinstance(message, messages.StatusResponse):
            request = self._status_requests.get(message.number)
            if request is not None and not request.done():
                request.set_result(message.status)
        elif isinstance(message, messages.ConnectionRejected):
            raise MalformedMessage(message.message)
        else:
            self._on_message(message)


def wrong_port_error(data: bytes) -> UsageError | None:
    """Return an error if the first data came from another port of a replica, or None."""
    if data.startswith(b"HTTP/"):
        return UsageError("it serves HTTP; use the port for clients")
    with suppress(MalformedMessage):
        for payload in messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX).feed(data):
            messages.decode_peer_hello(payload)
            return UsageError("it serves other replicas; use the port for clients")
    return None


_Connection = TypeVar("_Connection", bound=ReplicaConnection)
MakeConnection: TypeAlias = Callable[[], _Connection]
"""Function that returns a new connection, which is not established yet."""


async def dial(
    address: tuple[str, int],
    make_connection: MakeConnection[_Connection],
    tls_context: ssl.SSLContext | None,
    timeout_s: float,
) -> tuple[_Connection, messages.Welcome]:
    """Connect to a replica that accepts the client.

    Raises `UsageError` if a retry is pointless, and `OSError`, `TimeoutError` or `MalformedMessage`
    if a retry may succeed.
    """
    host, port = address
    at = format_address(host, port)
    try:
        async with asyncio.timeout(timeout_s):
            _, connection = await asyncio.get_running_loop().create_connection(
                make_connection, host, port, ssl=tls_context
            )
            try:
                first = await connection.handshake
            except BaseException:
                connection.abort()
                raise
    except ssl.SSLCertVerificationError as error:
        raise UsageError(f"{at}: the certificate is not trusted: {error.verify_message}") from error
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        raise  # the replica closed the connection during the TLS handshake
    except ssl.SSLError as error:
        raise UsageError(
            f"{at}: the TLS handshake failed ({error.reason or error}); "
            "omit the authority if the replica does not use TLS"
        ) from error
    except UsageError as error:
        raise UsageError(f"{at} is not a client port: {error}") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"the server is not a Creek replica ({error})") from error
    except ConnectionResetError as error:
        if tls_context is None and await accepts_tls(address, timeout_s):
            raise UsageError(f"{at} requires TLS; set the authority to trust") from error
        raise ConnectionResetError("the server closed the connection without a message") from error
    if isinstance(first, messages.ConnectionRejected):
        connection.close()
        if reject_rule(first.reason).is_temporary:
            raise ConnectionError(first.message)
        raise UsageError(f"{at} rejected the connection: {first.message}")
    return connection, first


RETRY_PAUSE_S: Final = 0.05
HANDSHAKE_TIMEOUT_MIN_S: Final = 1.0
"""Least time to wait for a silent replica before the next address is tried."""

_ERRNO_PATTERN: Final = re.compile(r"\[Errno (\d+)\]")


class ReplicaDiscovery:
    """Search for a replica that accepts the client. `timeout_s` bounds one search."""

    def __init__(
        self,
        addresses: Iterable[tuple[str, int]],
        tls_context: ssl.SSLContext | None,
        timeout_s: float,
    ) -> None:
        self.addresses = tuple(addresses)
        self.address_texts = tuple(format_address(*address) for address in self.addresses)
        self._tls_context = tls_context
        self.timeout_s = timeout_s
        self._next_index = 0
        self._last_errors: dict[str, Exception] = {}
        """Last connection error, by address."""

    def copy(self) -> "ReplicaDiscovery":
        """Return a search for the same replicas that starts at the last one that was found."""
        other = ReplicaDiscovery(self.addresses, self._tls_context, self.timeout_s)
        other._next_index = max(0, self._next_index - 1)
        return other

    def only(self, address: tuple[str, int]) -> "ReplicaDiscovery":
        """Return a search for one replica alone."""
        return ReplicaDiscovery((address,), self._tls_context, self.timeout_s)

    @property
    def last_address(self) -> tuple[str, int]:
        """Address that was tried last, which is that of the replica that was found."""
        return self.addresses[(self._next_index - 1) % len(self.addresses)]

    def progress_text(self) -> str:
        """Return the last connection error of each address as text."""
        not_tried = TimeoutError("not tried yet")
        return _errors_text(
            [(at, self._last_errors.get(at, not_tried)) for at in self.address_texts]
        )

    async def find(
        self,
        make_connection: MakeConnection[_Connection],
        refused_timeout_s: float | None = None,
    ) -> tuple[_Connection, messages.Welcome]:
        """Connect to the next replica that accepts the client.

        A replica that is still joining is chosen only if no other accepts the client. Raises
        `NotDone` if no replica responds, and `UsageError` if one rejects the client for good.
        `refused_timeout_s` shortens the search if certainly no process listens at any address.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        while True:
            accepted = await self._try_each_address(make_connection)
            if accepted is not None:
                return accepted
            errors = self._last_errors
            _raise_usage_error(errors)
            timeout_s = self.timeout_s
            if all(map(has_no_listener, errors.values())):
                timeout_s = min(timeout_s, refused_timeout_s or timeout_s)
            if loop.time() >= start + timeout_s:
                text = f"no replica can be reached, tried for {timeout_s:g} s"
                raise NotDone(RejectReason.UNREACHABLE, f"{text}: {_errors_text(errors.items())}")
            await asyncio.sleep(RETRY_PAUSE_S)

    async def _try_each_address(
        self, make_connection: MakeConnection[_Connection]
    ) -> tuple[_Connection, messages.Welcome] | None:
        """Try each address once, and store its error."""
        timeout_s = min(
            self.timeout_s, max(HANDSHAKE_TIMEOUT_MIN_S, self.timeout_s / len(self.addresses))
        )
        joining: tuple[_Connection, messages.Welcome] | None = None
        try:
            for _ in self.addresses:
                address = self.addresses[self._next_index % len(self.addresses)]
                self._next_index += 1
                at = format_address(*address)
                self._last_errors.setdefault(at, TimeoutError("no response yet"))
                try:
                    connection, welcome = await dial(
                        address, make_connection, self._tls_context, timeout_s
                    )
                except (UsageError, OSError, TimeoutError, MalformedMessage) as error:
                    self._last_errors[at] = error
                    continue
                if not welcome.not_ready_reason:
                    return connection, welcome
                if joining is None:
                    joining = connection, welcome
                else:
                    connection.close()
            chosen, joining = joining, None
            return chosen
        finally:
            if joining is not None:
                joining[0].close()


def _errors_text(errors: Iterable[tuple[str, Exception]]) -> str:
    """Return the errors as text, with the addresses of equal errors grouped."""
    addresses_by_error: dict[str, list[str]] = {}
    for at, error in errors:
        addresses_by_error.setdefault(connection_error_text(error), []).append(at)
    return "; ".join(f"{', '.join(at)}: {text}" for text, at in addresses_by_error.items())


def _raise_usage_error(errors: dict[str, Exception]) -> None:
    """Raise a `UsageError` if there is one, with the other errors appended to its text. Addresses
    of equal errors are grouped."""
    usage_errors = [error for error in errors.values() if isinstance(error, UsageError)]
    if usage_errors:
        addresses_by_error: dict[str, list[str]] = {}
        for at, error in errors.items():
            if isinstance(error, UsageError):  # its text begins with the address
                addresses_by_error.setdefault(str(error).removeprefix(at), []).append(at)
        texts = [f"{', '.join(at)}{text}" for text, at in addresses_by_error.items()]
        if others := [(at, error) for at, error in errors.items() if error not in usage_errors]:
            texts.append(_errors_text(others))
        raise UsageError("; ".join(texts)) from usage_errors[0]


def client_tls_context(authority: str | None) -> ssl.SSLContext | None:
    """Return the TLS context that trusts the certificates in a file; None if TLS is not used."""
    try:
        return None if authority is None else ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise UsageError(f"authority {authority}: {error.strerror or error}") from error


def has_no_listener(error: Exception) -> bool:
    """Return True if certainly no process listens: connection refused, or unknown host name."""
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_NONAME
    return _error_numbers(error) == {errno.ECONNREFUSED}


def connection_error_text(error: Exception) -> str:
    """Return the cause of a failed connection as text."""
    if isinstance(error, socket.gaierror):
        return error.strerror or "unknown host name"
    if numbers := _error_numbers(error):
        return ", ".join(map(os.strerror, sorted(numbers)))
    if isinstance(error, TimeoutError):
        return str(error) or "no response"
    return str(error) or type(error).__name__


def _error_numbers(error: Exception) -> set[int]:
    """Return the errno values of an error. It may combine errors of all addresses of one host."""
    if not isinstance(error, OSError):
        return set()
    if error.errno is not None:
        return {error.errno} if error.errno > 0 else set()
    return set(map(int, _ERRNO_PATTERN.findall(str(error))))
