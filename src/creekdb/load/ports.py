"""Ports of this machine that a cluster can have: nobody else takes them before it listens there.

Each process takes a block of ports for itself, and gives them out in turn. Whoever has a block
keeps its first port bound, as long as the process lives; so no other process that asks here gets a
port of it, even while a replica that is to come back is away.

All blocks lie below what a system gives to who dials: else a connection could have the port of a
replica that is about to start, and one that is dialled too early could even be its own other end.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, cycle, islice
from typing import Final

from creekdb.errors import UsageError

PORTS: Final = range(12_000, 32_000)
BLOCK: Final = 250

_NONE: Final = f"no ports are free from {PORTS.start} to {PORTS.stop - 1}: stop what listens there"

_kept: list[socket.socket] = []
_own: list[Iterator[int]] = []


def free_port() -> int:
    """One of this process's own, that nobody listens at, and that was not given for long."""
    if not _own:
        _own.append(cycle(reserve()))
    for port in islice(_own[0], BLOCK):
        if is_free(port):
            return port
    raise UsageError(_NONE)


def reserve() -> range:
    """Another block, for as long as this process lives."""
    blocks = [PORTS[first : first + BLOCK] for first in range(0, len(PORTS), BLOCK)]
    begin = os.getpid() % len(blocks)
    for block in chain(blocks[begin:], blocks[:begin]):
        keeper = socket.socket()
        with suppress(OSError):
            keeper.bind(("127.0.0.1", block[0]))
            _kept.append(keeper)
            return block[1:]
        keeper.close()
    raise UsageError(_NONE)


def is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
