"""A replica that says nothing: one with a pulse is waited for, one without is left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any, cast

import pytest

from creekdb.client import failure_detector
from creekdb.client.failure_detector import ReplicaFailureDetector
from creekdb.client.replica_connection import ReplicaConnection
from creekdb.wire import messages
from creekdb.wire.liveness import PROBE_PREFIX, PROBE_RESPONSE_PREFIX

PATIENCE_S = 60.0
ROUNDS = 5 * failure_detector.PROBE_ATTEMPTS


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_detector, "HUSH_S", 0.05)


class Mute(asyncio.DatagramProtocol):
    """A replica that connects, and then says what a test lets it."""

    def __init__(self, beats: bool) -> None:
        self.beats = beats
        self.says_how_it_is = False
        self.questions = 0
        self.line: ReplicaConnection | None = None
        self._frames = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX)
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        assert data.startswith(PROBE_PREFIX)
        self.questions += 1
        if self.beats:
            self._transport.sendto(PROBE_RESPONSE_PREFIX + data[len(PROBE_PREFIX) :], addr)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while data := await reader.read(65_536):
                for message in map(messages.decode_client_message, self._frames.feed(data)):
                    if self.says_how_it_is and isinstance(message, messages.StatusRequest):
                        writer.write(
                            messages.encode_frame(messages.StatusResponse(message.number, {}))
                        )

    async def asked(self, more: int) -> None:
        wanted = self.questions + more
        async with asyncio.timeout(PATIENCE_S):
            while self.questions < wanted:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def mute(
    *, beats: bool, patience: float = PATIENCE_S, waited_for: bool = True, others: bool = True
) -> AsyncIterator[tuple[Mute, "asyncio.Task[None]"]]:
    """Such a replica, and who follows its silence."""
    loop, replica = asyncio.get_running_loop(), Mute(beats)
    server = await asyncio.start_server(replica.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    beating, _ = await loop.create_datagram_endpoint(lambda: replica, local_addr=(host, port))
    hello = messages.ClientHello(messages.WIRE_VERSION, "a", "", "")
    _, line = await loop.create_connection(
        lambda: ReplicaConnection(hello, lambda _: None), host, port
    )
    line.handshake.set_result(cast(Any, None))
    replica.line = line
    numbers = iter(range(1, 1_000_000))
    followed = ReplicaFailureDetector(
        line, patience, lambda: waited_for, lambda: next(numbers), others
    )
    following = asyncio.ensure_future(followed.wait_until_lost())
    try:
        yield replica, following
    finally:
        following.cancel()
        line.abort()
        beating.close()
        server.close()


def run(story: Any) -> None:
    asyncio.run(story)


def test_one_whose_pulse_stops_is_left_long_before_all_patience() -> None:
    async def story() -> None:
        async with mute(beats=True) as (replica, following):
            await replica.asked(1 + ROUNDS)
            assert not following.done()
            replica.beats = False
            async with asyncio.timeout(PATIENCE_S / 4):
                await following
            assert replica.line is not None
            assert replica.line.closed.done()

    run(story())


def test_one_that_says_how_it_is_is_not_left_when_its_pulse_does_not_get_here() -> None:
    async def story() -> None:
        async with mute(beats=True) as (replica, following):
            await replica.asked(2)
            replica.beats, replica.says_how_it_is = False, True
            await replica.asked(failure_detector.PROBE_ATTEMPTS)
            assert not following.done()
            asked = replica.questions
            await asyncio.sleep(20 * failure_detector.PROBE_TIMEOUT_S)
            assert not following.done()
            assert replica.questions <= asked + failure_detector.PROBE_ATTEMPTS, (
                "it is not looked for any more"
            )

    run(story())


@pytest.mark.parametrize("beats", [True, False])
def test_one_that_is_busy_or_whose_pulse_was_never_heard_has_all_patience(beats: bool) -> None:
    async def story() -> None:
        patience = 60 * failure_detector.PROBE_TIMEOUT_S
        begun = asyncio.get_running_loop().time()
        async with mute(beats=beats, patience=patience) as (replica, following):
            async with asyncio.timeout(PATIENCE_S):
                await following
            assert asyncio.get_running_loop().time() - begun > 0.9 * patience
            assert replica.questions > 1

    run(story())


def test_nobody_is_asked_for_a_pulse_without_a_need() -> None:
    async def story() -> None:
        for given in ({"waited_for": False}, {"others": False}):
            async with mute(beats=True, **given) as (replica, following):
                await asyncio.sleep(10 * failure_detector.PROBE_TIMEOUT_S)
                assert replica.questions == (1 if "waited_for" in given else 0)
                assert not following.done()

    run(story())


def test_a_line_that_breaks_while_its_pulse_is_waited_for_is_noticed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with mute(beats=True) as (replica, following):
            await replica.asked(2)
            replica.beats = False
            monkeypatch.setattr(failure_detector, "TRIES", 1)
            await replica.asked(1)
            assert replica.line is not None
            replica.line.abort()
            async with asyncio.timeout(PATIENCE_S / 4):
                await following

    run(story())
