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
from creekdb.wire.addresses import address_text
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
    at = address_text(host, port)
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


PAUSE_S: Final = 0.05
SILENT_S: Final = 1.0
"""One that is there and says nothing is waited for so long at least, then the next one is tried."""

_NUMBERS: Final = re.compile(r"\[Errno (\d+)\]")


class Finder:
    """`patience`: seconds for which they are looked for."""

    def __init__(
        self, addresses: Iterable[tuple[str, int]], secured: ssl.SSLContext | None, patience: float
    ) -> None:
        self.addresses = tuple(addresses)
        self.texts = tuple(address_text(*each) for each in self.addresses)
        self._secured = secured
        self._patience = patience
        self._at = 0
        self._why: dict[str, Exception] = {}
        """By address: why the one there would not do when it was last asked."""

    def so_far(self) -> str:
        """What has come of looking, for who waits."""
        not_yet = TimeoutError("not asked yet")
        return _each([(at, self._why.get(at, not_yet)) for at in self.texts])

    async def find(
        self,
        hello: messages.Hello,
        heard: Callable[[messages.ToClient], None],
        refused: float | None = None,
    ) -> tuple[Line, messages.Welcome]:
        """The next one that answers; one that takes no part yet, only if no other does. Raises
        `NotDone` if none does, and `UsageError` if one does and will not have us. `refused`: for
        how long they are looked for, if nobody is at any of the addresses for certain."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            errors: list[tuple[str, Exception]] = []
            found = await self._first_of_all(hello, heard, errors)
            if found is not None:
                return found
            _raise_mistake(errors)
            patience = self._patience
            if all(is_nobody_there(error) for _, error in errors):
                patience = min(patience, refused or patience)
            if loop.time() >= begun + patience:
                tried = f"no replica can be reached, tried for {patience:g} s"
                raise NotDone("unreachable", f"{tried}: {_each(errors)}")
            await asyncio.sleep(PAUSE_S)

    async def _first_of_all(
        self,
        hello: messages.Hello,
        heard: Callable[[messages.ToClient], None],
        errors: list[tuple[str, Exception]],
    ) -> tuple[Line, messages.Welcome] | None:
        """Each is asked once, and why it will not do is noted."""
        each_s = min(self._patience, max(SILENT_S, self._patience / len(self.addresses)))
        waiting: tuple[Line, messages.Welcome] | None = None
        try:
            for _ in self.addresses:
                address = self.addresses[self._at % len(self.addresses)]
                self._at += 1
                at = address_text(*address)
                self._why.setdefault(at, TimeoutError("no answer yet"))
                try:
                    line, welcome = await dial(address, hello, heard, self._secured, each_s)
                except (UsageError, OSError, TimeoutError, MalformedMessage) as error:
                    errors.append((at, error))
                    self._why[at] = error
                    continue
                if not welcome.waits:
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


def _each(errors: Iterable[tuple[str, Exception]]) -> str:
    """What happened at each address; those where it is the same stand together."""
    alike: dict[str, list[str]] = {}
    for at, error in errors:
        alike.setdefault(reason_of(error), []).append(at)
    return "; ".join(f"{', '.join(places)}: {why}" for why, places in alike.items())


def _raise_mistake(errors: list[tuple[str, Exception]]) -> None:
    """If one is there that will never have us; with what happened to the others."""
    mistakes = [error for _, error in errors if isinstance(error, UsageError)]
    if mistakes:
        others = [each for each in errors if not isinstance(each[1], UsageError)]
        told = [*map(str, mistakes), *([_each(others)] if others else [])]
        raise UsageError("; ".join(told)) from mistakes[0]


def trusting(authority: str | None) -> ssl.SSLContext | None:
    """The certificates in a file; None: nothing is encrypted."""
    try:
        return None if authority is None else ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise UsageError(f"authority {authority}: {error.strerror or error}") from error


def is_nobody_there(error: Exception) -> bool:
    """For certain: nobody listens, or there is no such name."""
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_NONAME
    return _numbers(error) == {errno.ECONNREFUSED}


def reason_of(error: Exception) -> str:
    """Why somebody cannot be reached, in words."""
    if isinstance(error, socket.gaierror):
        return error.strerror or "its name is not known"
    if numbers := _numbers(error):
        return ", ".join(map(os.strerror, sorted(numbers)))
    return str(error) or ("no answer" if isinstance(error, TimeoutError) else type(error).__name__)


def _numbers(error: Exception) -> set[int]:
    """Of one error, or of several in one, where a name stands for several addresses."""
    if not isinstance(error, OSError):
        return set()
    if error.errno is not None:
        return {error.errno} if error.errno > 0 else set()
    return set(map(int, _NUMBERS.findall(str(error))))
