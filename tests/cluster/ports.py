"""Ports for a cluster that `creek up` starts: those of its replicas follow each other."""

from creekdb.load.local_cluster import HTTP_AFTER, PEERS_AFTER, is_free, reserve


def free_ports(replicas: int = 3) -> int:
    """The first one of those for clients; those for replicas and browsers are free, too."""
    block = reserve()
    for first in block[: -HTTP_AFTER - replicas]:
        wanted = range(first, first + replicas)
        if all(is_free(port + after) for port in wanted for after in (0, PEERS_AFTER, HTTP_AFTER)):
            return first
    raise AssertionError(f"somebody uses all ports from {block.start} to {block.stop}")
