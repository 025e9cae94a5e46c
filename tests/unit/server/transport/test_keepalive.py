"""A sign of life from a thread of its own."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from creekdb.server.transport.keepalive import LivenessResponder
from creekdb.wire.liveness import PROBE_PREFIX, PROBE_RESPONSE_PREFIX

NUMBER = b"\0\0\0\0\0\0\0\7"


@contextmanager
def beating(host: str, family: socket.AddressFamily) -> Iterator[socket.socket]:
    """A socket that talks to a pulse."""
    with socket.create_server((host, 0), family=family) as listening:
        pulse = LivenessResponder([listening])
        pulse.start()
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.settimeout(30)
            asking.connect(listening.getsockname())
            yield asking
        pulse.stop()


@pytest.mark.parametrize(
    ("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_who_asks_is_answered_and_who_says_anything_else_is_not(
    host: str, family: socket.AddressFamily
) -> None:
    with beating(host, family) as asking:
        for other in (
            b"",
            PROBE_PREFIX,
            PROBE_RESPONSE_PREFIX + NUMBER,
            PROBE_PREFIX + NUMBER + b"!",
            b"x" * 60_000,
        ):
            asking.send(other)
        asking.send(PROBE_PREFIX + NUMBER)
        assert asking.recv(100) == PROBE_RESPONSE_PREFIX + NUMBER


def test_a_port_that_another_program_has_is_done_without() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken,
    ):
        taken.bind(listening.getsockname())
        pulse = LivenessResponder([listening])
        pulse.start()
        pulse.stop()


def test_one_that_is_stopped_leaves_no_thread_and_no_port() -> None:
    before = threading.active_count()
    with beating("127.0.0.1", socket.AF_INET) as asking:
        address = asking.getpeername()
    assert threading.active_count() == before
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        again.bind(address)
