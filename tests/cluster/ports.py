"""Ports for a cluster, all of them free."""

import os
import socket

from creek.load.local import HTTP_AFTER, PEERS_AFTER


def free_ports(replicas: int = 3) -> int:
    """The first one of those for clients; those for replicas and browsers are free, too. None of
    them is one that a system gives away."""
    for first in range(10_000 + os.getpid() * 7 % 10_000, 30_000, 300):
        try:
            for port in range(first, first + replicas):
                for each in (port, port + PEERS_AFTER, port + HTTP_AFTER):
                    with socket.socket() as tried:
                        tried.bind(("127.0.0.1", each))
        except OSError:
            continue
        return first
    raise AssertionError("no ports are free")
