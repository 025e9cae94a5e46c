"""Failure detection: a silent replica is kept while it answers probes, and abandoned otherwise."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any, cast

import pytest

from creekdb.client.failure_detector import LivenessProbe, ProbeLimits, ReplicaFailureDetector
from creekdb.client.replica_connection import ReplicaConnection
from creekdb.wire import messages
from creekdb.wire.liveness import PROBE_PREFIX, PROBE_RESPONSE_PREFIX

TIMEOUT_S = 60.0
LIMITS = ProbeLimits(timeout_s=0.05)
PROBES = 5 * LIMITS.attempts


class SilentReplica(asyncio.DatagramProtocol):
    """Replica that accepts a connection and answers probes or status requests on demand."""

    def __init__(self, answers_probes: bool) -> None:
        self.answers_probes = answers_probes
        self.answers_status = False
        self.probes = 0
        self.connection: ReplicaConnection | None = None
        self._frames = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX)
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        assert data.startswith(PROBE_PREFIX)
        self.probes += 1
        if self.answers_probes:
            self._transport.sendto(PROBE_RESPONSE_PREFIX + data[len(PROBE_PREFIX) :], addr)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while data := await reader.read(65_536):
                for message in map(messages.decode_client_message, self._frames.feed(data)):
                    if self.answers_status and isinstance(message, messages.StatusRequest):
                        writer.write(
                            messages.encode_frame(messages.StatusResponse(message.number, {}))
                        )

    async def wait_for_probes(self, count: int) -> None:
        total = self.probes + count
        async with asyncio.timeout(TIMEOUT_S):
            while self.probes < total:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def monitored_replica(
    *,
    answers_probes: bool,
    timeout_s: float = TIMEOUT_S,
    has_open_calls: bool = True,
    has_other_replicas: bool = True,
    limits: ProbeLimits = LIMITS,
) -> AsyncIterator[tuple[SilentReplica, "asyncio.Task[None]"]]:
    """Yield a silent replica and the task of its failure detector."""
    loop, replica = asyncio.get_running_loop(), SilentReplica(answers_probes)
    server = await asyncio.start_server(replica.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    datagrams, _ = await loop.create_datagram_endpoint(lambda: replica, local_addr=(host, port))
    hello = messages.ClientHello(messages.WIRE_VERSION, "a", "", "")
    _, connection = await loop.create_connection(
        lambda: ReplicaConnection(hello, lambda _: None), host, port
    )
    connection.handshake.set_result(cast(Any, None))
    replica.connection = connection
    numbers = iter(range(1, 1_000_000))
    detector = ReplicaFailureDetector(
        connection,
        timeout_s,
        lambda: has_open_calls,
        lambda: next(numbers),
        has_other_replicas,
        limits,
    )
    lost = asyncio.ensure_future(detector.wait_until_lost())
    try:
        yield replica, lost
    finally:
        lost.cancel()
        connection.abort()
        datagrams.close()
        server.close()


async def test_a_replica_that_stops_answering_probes_is_abandoned_before_the_timeout() -> None:
    async with monitored_replica(answers_probes=True) as (replica, lost):
        await replica.wait_for_probes(1 + PROBES)
        assert not lost.done()
        replica.answers_probes = False
        async with asyncio.timeout(TIMEOUT_S / 4):
            await lost
        assert replica.connection is not None
        assert replica.connection.closed.done()


async def test_a_replica_that_answers_status_requests_is_kept_without_probes() -> None:
    async with monitored_replica(answers_probes=True) as (replica, lost):
        await replica.wait_for_probes(2)
        replica.answers_probes, replica.answers_status = False, True
        await replica.wait_for_probes(LIMITS.attempts)
        assert not lost.done()
        probes_before = replica.probes
        await asyncio.sleep(20 * LIMITS.timeout_s)
        assert not lost.done()
        assert replica.probes <= probes_before + LIMITS.attempts, "probing does not stop"


@pytest.mark.parametrize("answers_probes", [True, False])
async def test_a_replica_that_is_busy_or_unreachable_by_udp_has_the_whole_timeout(
    answers_probes: bool,
) -> None:
    timeout_s = 60 * LIMITS.timeout_s
    start = asyncio.get_running_loop().time()
    async with monitored_replica(answers_probes=answers_probes, timeout_s=timeout_s) as (
        replica,
        lost,
    ):
        async with asyncio.timeout(TIMEOUT_S):
            await lost
        assert asyncio.get_running_loop().time() - start > 0.9 * timeout_s
        assert replica.probes > 1


async def test_probes_are_sent_only_with_open_calls_and_other_replicas() -> None:
    for has_open_calls, has_other_replicas in ((False, True), (True, False)):
        async with monitored_replica(
            answers_probes=True,
            has_open_calls=has_open_calls,
            has_other_replicas=has_other_replicas,
        ) as (replica, lost):
            await asyncio.sleep(10 * LIMITS.timeout_s)
            assert replica.probes == int(has_other_replicas)
            assert not lost.done()


async def test_a_connection_that_closes_during_a_probe_is_detected_immediately() -> None:
    limits = LIMITS._replace(attempts=1)
    async with monitored_replica(answers_probes=True, limits=limits) as (replica, lost):
        await replica.wait_for_probes(2)
        replica.answers_probes = False
        await replica.wait_for_probes(1)
        assert replica.connection is not None
        replica.connection.abort()
        async with asyncio.timeout(TIMEOUT_S / 4):
            await lost


async def test_an_answer_to_an_earlier_probe_does_not_count() -> None:
    client, replica = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    client.setblocking(False)
    with closing(replica), closing(LivenessProbe(client)) as probe:
        first = replica.recv(100)
        stale = PROBE_RESPONSE_PREFIX + first[len(PROBE_PREFIX) :]
        replica.send(stale)
        while not probe.is_reachable:
            await asyncio.sleep(0)
        replica.send(stale)
        assert not await probe.is_answered_within(0.02, attempts=2)
        answer = asyncio.ensure_future(probe.is_answered_within(TIMEOUT_S, attempts=1))
        await asyncio.sleep(0)
        for _ in range(3):
            last = replica.recv(100)
        replica.send(PROBE_RESPONSE_PREFIX + last[len(PROBE_PREFIX) :])
        assert await answer
