"""Connection of the load generator: its requests, and the responses that it measures."""

import asyncio
from typing import cast

import pytest

from creekdb.errors import UsageError
from creekdb.load.connection import LoadConnection, LoadTarget, ReplicaDialer
from creekdb.load.measurement import (
    STRONG_STABLE,
    STRONG_TENTATIVE,
    WEAK_FINAL,
    WEAK_TENTATIVE,
    LoadMeter,
)
from creekdb.load.workload import WorkloadCall
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire import messages as wire
from creekdb.wire.reject_reason import RejectReason


class FakeTransport:
    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return False

    @property
    def calls(self) -> list[wire.CallRequest]:
        """Call requests written so far."""
        frames = wire.FrameDecoder(wire.CLIENT_FRAME_BYTES_MAX)
        payloads = frames.feed(b"".join(self.writes))
        messages = [wire.decode_client_message(payload) for payload in payloads]
        return [message for message in messages if isinstance(message, wire.CallRequest)]


def encoded(*messages: wire.ServerMessage) -> bytes:
    return b"".join(wire.encode_frame(message) for message in messages)


HELLO = wire.ClientHello(wire.WIRE_VERSION, "load")


def open_connection(
    repeat_calls: bool = False,
) -> tuple[LoadConnection, FakeTransport, LoadMeter, list[int]]:
    """Return a connection, its transport, its meter, and the clients whose calls are done.

    If `repeat_calls`, each client calls again when its call is done.
    """
    meter, transport, done = LoadMeter(0, 2**62), FakeTransport(), list[int]()

    def on_call_done(connection: LoadTarget, client: int) -> None:
        done.append(client)
        if repeat_calls:
            connection.call(WorkloadCall("get", ("a",), False), client)

    connection = LoadConnection(HELLO, meter, on_call_done)
    connection.connection_made(cast(asyncio.Transport, transport))
    connection.data_received(encoded(wire.Welcome(1, "creek", 0, "kv", ())))
    assert connection.handshake.done()
    return connection, transport, meter, done


async def test_a_single_response_connection_measures_only_the_awaited_response() -> None:
    meter, transport = LoadMeter(0, 2**62), FakeTransport()
    connection = LoadConnection(
        HELLO, meter, lambda _connection, _client: None, is_single_response=True
    )
    connection.connection_made(cast(asyncio.Transport, transport))
    connection.call(WorkloadCall("put", ("a", 1), False), 0)
    await asyncio.sleep(0)
    assert [call.is_single_response for call in transport.calls] == [True]
    # A replica of an earlier version sends all responses.
    connection.data_received(
        encoded(wire.CallIssued(1, Dot(0, 1)), wire.CallResponse(1, "tentative"))
    )
    connection.data_received(encoded(wire.CallResponse(1, "final")))
    assert measured_kinds(meter) == [WEAK_TENTATIVE]


def measured_kinds(meter: LoadMeter) -> list[int]:
    return [kind for kind, latencies in enumerate(meter.latencies_ns) if latencies]


async def test_a_weak_call_completes_with_its_tentative_response_and_measures_its_final_one() -> (
    None
):
    connection, transport, meter, done = open_connection()
    connection.call(WorkloadCall("put", ("a", b"value"), False), 5)
    connection.data_received(encoded(wire.CallIssued(1, Dot(0, 1))))
    assert (connection.in_flight, done) == (1, [])
    connection.data_received(encoded(wire.CallResponse(1, "tentative", {"any": (1, None)})))
    assert (connection.in_flight, done, meter.weak_completed) == (0, [5], 1)
    connection.data_received(encoded(wire.CallResponse(1, "final", None, "ValueError: no", True)))
    assert (done, meter.completed, meter.operation_errors) == ([5], 1, 0)
    assert measured_kinds(meter) == [WEAK_TENTATIVE, WEAK_FINAL]
    assert transport.calls == [wire.CallRequest(1, "put", ("a", b"value"), False, 5)]


async def test_a_strong_call_completes_with_its_stable_response() -> None:
    connection, _, meter, done = open_connection()
    connection.call(WorkloadCall("put", ("a", 1), True), 7)
    connection.data_received(
        encoded(wire.CallIssued(1, Dot(0, 1)), wire.CallResponse(1, "tentative", None))
    )
    assert (connection.in_flight, done) == (1, [])
    connection.data_received(encoded(wire.CallResponse(1, "stable", None, "KeyError: 'a'")))
    assert (connection.in_flight, done, meter.strong_completed, meter.operation_errors) == (
        0,
        [7],
        1,
        1,
    )
    assert measured_kinds(meter) == [STRONG_TENTATIVE, STRONG_STABLE]


async def test_only_the_first_tentative_response_of_a_strong_call_is_measured() -> None:
    connection, _, meter, done = open_connection()
    for client in range(2):
        connection.call(WorkloadCall("put", ("a", 1), True), client)
    connection.data_received(
        encoded(wire.CallResponse(1, "tentative", 1), wire.CallResponse(1, "tentative", 2))
    )
    connection.data_received(
        encoded(wire.CallResponse(1, "stable", 2), wire.CallResponse(2, "stable", 1))
    )
    assert len(meter.latencies_ns[STRONG_TENTATIVE]) == 1
    assert len(meter.latencies_ns[STRONG_STABLE]) == len(done) == 2


async def test_calls_caused_by_one_chunk_of_responses_are_sent_in_one_write() -> None:
    connection, transport, _, done = open_connection(repeat_calls=True)
    for client in range(4):
        connection.call(WorkloadCall("put", ("a", client), False), client)
    connection.data_received(b"")
    writes_before = len(transport.writes)
    responses = encoded(*[wire.CallResponse(number, "tentative", None) for number in range(1, 5)])
    connection.data_received(responses[:-3])
    connection.data_received(responses[-3:])
    assert len(transport.writes) == writes_before + 2
    assert [call.number for call in transport.calls] == list(range(1, 9))
    assert [call.session for call in transport.calls[4:]] == done == [0, 1, 2, 3]


async def test_a_rejected_call_is_done_and_counts_as_an_error() -> None:
    connection, _, meter, done = open_connection()
    connection.call(WorkloadCall("put", ("a", 1), True), 1)
    connection.call(WorkloadCall("put", ("a", 1), False), 2)
    connection.data_received(encoded(wire.CallResponse(2, "tentative", None)))
    connection.data_received(
        encoded(
            wire.Rejected(1, RejectReason.BUSY, "later"),
            wire.Rejected(2, RejectReason.BUSY, "later"),
        )
    )
    assert (connection.in_flight, done, meter.errors) == (0, [2, 1], {RejectReason.BUSY: 1})
    connection.data_received(encoded(wire.CallResponse(2, "final", None)))
    assert not meter.latencies_ns[WEAK_FINAL]


async def test_a_lost_connection_fails_all_calls_in_flight() -> None:
    connection, _, meter, done = open_connection()
    for client in range(3):
        connection.call(WorkloadCall("put", ("a", 1), False), client)
    connection.connection_lost(None)
    assert (connection.in_flight, done, meter.errors) == (0, [0, 1, 2], {"connection lost": 3})
    assert connection.closed.done()


async def dial_error(first_bytes: bytes) -> tuple[str, str]:
    """Return the error of a dialer whose server responds with `first_bytes`, and the address."""
    unhandled: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unhandled.append(context))

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first_bytes)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(UsageError) as raised:
        await ReplicaDialer()(address, LoadMeter(0, 2**62), lambda _connection, _client: None)
    server.close()
    assert not unhandled
    return str(raised.value), address


async def test_the_error_of_a_rejected_connection_names_the_cause() -> None:
    rejected = wire.ConnectionRejected(RejectReason.TOKEN, "the token is missing")
    error, address = await dial_error(encoded(rejected))
    assert error == f"{address} rejected the connection: the token is missing"


async def test_a_port_that_is_not_for_clients_is_reported() -> None:
    error, address = await dial_error(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert error == f"{address} is not a client port: it serves HTTP; use the port for clients"
