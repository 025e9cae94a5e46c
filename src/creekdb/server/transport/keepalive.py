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

from creekdb.wire.liveness import ANSWER, LENGTH, QUESTION

HELLO_S: Final = 10.0
"""How long who dialled may be silent before it says hello."""
IDLE_S: Final = 15
"""Without a word until one is asked for."""
PAUSE_S: Final = 5
TRIES: Final = 3
UNTAKEN_MS: Final = 30_000
"""How long what was sent may wait to be taken in."""


def notice_silence(transport: asyncio.Transport) -> None:
    connection = transport.get_extra_info("socket")
    with suppress(OSError):  # it is closed already, and that will be told
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", IDLE_S),
            ("TCP_KEEPINTVL", PAUSE_S),
            ("TCP_KEEPCNT", TRIES),
            ("TCP_USER_TIMEOUT", UNTAKEN_MS),
        ):
            if hasattr(socket, name):  # not every system has all of them
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class UntilHello:
    """Runs from when a connection is made: with TLS, many never are, and nobody tells us."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, leave: Callable[[], None]) -> None:
        """`leave` is called if it is not ended in time; once it is, nothing keeps it."""
        self._timer = asyncio.get_running_loop().call_later(HELLO_S, leave)

    def end(self) -> None:
        """It has said hello, or is gone."""
        if self._timer is not None:
            self._timer.cancel()


class Pulse:
    """`listening`: the sockets by which clients connect."""

    def __init__(self, listening: Iterable[Any]) -> None:
        self._sockets = [
            bound for each in listening if (bound := _bound(each.family, each.getsockname()))
        ]
        self._end, self._ended = socket.socketpair()
        self._worker = threading.Thread(target=self._answer, name="pulse", daemon=True)

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        self._end.close()
        if self._worker.is_alive():
            self._worker.join()
        for each in (*self._sockets, self._ended):
            each.close()

    def _answer(self) -> None:
        with DefaultSelector() as selector:
            for each in (*self._sockets, self._ended):
                selector.register(each, EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._ended:
                        return
                    with suppress(OSError):  # who asked is gone, or the system is short of room
                        _answer_one(key.fileobj)


def _answer_one(asked: Any) -> None:
    data, sender = asked.recvfrom(LENGTH + 1)
    if len(data) == LENGTH and data.startswith(QUESTION):
        asked.sendto(ANSWER + data[len(QUESTION) :], sender)


def _bound(family: int, address: Any) -> socket.socket | None:
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
