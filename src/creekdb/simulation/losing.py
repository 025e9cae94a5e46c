"""When a disk may be lost: what a cluster survives, and what nobody could.

A replica that comes back with nothing hears from all others what it has forgotten
(`creekdb.protocol.membership.disk_loss_recovery`). So none of them may have forgotten anything as
well, and be about to hear it. And a weak request that only the lost disk held is gone, as it is in
a live cluster: whatever is tentative there must be somewhere else, too.
"""

from collections.abc import Sequence

from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.messages import Image, Promised
from creekdb.simulation.disk import Disk
from creekdb.simulation.node import Node


def loses_nothing(node: Node, nodes: Sequence[Node]) -> bool:
    others = [each for each in nodes if each is not node]
    if node.replica is None or not all(_takes_part(each.disk) for each in nodes):
        return False
    safe = [each.replica for each in others if each.disk.durable == each.disk.end]
    kept = [replica for replica in safe if replica is not None]
    return all(any(replica.has(id) for replica in kept) for id in node.replica.tentative_ids())


def _takes_part(disk: Disk) -> bool:
    """Does it say, in what is durable, that its replica does?"""
    for record in disk.read_durable():
        match record:
            case Promised():
                return True
            case Image(promised=promised) if promised != NO_BALLOT:
                return True
            case _:
                pass
    return False
