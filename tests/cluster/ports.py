"""Ports for a cluster that `creek up` starts: those of its replicas follow each other."""

from creekdb.load.local_cluster import HTTP_PORT_OFFSET, PEER_PORT_OFFSET, is_free, reserve_block


def free_ports(replicas: int = 3) -> int:
    """The first one of those for clients; those for replicas and browsers are free, too."""
    block = reserve_block()
    for first in block[: -HTTP_PORT_OFFSET - replicas]:
        wanted = range(first, first + replicas)
        if all(
            is_free(port + after)
            for port in wanted
            for after in (0, PEER_PORT_OFFSET, HTTP_PORT_OFFSET)
        ):
            return first
    raise AssertionError(f"somebody uses all ports from {block.start} to {block.stop}")
