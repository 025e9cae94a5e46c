"""Connections whose other end is gone without a word: a machine that lost its power or its network.

Nothing tells. So the system is asked to look, and to give up what is not taken in for long: then
the connection ends as any other does, and whoever dialled it dials again.

So do those that are dialled by one who does not say who it is.

A sign of life that does not wait for what a replica is busy with.

One that carries out a long operation says nothing, and neither does one that is frozen, or whose
machine is gone: clients should wait for the first, and leave the others. So a thread of its own
answers what comes by UDP, at the address where clients find the replica: it says that the process
runs, and nothing else. It takes a few bytes and gives as many, to whoever asks; and nobody needs
it: where it cannot be asked, clients wait for longer.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Final

from creekdb.wire.liveness import PROBE_BYTES, PROBE_PREFIX, PROBE_RESPONSE_PREFIX

HELLO_TIMEOUT_S: Final = 10.0
"""How long who dialled may be silent before it says hello."""
KEEPALIVE_IDLE_S: Final = 15
"""Without a word until one is asked for."""
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 3
UNACKNOWLEDGED_MAX_MS: Final = 30_000
"""How long what was sent may wait to be taken in."""


def enable_keepalive(transport: asyncio.Transport) -> None:
    connection = transport.get_extra_info("socket")
    with suppress(OSError):  # it is closed already, and that will be told
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
            ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
            ("TCP_KEEPCNT", KEEPALIVE_PROBES),
            ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MAX_MS),
        ):
            if hasattr(socket, name):  # not every system has all of them
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class HelloTimeout:
    """Runs from when a connection is made: with TLS, many never are, and nobody tells us."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def start(self, leave: Callable[[], None]) -> None:
        """`leave` is called if it is not ended in time; once it is, nothing keeps it."""
        self._timer = asyncio.get_running_loop().call_later(HELLO_TIMEOUT_S, leave)

    def cancel(self) -> None:
        """It has said hello, or is gone."""
        if self._timer is not None:
            self._timer.cancel()


class LivenessResponder:
    """`listening`: the sockets by which clients connect."""

    def __init__(self, listening: Iterable[Any]) -> None:
        self._sockets = [
            bound for each in listening if (bound := _bind_udp(each.family, each.getsockname()))
        ]
        self._stop_sender, self._stop_receiver = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop_sender.close()
        if self._thread.is_alive():
            self._thread.join()
        for each in (*self._sockets, self._stop_receiver):
            each.close()

    def _run(self) -> None:
        with DefaultSelector() as selector:
            for each in (*self._sockets, self._stop_receiver):
                selector.register(each, EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._stop_receiver:
                        return
                    with suppress(OSError):  # who asked is gone, or the system is short of room
                        _respond_to_probe(key.fileobj)


def _respond_to_probe(asked: Any) -> None:
    data, sender = asked.recvfrom(PROBE_BYTES + 1)
    if len(data) == PROBE_BYTES and data.startswith(PROBE_PREFIX):
        asked.sendto(PROBE_RESPONSE_PREFIX + data[len(PROBE_PREFIX) :], sender)


def _bind_udp(family: int, address: Any) -> socket.socket | None:
    """None where another program has that port, or the system gives none."""
    try:
        made = socket.socket(family, socket.SOCK_DGRAM)
    except OSError:
        return None
    try:
        made.setblocking(False)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        return None
    return made
