"""A connection to a replica that asks much and keeps little.

It shares the machine with those whom it asks, and costs as little as it can: what is asked in one
turn leaves in one piece, and of what is heard only that is read which is measured.
"""

import asyncio
import ssl
import struct
import uuid
from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import Final, Protocol, TypeAlias, cast

import msgspec

from creekdb.client.replica_connection import (
    ENCRYPTS,
    another_door,
    encrypts,
    is_nobody_there,
    reason_of,
)
from creekdb.errors import MalformedMessage, UsageError
from creekdb.load.measurement import (
    STRONG_STABLE,
    STRONG_TENTATIVE,
    WEAK_FINAL,
    WEAK_TENTATIVE,
    Meter,
)
from creekdb.load.workload import Asked
from creekdb.wire import messages
from creekdb.wire.addresses import address_of

PATIENCE_S: Final = 10.0
PAUSE_S: Final = 0.02


class Unreachable(UsageError):
    """Nobody who could be asked is at an address."""


class Asker(Protocol):
    """A connection to one server, of whatever kind."""

    closed: "asyncio.Future[None]"

    @property
    def under_way(self) -> int: ...

    def ask(self, asked: Asked, who: int) -> None: ...

    def close(self) -> None: ...


Done: TypeAlias = Callable[[Asker, int], None]
Dial: TypeAlias = Callable[[str, Meter, Done], Awaitable[Asker]]

_CALL: Final = messages.Call.__struct_config__.tag
_ISSUED: Final = messages.Issued.__struct_config__.tag
_ANSWER: Final = messages.Answer.__struct_config__.tag


class _Answer(msgspec.Struct, array_like=True, tag=_ANSWER, frozen=True, gc=False):
    """As in `wire`, but for the value: nobody looks at that."""

    number: int
    kind: str
    value: msgspec.Raw = msgspec.Raw()
    error: str | None = None


_Other: TypeAlias = messages.Refused | messages.Welcome | messages.Denied
_encode: Final = msgspec.msgpack.Encoder().encode
_answer: Final = msgspec.msgpack.Decoder(_Answer).decode
_other: Final = msgspec.msgpack.Decoder(_Other).decode
_length: Final = struct.Struct(">I").pack


class Line(asyncio.Protocol):
    """`done` is called when a call has what it asked for, or will not get it."""

    def __init__(self, meter: Meter, done: Done, token: str = "", brief: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._meter = meter
        self._done = done
        self._brief = brief
        self._hello = messages.Hello(messages.WIRE_VERSION, uuid.uuid4().hex, token)
        self._frames = messages.Frames(messages.CLIENT_FRAME_MAX)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._is_hearing = False
        """Then what is asked leaves when all is heard."""
        self._number = 0
        self._calls: dict[int, tuple[int, bool, int]] = {}
        """When it was asked, whether it is strong, and by whom."""
        self._first: dict[int, int] = {}
        """Of those that had a first answer, and wait for the last: when they were asked."""
        self.welcome: asyncio.Future[messages.Welcome] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    @property
    def under_way(self) -> int:
        return len(self._calls)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.write(messages.frame_of(self._hello))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.welcome.done():
            self.welcome.set_exception(exc or ConnectionResetError("closed at once"))
        if not self.closed.done():
            self.closed.set_result(None)
        lost, self._calls = self._calls, {}
        now_ns = perf_counter_ns()
        for _, _, who in lost.values():
            self._meter.failed("connection lost", now_ns)
            self._done(self, who)

    def ask(self, asked: Asked, who: int) -> None:
        strong = asked.strong
        self._number = number = self._number + 1
        self._calls[number] = perf_counter_ns(), strong, who
        out = self._out
        if not out and not self._is_hearing:
            self._loop.call_soon(self._flush)
        call = (_CALL, number, asked.operation, asked.arguments, strong, who, (), 0, self._brief)
        payload = _encode(call)
        out.append(_length(len(payload)))
        out.append(payload)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def data_received(self, data: bytes) -> None:
        now_ns = perf_counter_ns()
        self._is_hearing = True
        try:
            for payload in self._frames.feed(data):
                kind = payload[1]
                if kind == _ANSWER:
                    self._answered(_answer(payload), now_ns)
                elif kind != _ISSUED:  # which is not measured
                    self._hear(_other(payload), now_ns)
        except (MalformedMessage, msgspec.DecodeError, IndexError) as error:
            if not self.welcome.done():
                self.welcome.set_exception(another_door(data) or MalformedMessage(str(error)))
            self.close()
        self._is_hearing = False
        self._flush()

    def _hear(self, message: _Other, now_ns: int) -> None:
        match message:
            case messages.Refused(number=number, reason=reason):
                self._first.pop(number, None)
                call = self._calls.pop(number, None)
                if call is not None:
                    self._meter.failed(reason, now_ns)
                    self._done(self, call[2])
            case messages.Welcome():
                self.welcome.set_result(message)
            case messages.Denied(message=text):
                self.welcome.set_exception(UsageError(f"a replica refuses: {text}"))

    def _answered(self, answer: _Answer, now_ns: int) -> None:
        meter, number, kind = self._meter, answer.number, answer.kind
        if kind == "final":
            asked_ns = self._first.pop(number, None)
            if asked_ns is not None:
                meter.answered(WEAK_FINAL, asked_ns, now_ns)
            return
        call = self._calls.get(number)
        if call is None:
            return
        asked_ns, strong, who = call
        if strong and kind == "tentative":
            if number not in self._first:  # another one comes when the order changes
                self._first[number] = asked_ns
                meter.answered(STRONG_TENTATIVE, asked_ns, now_ns)
            return
        if strong:
            self._first.pop(number, None)
        elif not self._brief:
            self._first[number] = asked_ns
        meter.answered(STRONG_STABLE if strong else WEAK_TENTATIVE, asked_ns, now_ns)
        meter.raised += answer.error is not None
        del self._calls[number]
        self._done(self, who)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def dial(
    address: str,
    meter: Meter,
    done: Done,
    *,
    token: str = "",
    secured: ssl.SSLContext | None = None,
    refused: float = PATIENCE_S,
    brief: bool = False,
    datatype: str = "",
) -> Line:
    """A connection to the replica there, as soon as there is one. `refused`: for how many seconds
    that is waited for where nobody listens. `brief`: of each call only the answer is asked for that
    it waits for; how long others take is not measured then. `datatype`: what must be replicated
    there; empty: whatever is."""
    loop = asyncio.get_running_loop()
    host, port = address_of(address)
    begun = loop.time()
    while True:
        try:
            _, line = await loop.create_connection(
                lambda: Line(meter, done, token, brief), host, port, ssl=secured
            )
            welcome = await asyncio.wait_for(line.welcome, PATIENCE_S)
            if datatype not in ("", welcome.datatype):
                line.close()
                raise UsageError(f"'{welcome.datatype}' is replicated there, not '{datatype}'")
        except UsageError as error:
            raise UsageError(f"{address}: {error}") from None
        except ssl.SSLCertVerificationError as error:
            raise UsageError(
                f"the certificate of the replica at {address} is not trusted: "
                f"{error.verify_message}"
            ) from error
        except (OSError, TimeoutError, MalformedMessage) as error:
            is_left = isinstance(error, ConnectionResetError)
            if is_left and secured is None and await encrypts((host, port), PATIENCE_S):
                raise UsageError(f"{address} {ENCRYPTS}") from error
            patience = refused if is_nobody_there(error) else PATIENCE_S
            if loop.time() > begun + patience:
                tried = f"no replica can be reached, tried for {patience:g} s"
                raise Unreachable(f"{tried}: {address}: {reason_of(error)}") from error
            await asyncio.sleep(PAUSE_S)
        else:
            return line
