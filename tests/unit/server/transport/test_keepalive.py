"""The liveness responder."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from creekdb.server.transport.keepalive import HelloTimeout, LivenessResponder
from creekdb.wire.liveness import PROBE_PREFIX, PROBE_RESPONSE_PREFIX

NONCE = b"\0\0\0\0\0\0\0\7"


@contextmanager
def running_responder(host: str, family: socket.AddressFamily) -> Iterator[socket.socket]:
    """Run a responder, and yield a socket that is connected to it."""
    with socket.create_server((host, 0), family=family) as listening:
        responder = LivenessResponder([listening])
        responder.start()
        with socket.socket(family, socket.SOCK_DGRAM) as client:
            client.settimeout(30)
            client.connect(listening.getsockname())
            yield client
        responder.stop()


@pytest.mark.parametrize(
    ("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_a_probe_gets_a_response_and_other_datagrams_do_not(
    host: str, family: socket.AddressFamily
) -> None:
    with running_responder(host, family) as client:
        for datagram in (
            b"",
            PROBE_PREFIX,
            PROBE_RESPONSE_PREFIX + NONCE,
            PROBE_PREFIX + NONCE + b"!",
            b"x" * 60_000,
        ):
            client.send(datagram)
        client.send(PROBE_PREFIX + NONCE)
        assert client.recv(100) == PROBE_RESPONSE_PREFIX + NONCE


def test_a_taken_port_is_tolerated() -> None:
    before = threading.active_count()
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken,
    ):
        taken.bind(listening.getsockname())
        responder = LivenessResponder([listening])
        responder.start()
        taken.setblocking(False)
        with pytest.raises(BlockingIOError):  # the responder received and sent nothing here
            taken.recv(100)
        responder.stop()
    assert threading.active_count() == before


def test_a_stopped_responder_leaves_no_thread_and_no_port() -> None:
    before = threading.active_count()
    with running_responder("127.0.0.1", socket.AF_INET) as client:
        address = client.getpeername()
    assert threading.active_count() == before
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as rebound:
        rebound.bind(address)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_hello_in_time_cancels_the_timeout(is_cancelled: bool) -> None:
    timeout = HelloTimeout(0.0)
    expired: list[bool] = []
    timeout.cancel()  # before the connection is made
    timeout.start(lambda: expired.append(True))
    if is_cancelled:
        timeout.cancel()
    for _ in range(3):
        await asyncio.sleep(0.001)

    assert bool(expired) is not is_cancelled
