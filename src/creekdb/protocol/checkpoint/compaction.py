"""What a replica finds on its disk, before anything follows from it.

The whole durable state as one record, so that all before it on disk can go.

What the checkpoint of the image before held is forgotten then: peers that still miss some of it
were behind for a whole period, and get a snapshot.
"""

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from creekdb.protocol.application import Application
from creekdb.protocol.broadcast.cab import ConditionalAtomicBroadcast
from creekdb.protocol.broadcast.reliable import ReliableBroadcast
from creekdb.protocol.checkpoint.stream import (
    AssembledSnapshot,
    EncodedCheckpoint,
    RegisterCursor,
    StreamedCheckpoint,
)
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import (
    Accepted,
    AcceptedValue,
    Ballot,
    Checkpoint,
    CheckpointRecord,
    Decided,
    Promised,
    Received,
    Record,
)
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import Batch, Request


class RecoveredState(NamedTuple):
    checkpoint: Checkpoint | None
    promised: Ballot
    accepted: list[AcceptedValue]
    decided: dict[int, Batch]
    requests: list[Request]
    """In the order in which they were received."""


def replay_records(records: Iterable[Record]) -> RecoveredState:
    """The sum of `records`; an image stands for all before it, but for what was promised."""
    found = RecoveredState(None, NO_BALLOT, [], {}, [])
    for record in records:
        match record:
            case CheckpointRecord():
                promised = max(found.promised, record.promised)
                accepted, requests = list(record.accepted), list(record.requests)
                found = RecoveredState(
                    record.checkpoint, promised, accepted, dict(record.decided), requests
                )
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


class JournalCompactor:
    __slots__ = (
        "_application",
        "_cab",
        "_outbox",
        "_previous_ids",
        "_previous_instance",
        "_probes",
        "_reliable_broadcast",
    )

    def __init__(
        self,
        outbox: Outbox,
        probes: Probes,
        gossip: ReliableBroadcast,
        cab: ConditionalAtomicBroadcast,
        application: Application,
    ) -> None:
        self._outbox = outbox
        self._probes = probes
        self._reliable_broadcast = gossip
        self._cab = cab
        self._application = application
        self._previous_ids: Dots | None = None
        """Which requests the checkpoint of the last image on disk holds; None if there is none."""
        self._previous_instance = 0
        """They were delivered by the instances below."""

    def set_previous(self, checkpoint: Checkpoint) -> None:
        """Of the image that is on disk."""
        self._previous_ids, self._previous_instance = checkpoint.ids, checkpoint.instance

    def write(
        self, checkpoint: Checkpoint, registers: RegisterCursor | AssembledSnapshot | None
    ) -> None:
        """With `registers`, the checkpoint has none."""
        self._probes.hit(Probe.IMAGE_WRITTEN)
        acceptor, learner = self._cab.acceptor, self._cab.learner
        if self._previous_ids is not None:
            self._reliable_broadcast.discard_covered(self._previous_ids)
            learner.discard_below(self._previous_instance)
        self.set_previous(checkpoint)
        accepted = tuple(acceptor.accepted[each] for each in sorted(acceptor.accepted))
        decided = tuple(
            (each, learner.decided[each])
            for each in sorted(learner.decided)
            if each >= checkpoint.instance
        )
        requests = (*self._application.live_requests(), *self._reliable_broadcast.held_back())
        image = CheckpointRecord(checkpoint, acceptor.promised, accepted, decided, requests)
        after = len(self._outbox.records)
        if registers is None:
            self._outbox.records.append(image)
        elif isinstance(registers, AssembledSnapshot):
            held, deleted = registers.live, registers.deleted
            self._outbox.checkpoints.append(EncodedCheckpoint(after, image, held, deleted))
        else:
            self._outbox.checkpoints.append(StreamedCheckpoint(after, image, registers))
