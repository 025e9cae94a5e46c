"""Ports for a cluster that `creek up` starts: those of its replicas follow each other."""

from creek.load.local import PEERS_AFTER
from creek.load.ports import is_free, reserve


def free_ports(replicas: int = 3) -> int:
    """The first one of those for clients; those for replicas are free, too."""
    block = reserve()
    for first in block[: -PEERS_AFTER - replicas]:
        wanted = range(first, first + replicas)
        if all(is_free(port) and is_free(port + PEERS_AFTER) for port in wanted):
            return first
    raise AssertionError(f"somebody uses all ports from {block.start} to {block.stop}")
