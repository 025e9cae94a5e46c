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
    TLS_REQUIRED,
    accepts_tls,
    connection_error_text,
    has_no_listener,
    wrong_port_error,
)
from creekdb.errors import MalformedMessage, UsageError
from creekdb.load.measurement import (
    STRONG_STABLE,
    STRONG_TENTATIVE,
    WEAK_FINAL,
    WEAK_TENTATIVE,
    LoadMeter,
)
from creekdb.load.workload import WorkloadCall
from creekdb.wire import messages
from creekdb.wire.addresses import parse_address

CONNECT_TIMEOUT_S: Final = 10.0
RETRY_PAUSE_S: Final = 0.02


class ReplicaUnreachable(UsageError):
    """Nobody who could be asked is at an address."""


class LoadTarget(Protocol):
    """A connection to one server, of whatever kind."""

    closed: "asyncio.Future[None]"

    @property
    def in_flight(self) -> int: ...

    def call(self, asked: WorkloadCall, who: int) -> None: ...

    def close(self) -> None: ...


CallDone: TypeAlias = Callable[[LoadTarget, int], None]
DialFunction: TypeAlias = Callable[[str, LoadMeter, CallDone], Awaitable[LoadTarget]]

_CALL: Final = messages.CallRequest.__struct_config__.tag
_ISSUED: Final = messages.CallIssued.__struct_config__.tag
_RESPONSE: Final = messages.CallResponse.__struct_config__.tag


class _ResponseHeader(msgspec.Struct, array_like=True, tag=_RESPONSE, frozen=True, gc=False):
    """As in `wire`, but for the value: nobody looks at that."""

    number: int
    kind: str
    value: msgspec.Raw = msgspec.Raw()
    error: str | None = None


_OtherMessage: TypeAlias = messages.Rejected | messages.Welcome | messages.ConnectionRejected
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_response: Final = msgspec.msgpack.Decoder(_ResponseHeader).decode
_decode_other: Final = msgspec.msgpack.Decoder(_OtherMessage).decode
_pack_length: Final = struct.Struct(">I").pack


class LoadConnection(asyncio.Protocol):
    """`done` is called when a call has what it asked for, or will not get it."""

    def __init__(
        self, meter: LoadMeter, done: CallDone, token: str = "", brief: bool = False
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._meter = meter
        self._on_call_done = done
        self._is_brief = brief
        self._hello = messages.ClientHello(messages.WIRE_VERSION, uuid.uuid4().hex, token)
        self._frames = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._write_buffer: list[bytes] = []
        self._is_receiving = False
        """Then what is asked leaves when all is heard."""
        self._number = 0
        self._pending_calls: dict[int, tuple[int, bool, int]] = {}
        """When it was asked, whether it is strong, and by whom."""
        self._awaiting_final_ns: dict[int, int] = {}
        """Of those that had a first answer, and wait for the last: when they were asked."""
        self.welcome: asyncio.Future[messages.Welcome] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    @property
    def in_flight(self) -> int:
        return len(self._pending_calls)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.write(messages.encode_frame(self._hello))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.welcome.done():
            self.welcome.set_exception(exc or ConnectionResetError("closed at once"))
        if not self.closed.done():
            self.closed.set_result(None)
        lost, self._pending_calls = self._pending_calls, {}
        now_ns = perf_counter_ns()
        for _, _, who in lost.values():
            self._meter.record_failure("connection lost", now_ns)
            self._on_call_done(self, who)

    def call(self, asked: WorkloadCall, who: int) -> None:
        strong = asked.strong
        self._number = number = self._number + 1
        self._pending_calls[number] = perf_counter_ns(), strong, who
        out = self._write_buffer
        if not out and not self._is_receiving:
            self._loop.call_soon(self._flush)
        call = (_CALL, number, asked.operation, asked.arguments, strong, who, (), 0, self._is_brief)
        payload = _encode(call)
        out.append(_pack_length(len(payload)))
        out.append(payload)

    def _flush(self) -> None:
        out, self._write_buffer = self._write_buffer, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def data_received(self, data: bytes) -> None:
        now_ns = perf_counter_ns()
        self._is_receiving = True
        try:
            for payload in self._frames.feed(data):
                kind = payload[1]
                if kind == _RESPONSE:
                    self._on_response(_decode_response(payload), now_ns)
                elif kind != _ISSUED:  # which is not measured
                    self._handle_message(_decode_other(payload), now_ns)
        except (MalformedMessage, msgspec.DecodeError, IndexError) as error:
            if not self.welcome.done():
                self.welcome.set_exception(wrong_port_error(data) or MalformedMessage(str(error)))
            self.close()
        self._is_receiving = False
        self._flush()

    def _handle_message(self, message: _OtherMessage, now_ns: int) -> None:
        match message:
            case messages.Rejected(number=number, reason=reason):
                self._awaiting_final_ns.pop(number, None)
                call = self._pending_calls.pop(number, None)
                if call is not None:
                    self._meter.record_failure(reason, now_ns)
                    self._on_call_done(self, call[2])
            case messages.Welcome():
                self.welcome.set_result(message)
            case messages.ConnectionRejected(message=text):
                self.welcome.set_exception(UsageError(f"a replica refuses: {text}"))

    def _on_response(self, answer: _ResponseHeader, now_ns: int) -> None:
        meter, number, kind = self._meter, answer.number, answer.kind
        if kind == "final":
            asked_ns = self._awaiting_final_ns.pop(number, None)
            if asked_ns is not None:
                meter.record_response(WEAK_FINAL, asked_ns, now_ns)
            return
        call = self._pending_calls.get(number)
        if call is None:
            return
        asked_ns, strong, who = call
        if strong and kind == "tentative":
            if number not in self._awaiting_final_ns:  # another one comes when the order changes
                self._awaiting_final_ns[number] = asked_ns
                meter.record_response(STRONG_TENTATIVE, asked_ns, now_ns)
            return
        if strong:
            self._awaiting_final_ns.pop(number, None)
        elif not self._is_brief:
            self._awaiting_final_ns[number] = asked_ns
        meter.record_response(STRONG_STABLE if strong else WEAK_TENTATIVE, asked_ns, now_ns)
        meter.operation_errors += answer.error is not None
        del self._pending_calls[number]
        self._on_call_done(self, who)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def dial(
    address: str,
    meter: LoadMeter,
    done: CallDone,
    *,
    token: str = "",
    secured: ssl.SSLContext | None = None,
    refused: float = CONNECT_TIMEOUT_S,
    brief: bool = False,
    datatype: str = "",
) -> LoadConnection:
    """A connection to the replica there, as soon as there is one. `refused`: for how many seconds
    that is waited for where nobody listens. `brief`: of each call only the answer is asked for that
    it waits for; how long others take is not measured then. `datatype`: what must be replicated
    there; empty: whatever is."""
    loop = asyncio.get_running_loop()
    host, port = parse_address(address)
    begun = loop.time()
    while True:
        try:
            _, line = await loop.create_connection(
                lambda: LoadConnection(meter, done, token, brief), host, port, ssl=secured
            )
            welcome = await asyncio.wait_for(line.welcome, CONNECT_TIMEOUT_S)
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
            if is_left and secured is None and await accepts_tls((host, port), CONNECT_TIMEOUT_S):
                raise UsageError(f"{address} {TLS_REQUIRED}") from error
            patience = refused if has_no_listener(error) else CONNECT_TIMEOUT_S
            if loop.time() > begun + patience:
                tried = f"no replica can be reached, tried for {patience:g} s"
                raise ReplicaUnreachable(
                    f"{tried}: {address}: {connection_error_text(error)}"
                ) from error
            await asyncio.sleep(RETRY_PAUSE_S)
        else:
            return line
