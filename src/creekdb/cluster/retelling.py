"""What was committed, in its order, as a journal tells: from its last checkpoint on.

A journal holds requests as they arrived and decisions as they were learned. Put together as a
replica does it (Algorithm 1, lines 48-54), but without executing anything, they tell which request
took which place.
"""

from pathlib import Path
from typing import NamedTuple

from creekdb.cluster.segments import read_chain
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Decided, Image, Received, Record
from creekdb.protocol.order import Order
from creekdb.protocol.request import Batch, Request


class Told(NamedTuple):
    first: int
    """The place of the first of the requests on `committed`."""
    requests: tuple[Request, ...]


def told_by(folder: Path) -> Told:
    """By the journal in a folder, which may be in use. Raises `StorageFault`."""
    return told_of(read_chain(folder).records)


def told_of(records: list[Record]) -> Told:
    order = Order()
    instance = 0
    known: dict[Dot, Request] = {}
    decided: dict[int, Batch] = {}
    for record in records:
        match record:
            case Image(checkpoint=checkpoint):
                order = Order()
                order.install(checkpoint.length, checkpoint.ids)
                instance = checkpoint.instance
                known = {each.id: each for each in record.requests}
                decided = dict(record.decided)
            case Received(request=request):
                known[request.id] = request
            case Decided():
                decided[record.instance] = record.batch
            case _:
                pass
    first = order.length
    for request in known.values():
        if request.id not in order.committed_ids:
            order.insert(request)
    while instance in decided and all(_deliver(order, id) for id in decided[instance]):
        instance += 1
    return Told(first, tuple(order.committed))


def _deliver(order: Order, id: Dot) -> bool:
    """False when the request, or one of its causal context, is not known."""
    if id in order.committed_ids:
        return True
    request = order.find_tentative(id)
    if request is None or request.context is None:
        return False
    missing = order.committed_ids.missing(request.context)
    if any(order.find_tentative(each) is None for each in missing):
        return False
    order.commit(request)
    return True
