"""One connection of a client to one replica.

The replicas of a cluster, one after the other, until one is willing.
"""

import asyncio
import errno
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, cast

from creekdb.client.errors import NotDone
from creekdb.errors import MalformedMessage, UsageError
from creekdb.wire import messages
from creekdb.wire.addresses import format_address
from creekdb.wire.tls import accepts_tls as accepts_tls

TLS_REQUIRED: Final = "encrypts: give the authority that you trust"
_CALL_MESSAGES: Final[frozenset[type]] = frozenset(
    (messages.CallIssued, messages.CallResponse, messages.Rejected)
)


class ReplicaConnection(asyncio.Protocol):
    def __init__(
        self, hello: messages.ClientHello, heard: Callable[[messages.ServerMessage], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.handshake: asyncio.Future[messages.Welcome | messages.ConnectionRejected] = (
            self._loop.create_future()
        )
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.chunks_received = 0
        """How often something was heard."""
        self._hello = hello
        self._on_message = heard
        self._frames = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._write_buffer: list[bytes] = []
        self._status_requests: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._forwarded_types: frozenset[type] = frozenset()
        """What is passed on without a look."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.write(messages.encode_frame(self._hello))

    @property
    def peer_address(self) -> tuple[Any, ...] | None:
        """Where the other end is, as a socket takes it. None: not known any more."""
        return None if self._transport is None else self._transport.get_extra_info("peername")

    def connection_lost(self, exc: Exception | None) -> None:
        lost = exc or ConnectionResetError("the replica closed the connection")
        if not self.handshake.done():
            self.handshake.set_exception(lost)
        for asked in self._status_requests.values():
            if not asked.done():
                asked.set_exception(NotDone("unreachable", str(lost)))
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
            if not self.handshake.done():
                self.handshake.set_exception(wrong_port_error(data) or error)
            self.close()

    def write(self, frame: bytes) -> None:
        """With all else that is written in this turn."""
        if not self._write_buffer:
            self._loop.call_soon(self._flush)
        self._write_buffer.append(frame)

    def request_status(self, number: int) -> "asyncio.Future[dict[str, Any]]":
        asked: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._status_requests[number] = asked
        asked.add_done_callback(lambda _: self._status_requests.pop(number, None))
        if self.closed.done():
            asked.set_exception(NotDone("unreachable", "the connection is closed"))
        else:
            self.write(messages.encode_frame(messages.StatusRequest(number)))
        return asked

    def close(self) -> None:
        """What was written leaves before."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _handle_message(self, message: messages.ServerMessage) -> None:
        if not self.handshake.done():
            if not isinstance(message, messages.Welcome | messages.ConnectionRejected):
                raise MalformedMessage("a replica says first who it is")
            self.handshake.set_result(message)
            self._forwarded_types = _CALL_MESSAGES
        elif isinstance(message, messages.StatusResponse):
            asked = self._status_requests.get(message.number)
            if asked is not None and not asked.done():
                asked.set_result(message.status)
        elif isinstance(message, messages.ConnectionRejected):
            raise MalformedMessage(message.message)
        else:
            self._on_message(message)

    def _flush(self) -> None:
        out, self._write_buffer = self._write_buffer, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))


def wrong_port_error(data: bytes) -> UsageError | None:
    """Of a replica, if what came first is not meant for clients."""
    if data.startswith(b"HTTP/"):
        return UsageError("it speaks HTTP, which is for browsers; clients have another port")
    with suppress(MalformedMessage):
        for payload in messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX).feed(data):
            messages.decode_peer_hello(payload)
            return UsageError("it is where replicas find each other; clients have another port")
    return None


async def dial(
    address: tuple[str, int],
    hello: messages.ClientHello,
    heard: Callable[[messages.ServerMessage], None],
    secured: ssl.SSLContext | None,
    patience: float,
) -> tuple[ReplicaConnection, messages.Welcome]:
    """A replica that is willing. Raises `UsageError` if it never will be, `OSError`, `TimeoutError`
    or `MalformedMessage` if it is not now."""
    host, port = address
    at = format_address(host, port)
    try:
        async with asyncio.timeout(patience):
            _, line = await asyncio.get_running_loop().create_connection(
                lambda: ReplicaConnection(hello, heard), host, port, ssl=secured
            )
            try:
                first = await line.handshake
            except BaseException:
                line.abort()
                raise
    except ssl.SSLCertVerificationError as error:
        raise UsageError(
            f"{at} shows a certificate that is not trusted: {error.verify_message}"
        ) from error
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        raise  # it went away in the middle
    except ssl.SSLError as error:
        raise UsageError(
            f"{at} cannot be talked to with TLS ({error.reason or error}): "
            "if it does not encrypt, leave out the authority"
        ) from error
    except UsageError as error:
        raise UsageError(f"{at} is not for clients: {error}") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"what answers there is no replica ({error})") from error
    except ConnectionResetError as error:
        if secured is None and await accepts_tls(address, patience):
            raise UsageError(f"{at} {TLS_REQUIRED}") from error
        raise ConnectionResetError("it closes the connection without a word") from error
    if isinstance(first, messages.ConnectionRejected):
        line.close()
        if first.reason == "busy":
            raise ConnectionError(first.message)
        raise UsageError(f"{at} refuses: {first.message}")
    return line, first


RETRY_PAUSE_S: Final = 0.05
HANDSHAKE_TIMEOUT_MIN_S: Final = 1.0
"""One that is there and says nothing is waited for so long at least, then the next one is tried."""

_ERRNO_PATTERN: Final = re.compile(r"\[Errno (\d+)\]")


class ReplicaDiscovery:
    """`patience`: seconds for which they are looked for."""

    def __init__(
        self, addresses: Iterable[tuple[str, int]], secured: ssl.SSLContext | None, patience: float
    ) -> None:
        self.addresses = tuple(addresses)
        self.address_texts = tuple(format_address(*each) for each in self.addresses)
        self._tls_context = secured
        self._timeout_s = patience
        self._next_index = 0
        self._last_errors: dict[str, Exception] = {}
        """By address: why the one there would not do when it was last asked."""

    def progress_text(self) -> str:
        """What has come of looking, for who waits."""
        not_yet = TimeoutError("not asked yet")
        return _errors_text([(at, self._last_errors.get(at, not_yet)) for at in self.address_texts])

    async def find(
        self,
        hello: messages.ClientHello,
        heard: Callable[[messages.ServerMessage], None],
        refused: float | None = None,
    ) -> tuple[ReplicaConnection, messages.Welcome]:
        """The next one that answers; one that takes no part yet, only if no other does. Raises
        `NotDone` if none does, and `UsageError` if one does and will not have us. `refused`: for
        how long they are looked for, if nobody is at any of the addresses for certain."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            errors: list[tuple[str, Exception]] = []
            found = await self._try_each_address(hello, heard, errors)
            if found is not None:
                return found
            _raise_usage_error(errors)
            patience = self._timeout_s
            if all(has_no_listener(error) for _, error in errors):
                patience = min(patience, refused or patience)
            if loop.time() >= begun + patience:
                tried = f"no replica can be reached, tried for {patience:g} s"
                raise NotDone("unreachable", f"{tried}: {_errors_text(errors)}")
            await asyncio.sleep(RETRY_PAUSE_S)

    async def _try_each_address(
        self,
        hello: messages.ClientHello,
        heard: Callable[[messages.ServerMessage], None],
        errors: list[tuple[str, Exception]],
    ) -> tuple[ReplicaConnection, messages.Welcome] | None:
        """Each is asked once, and why it will not do is noted."""
        each_s = min(
            self._timeout_s, max(HANDSHAKE_TIMEOUT_MIN_S, self._timeout_s / len(self.addresses))
        )
        waiting: tuple[ReplicaConnection, messages.Welcome] | None = None
        try:
            for _ in self.addresses:
                address = self.addresses[self._next_index % len(self.addresses)]
                self._next_index += 1
                at = format_address(*address)
                self._last_errors.setdefault(at, TimeoutError("no answer yet"))
                try:
                    line, welcome = await dial(address, hello, heard, self._tls_context, each_s)
                except (UsageError, OSError, TimeoutError, MalformedMessage) as error:
                    errors.append((at, error))
                    self._last_errors[at] = error
                    continue
                if not welcome.not_ready_reason:
                    return line, welcome
                if waiting is None:
                    waiting = line, welcome
                else:
                    line.close()
            chosen, waiting = waiting, None
            return chosen
        finally:
            if waiting is not None:
                waiting[0].close()


def _errors_text(errors: Iterable[tuple[str, Exception]]) -> str:
    """What happened at each address; those where it is the same stand together."""
    alike: dict[str, list[str]] = {}
    for at, error in errors:
        alike.setdefault(connection_error_text(error), []).append(at)
    return "; ".join(f"{', '.join(places)}: {why}" for why, places in alike.items())


def _raise_usage_error(errors: list[tuple[str, Exception]]) -> None:
    """If one is there that will never have us; with what happened to the others."""
    mistakes = [error for _, error in errors if isinstance(error, UsageError)]
    if mistakes:
        others = [each for each in errors if not isinstance(each[1], UsageError)]
        told = [*map(str, mistakes), *([_errors_text(others)] if others else [])]
        raise UsageError("; ".join(told)) from mistakes[0]


def client_tls_context(authority: str | None) -> ssl.SSLContext | None:
    """The certificates in a file; None: nothing is encrypted."""
    try:
        return None if authority is None else ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise UsageError(f"authority {authority}: {error.strerror or error}") from error


def has_no_listener(error: Exception) -> bool:
    """For certain: nobody listens, or there is no such name."""
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_NONAME
    return _error_numbers(error) == {errno.ECONNREFUSED}


def connection_error_text(error: Exception) -> str:
    """Why somebody cannot be reached, in words."""
    if isinstance(error, socket.gaierror):
        return error.strerror or "its name is not known"
    if numbers := _error_numbers(error):
        return ", ".join(map(os.strerror, sorted(numbers)))
    return str(error) or ("no answer" if isinstance(error, TimeoutError) else type(error).__name__)


def _error_numbers(error: Exception) -> set[int]:
    """Of one error, or of several in one, where a name stands for several addresses."""
    if not isinstance(error, OSError):
        return set()
    if error.errno is not None:
        return {error.errno} if error.errno > 0 else set()
    return set(map(int, _ERRNO_PATTERN.findall(str(error))))
