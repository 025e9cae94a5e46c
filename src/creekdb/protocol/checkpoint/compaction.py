"""What a replica finds on its disk, before anything follows from it.

The whole durable state as one record, so that all before it on disk can go.

What the checkpoint of the image before held is forgotten then: peers that still miss some of it
were behind for a whole period, and get a snapshot.
"""

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from creekdb.protocol.application import Application
from creekdb.protocol.broadcast.cab import ConditionalAtomicBroadcast
from creekdb.protocol.broadcast.reliable import Gossip
from creekdb.protocol.checkpoint.stream import Brought, DrawnImage, ImageDraft, Registers
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dots
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
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
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


class Compaction:
    __slots__ = ("_application", "_cab", "_gossip", "_held", "_held_below", "_outbox", "_probes")

    def __init__(
        self,
        outbox: Outbox,
        probes: Probes,
        gossip: Gossip,
        cab: ConditionalAtomicBroadcast,
        application: Application,
    ) -> None:
        self._outbox = outbox
        self._probes = probes
        self._gossip = gossip
        self._cab = cab
        self._application = application
        self._held: Dots | None = None
        """Which requests the checkpoint of the last image on disk holds; None if there is none."""
        self._held_below = 0
        """They were delivered by the instances below."""

    def found(self, checkpoint: Checkpoint) -> None:
        """Of the image that is on disk."""
        self._held, self._held_below = checkpoint.ids, checkpoint.instance

    def write(self, checkpoint: Checkpoint, registers: Registers | Brought | None) -> None:
        """With `registers`, the checkpoint has none."""
        self._probes.hit(Probe.IMAGE_WRITTEN)
        acceptor, learner = self._cab.acceptor, self._cab.learner
        if self._held is not None:
            self._gossip.forget(self._held)
            learner.forget_below(self._held_below)
        self.found(checkpoint)
        accepted = tuple(acceptor.accepted[each] for each in sorted(acceptor.accepted))
        decided = tuple(
            (each, learner.decided[each])
            for each in sorted(learner.decided)
            if each >= checkpoint.instance
        )
        requests = (*self._application.live_requests(), *self._gossip.held_back())
        image = Image(checkpoint, acceptor.promised, accepted, decided, requests)
        after = len(self._outbox.records)
        if registers is None:
            self._outbox.records.append(image)
        elif isinstance(registers, Brought):
            held, deleted = registers.held, registers.deleted
            self._outbox.images.append(DrawnImage(after, image, held, deleted))
        else:
            self._outbox.images.append(ImageDraft(after, image, registers))
