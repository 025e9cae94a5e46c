"""Client connection of the load generator, with little work per call.

The load generator shares the machine with the replicas. Calls of one turn of the event loop are
sent together. Of the responses, only the measured fields are decoded.
"""

import asyncio
import ssl
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter_ns
from typing import Final, Protocol, TypeAlias

import msgspec

from creekdb.client.replica_connection import ReplicaConnection, ReplicaDiscovery
from creekdb.errors import MalformedMessage, UsageError
from creekdb.load.measurement import (
    STRONG_STABLE,
    STRONG_TENTATIVE,
    WEAK_FINAL,
    WEAK_TENTATIVE,
    LoadMeter,
)
from creekdb.load.workload import WorkloadCall
from creekdb.protocol.effects import ResponseKind
from creekdb.wire import messages
from creekdb.wire.addresses import parse_address
from creekdb.wire.framing import frame_payload

CONNECT_TIMEOUT_S: Final = 10.0


class LoadTarget(Protocol):
    """Connection to one server, of Creek or of another system."""

    closed: "asyncio.Future[None]"

    @property
    def in_flight(self) -> int:
        """Number of calls without a response."""

    def call(self, call: WorkloadCall, client: int) -> None:
        """Send a call of a client. `client` is passed to `CallDone`."""

    def close(self) -> None: ...


CallDone: TypeAlias = Callable[[LoadTarget, int], None]
"""Function called with the connection and the client once a call has its response or has failed."""
DialFunction: TypeAlias = Callable[[str, LoadMeter, CallDone], Awaitable[LoadTarget]]
"""Function that connects to the server at an address."""

_CALL: Final = messages.CallRequest.__struct_config__.tag
_ISSUED: Final = messages.CallIssued.__struct_config__.tag
_RESPONSE: Final = messages.CallResponse.__struct_config__.tag


class _ResponseHeader(msgspec.Struct, array_like=True, tag=_RESPONSE, frozen=True, gc=False):
    """Copy of `creekdb.wire.messages.CallResponse` that leaves the value undecoded."""

    number: int
    kind: str
    value: msgspec.Raw = msgspec.Raw()
    error: str | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_response: Final = msgspec.msgpack.Decoder(_ResponseHeader).decode


class LoadConnection(ReplicaConnection):
    """Connection to a replica. `on_call_done` is called once a call has its response or fails."""

    def __init__(
        self,
        hello: messages.ClientHello,
        meter: LoadMeter,
        on_call_done: CallDone,
        is_single_response: bool = False,
    ) -> None:
        super().__init__(hello, self._on_rejected)
        self._meter = meter
        self._on_call_done = on_call_done
        self._is_single_response = is_single_response
        self._is_receiving = False
        """True while received data is handled. New calls are then sent after all of it."""
        self._number = 0
        self._pending_calls: dict[int, tuple[int, bool, int]] = {}
        """Send time, strong flag and client of each call without a response, by number."""
        self._awaiting_final_ns: dict[int, int] = {}
        """Send time of each call with a first response and without the last one, by number."""

    @property
    def in_flight(self) -> int:
        """Number of calls without a response."""
        return len(self._pending_calls)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        lost, self._pending_calls = self._pending_calls, {}
        now_ns = perf_counter_ns()
        for _, _, client in lost.values():
            self._meter.record_failure("connection lost", now_ns)
            self._on_call_done(self, client)

    def call(self, call: WorkloadCall, client: int) -> None:
        """Send a call, together with the other calls of this turn of the event loop."""
        self._number = number = self._number + 1
        self._pending_calls[number] = perf_counter_ns(), call.strong, client
        payload = _encode(
            (
                _CALL,
                number,
                call.operation,
                call.arguments,
                call.strong,
                client,
                (),
                0,
                self._is_single_response,
            )
        )
        frame = frame_payload(payload)
        if self._is_receiving:
            self._writer.append(frame)
        else:
            self._writer.write(frame)

    def data_received(self, data: bytes) -> None:
        now_ns = perf_counter_ns()
        self._is_receiving = True
        try:
            for payload in self._frames.feed(data):
                kind = payload[1]
                if kind == _RESPONSE:
                    self._on_response(_decode_response(payload), now_ns)
                elif kind != _ISSUED:  # not measured
                    self._handle_message(messages.decode_server_message(payload))
        except (MalformedMessage, msgspec.DecodeError, IndexError) as error:
            self._on_malformed(data, MalformedMessage(str(error)))
        self._is_receiving = False
        self._writer.flush()

    def _on_rejected(self, message: messages.ServerMessage) -> None:
        if not isinstance(message, messages.Rejected):
            raise MalformedMessage(f"unexpected message: {type(message).__name__}")
        self._awaiting_final_ns.pop(message.number, None)
        call = self._pending_calls.pop(message.number, None)
        if call is not None:
            self._meter.record_failure(message.reason, perf_counter_ns())
            self._on_call_done(self, call[2])

    def _on_response(self, response: _ResponseHeader, now_ns: int) -> None:
        meter, number, kind = self._meter, response.number, response.kind
        if kind == ResponseKind.FINAL:
            sent_ns = self._awaiting_final_ns.pop(number, None)
            if sent_ns is not None:
                meter.record_response(WEAK_FINAL, sent_ns, now_ns)
            return
        call = self._pending_calls.get(number)
        if call is None:
            return
        sent_ns, strong, client = call
        if strong and kind == ResponseKind.TENTATIVE:
            if number not in self._awaiting_final_ns:  # a reordering causes further responses
                self._awaiting_final_ns[number] = sent_ns
                meter.record_response(STRONG_TENTATIVE, sent_ns, now_ns)
            return
        if strong:
            self._awaiting_final_ns.pop(number, None)
        elif not self._is_single_response:
            self._awaiting_final_ns[number] = sent_ns
        meter.record_response(STRONG_STABLE if strong else WEAK_TENTATIVE, sent_ns, now_ns)
        meter.operation_errors += response.error is not None
        del self._pending_calls[number]
        self._on_call_done(self, client)


class ReplicaDialer(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the connections of a load. A call of the dialer connects to one replica."""

    token: str = ""
    tls_context: ssl.SSLContext | None = None
    refused_timeout_s: float = CONNECT_TIMEOUT_S
    """Upper bound for the retries while no process listens at the address."""
    is_single_response: bool = False
    """True if a replica sends only the response that a call waits for; others are not measured."""
    datatype: str = ""
    """Required data type; empty accepts any."""

    async def __call__(
        self, address: str, meter: LoadMeter, on_call_done: CallDone
    ) -> LoadConnection:
        """Connect to the replica at an address. Retry until it accepts the connection.

        Raises `UsageError`, or `NotDone` if no replica can be reached.
        """
        hello = messages.ClientHello(messages.WIRE_VERSION, uuid.uuid4().hex, self.token)
        connection, welcome = await ReplicaDiscovery(
            [parse_address(address)], self.tls_context, CONNECT_TIMEOUT_S
        ).find(
            partial(LoadConnection, hello, meter, on_call_done, self.is_single_response),
            self.refused_timeout_s,
        )
        if self.datatype not in ("", welcome.datatype):
            connection.close()
            raise UsageError(
                f"{address}: the cluster replicates '{welcome.datatype}', not '{self.datatype}'"
            )
        return connection
