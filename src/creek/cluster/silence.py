"""Connections whose other end is gone without a word: a machine that lost its power or its network.

Nothing tells. So the system is asked to look, and to give up what is not taken in for long: then
the connection ends as any other does, and whoever dialled it dials again.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Final

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
