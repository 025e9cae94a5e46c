"""What the counters of each replica say from time to time: how a run went, not only how it ended.

Sampling only looks. A sample is an event of the heap that touches nothing, so it changes neither a
run nor its trace.
"""

from collections.abc import Iterable

import msgspec

from creekdb.simulation.network import Network
from creekdb.simulation.node import Node


class ReplicaSample(msgspec.Struct, frozen=True):
    """One replica at one moment. A replica that is down is not sampled."""

    replica: int
    at_us: int
    committed: int
    tentative: int
    executions: int
    """Since the beginning of the run, over all incarnations; so are those below."""
    busy_us: int
    bytes: int
    """Sent."""


def sample(now_us: int, nodes: Iterable[Node], network: Network) -> list[ReplicaSample]:
    return [
        ReplicaSample(
            replica=node.index,
            at_us=now_us,
            committed=node.replica.committed_length(),
            tentative=len(node.replica.tentative_ids()),
            executions=node.cpu.executions,
            busy_us=node.cpu.busy_us,
            bytes=network.sent_bytes[node.index],
        )
        for node in nodes
        if node.replica is not None
    ]
