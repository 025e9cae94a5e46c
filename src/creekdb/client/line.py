"""One connection of a client to one replica."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from creekdb.client.errors import NotDone
from creekdb.errors import MalformedMessage, UsageError
from creekdb.wire import messages
from creekdb.wire.tls import encrypts as encrypts

ENCRYPTS: Final = "encrypts: give the authority that you trust"
_ABOUT_CALLS: Final[frozenset[type]] = frozenset(
    (messages.Issued, messages.Answer, messages.Refused)
)


class Line(asyncio.Protocol):
    def __init__(self, hello: messages.Hello, heard: Callable[[messages.ToClient], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.first: asyncio.Future[messages.Welcome | messages.Denied] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.pieces = 0
        """How often something was heard."""
        self._hello = hello
        self._heard = heard
        self._frames = messages.Frames(messages.CLIENT_FRAME_MAX)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._usual: frozenset[type] = frozenset()
        """What is passed on without a look."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.write(messages.frame_of(self._hello))

    @property
    def peer(self) -> tuple[Any, ...] | None:
        """Where the other end is, as a socket takes it. None: not known any more."""
        return None if self._transport is None else self._transport.get_extra_info("peername")

    def connection_lost(self, exc: Exception | None) -> None:
        lost = exc or ConnectionResetError("the replica closed the connection")
        if not self.first.done():
            self.first.set_exception(lost)
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(NotDone("unreachable", str(lost)))
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.pieces += 1
        try:
            for payload in self._frames.feed(data):
                message = messages.to_client(payload)
                if type(message) in self._usual:
                    self._heard(message)
                else:
                    self._hear(message)
        except MalformedMessage as error:
            if not self.first.done():
                self.first.set_exception(another_door(data) or error)
            self.close()

    def write(self, frame: bytes) -> None:
        """With all else that is written in this turn."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    def status(self, number: int) -> "asyncio.Future[dict[str, Any]]":
        asked: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._asked[number] = asked
        asked.add_done_callback(lambda _: self._asked.pop(number, None))
        if self.closed.done():
            asked.set_exception(NotDone("unreachable", "the connection is closed"))
        else:
            self.write(messages.frame_of(messages.StatusRequest(number)))
        return asked

    def close(self) -> None:
        """What was written leaves before."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _hear(self, message: messages.ToClient) -> None:
        if not self.first.done():
            if not isinstance(message, messages.Welcome | messages.Denied):
                raise MalformedMessage("a replica says first who it is")
            self.first.set_result(message)
            self._usual = _ABOUT_CALLS
        elif isinstance(message, messages.Status):
            asked = self._asked.get(message.number)
            if asked is not None and not asked.done():
                asked.set_result(message.status)
        elif isinstance(message, messages.Denied):
            raise MalformedMessage(message.message)
        else:
            self._heard(message)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))


def another_door(data: bytes) -> UsageError | None:
    """Of a replica, if what came first is not meant for clients."""
    if data.startswith(b"HTTP/"):
        return UsageError("it speaks HTTP, which is for browsers; clients have another port")
    with suppress(MalformedMessage):
        for payload in messages.Frames(messages.CLIENT_FRAME_MAX).feed(data):
            messages.peer_hello(payload)
            return UsageError("it is where replicas find each other; clients have another port")
    return None


async def dial(
    address: tuple[str, int],
    hello: messages.Hello,
    heard: Callable[[messages.ToClient], None],
    secured: ssl.SSLContext | None,
    patience: float,
) -> tuple[Line, messages.Welcome]:
    """A replica that is willing. Raises `UsageError` if it never will be, `OSError`, `TimeoutError`
    or `MalformedMessage` if it is not now."""
    host, port = address
    at = messages.address_text(host, port)
    try:
        async with asyncio.timeout(patience):
            _, line = await asyncio.get_running_loop().create_connection(
                lambda: Line(hello, heard), host, port, ssl=secured
            )
            try:
                first = await line.first
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
        if secured is None and await encrypts(address, patience):
            raise UsageError(f"{at} {ENCRYPTS}") from error
        raise ConnectionResetError("it closes the connection without a word") from error
    if isinstance(first, messages.Denied):
        line.close()
        if first.reason == "busy":
            raise ConnectionError(first.message)
        raise UsageError(f"{at} refuses: {first.message}")
    return line, first
