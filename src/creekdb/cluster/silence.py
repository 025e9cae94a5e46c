"""Connections whose other end is gone without a word: a machine that lost its power or its network.

Nothing tells. So the system is asked to look, and to give up what is not taken in for long: then
the connection ends as any other does, and whoever dialled it dials again.

So do those that are dialled by one who does not say who it is.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

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
