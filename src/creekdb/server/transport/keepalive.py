"""Detection of dead connections, and the liveness responder for clients.

- The other end of a connection can vanish without closing it, when its machine loses power or its
  network. TCP keepalive and a limit for unacknowledged data end such connections like any
  other, and the dialling side redials.
- A dialling process that sends no hello in time is disconnected.
- A replica that executes a long operation sends nothing, and neither does one that is frozen or
  whose machine is gone. Clients should wait for the first and abandon the others. Therefore a
  separate thread responds to UDP probes at the address for clients.

A probe response shows that the process runs, and nothing else. It has as many bytes as the probe.
Where UDP is blocked, clients only wait longer before they abandon a replica.
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
"""Time limit for the hello of a dialling process."""
KEEPALIVE_IDLE_S: Final = 15
"""Idle time before the first keepalive probe."""
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 3
UNACKNOWLEDGED_MAX_MS: Final = 30_000
"""Time limit for the acknowledgement of sent data."""


def enable_keepalive(transport: asyncio.Transport) -> None:
    connection = transport.get_extra_info("socket")
    with suppress(OSError):  # already closed, which `connection_lost` reports
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
            ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
            ("TCP_KEEPCNT", KEEPALIVE_PROBES),
            ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MAX_MS),
        ):
            if hasattr(socket, name):  # not every system defines all of them
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class HelloTimeout:
    """Timer for the hello of a connection.

    It starts when the connection is made. asyncio does not report a failed TLS handshake.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None

    def start(self, on_timeout: Callable[[], None]) -> None:
        """Call `on_timeout` unless the timer is cancelled in time."""
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, on_timeout)

    def cancel(self) -> None:
        """Stop the timer: the hello has arrived, or the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()


class LivenessResponder:
    """UDP responder. `listening` are the TCP sockets for clients, whose addresses it binds."""

    def __init__(self, listening: Iterable[Any]) -> None:
        self._sockets = [
            bound for each in listening if (bound := _bind_udp(each.family, each.getsockname()))
        ]
        self._stop_sender, self._stop_receiver = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="liveness", daemon=True)

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
                    with suppress(OSError):  # the sender is gone, or the system is out of buffers
                        _respond_to_probe(key.fileobj)


def _respond_to_probe(udp_socket: Any) -> None:
    data, sender = udp_socket.recvfrom(PROBE_BYTES + 1)
    if len(data) == PROBE_BYTES and data.startswith(PROBE_PREFIX):
        udp_socket.sendto(PROBE_RESPONSE_PREFIX + data[len(PROBE_PREFIX) :], sender)


def _bind_udp(family: int, address: Any) -> socket.socket | None:
    """Return a bound UDP socket, or None if the port is taken or the system provides none."""
    try:
        udp_socket = socket.socket(family, socket.SOCK_DGRAM)
    except OSError:
        return None
    try:
        udp_socket.setblocking(False)
        if family == socket.AF_INET6:
            udp_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        udp_socket.bind(address)
    except OSError:
        udp_socket.close()
        return None
    return udp_socket
