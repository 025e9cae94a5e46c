"""Ports for a cluster that `creek up` starts. Its replicas have consecutive ports."""

from creekdb.load.local_cluster import HTTP_PORT_OFFSET, PEER_PORT_OFFSET, bind_error, reserve_block


def free_ports(replicas: int = 3) -> int:
    """Return the first of the client ports. The matching peer and HTTP ports are free as well."""
    block = reserve_block()
    for first in block[: -HTTP_PORT_OFFSET - replicas]:
        ports = range(first, first + replicas)
        if all(
            bind_error(port + offset) is None
            for port in ports
            for offset in (0, PEER_PORT_OFFSET, HTTP_PORT_OFFSET)
        ):
            return first
    raise AssertionError(f"no free ports from {block.start} to {block.stop}")
