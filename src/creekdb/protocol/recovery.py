"""What a replica finds on its disk, before anything follows from it."""

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from creekdb.protocol.messages import (
    Accepted,
    AcceptedValue,
    Ballot,
    Checkpoint,
    Decided,
    Image,
    Promised,
    Received,
    Record,
)
from creekdb.protocol.omega import NO_BALLOT
from creekdb.protocol.request import Batch, Request


class Found(NamedTuple):
    image: Checkpoint | None
    promised: Ballot
    accepted: list[AcceptedValue]
    decided: dict[int, Batch]
    requests: list[Request]
    """In the order in which they were received."""


def found_on_disk(records: Iterable[Record]) -> Found:
    """The sum of `records`; an image stands for all before it, but for what was promised."""
    found = Found(None, NO_BALLOT, [], {}, [])
    for record in records:
        match record:
            case Image():
                promised = max(found.promised, record.promised)
                accepted, requests = list(record.accepted), list(record.requests)
                found = Found(record.checkpoint, promised, accepted, dict(record.decided), requests)
            case Received(request=request):
                found.requests.append(request)
            case Promised(ballot=ballot):
                found = found._replace(promised=max(found.promised, ballot))
            case Accepted(value=value):
                found.accepted.append(value)
            case Decided(instance=instance, batch=batch):
                found.decided[instance] = batch
            case _:
                assert_never(record)
    return found
