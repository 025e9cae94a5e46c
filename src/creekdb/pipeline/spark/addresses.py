"""Reachability of Spark's servers. Spark itself retries for minutes before it gives up."""

import socket
from collections.abc import Iterable
from typing import Final

from creekdb.errors import UsageError

CONNECT_TIMEOUT_S: Final = 5.0


def check_reachable(server: str, addresses: Iterable[str]) -> None:
    """Raise UsageError if none of the addresses, HOST:PORT, accepts connections."""
    problem = "not an address"
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
        except (OSError, ValueError, OverflowError) as error:
            problem = str(error)
        else:
            return
    raise UsageError(f"cannot connect to a {server}: {problem}; start it, or correct the address")
