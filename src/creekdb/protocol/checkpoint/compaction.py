"""Replay and compaction of the journal.

Compaction writes the whole durable state as one record, so that all earlier records can be dropped.
It also discards the requests and decisions that the previous checkpoint covered. Peers that still
miss some of them were behind for a whole period, and receive a snapshot.
"""

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from creekdb.protocol.application import CheckpointSource
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
    """Requests in the order of their receipt."""


def replay_records(records: Iterable[Record]) -> RecoveredState:
    """Return the state after `records`. A checkpoint replaces all but the highest promise."""
    state = RecoveredState(None, NO_BALLOT, [], {}, [])
    for record in records:
        match record:
            case CheckpointRecord():
                promised = max(state.promised, record.promised)
                accepted, requests = list(record.accepted), list(record.requests)
                state = RecoveredState(
                    record.checkpoint, promised, accepted, dict(record.decided), requests
                )
            case Received(request=request):
                state.requests.append(request)
            case Promised(ballot=ballot):
                state = state._replace(promised=max(state.promised, ballot))
            case Accepted(value=value):
                state.accepted.append(value)
            case Decided(instance=instance, batch=batch):
                state.decided[instance] = batch
            case _:
                assert_never(record)
    return state


class JournalCompactor:
    def __init__(
        self,
        outbox: Outbox,
        probes: Probes,
        reliable_broadcast: ReliableBroadcast,
        cab: ConditionalAtomicBroadcast,
        source: CheckpointSource,
    ) -> None:
        self._outbox = outbox
        self._probes = probes
        self._reliable_broadcast = reliable_broadcast
        self._cab = cab
        self._source = source
        self._previous_ids: Dots | None = None
        """Requests that the last checkpoint on disk covers; None if there is none."""
        self._previous_instance = 0
        """Instance below which those requests were delivered."""

    def set_previous(self, checkpoint: Checkpoint) -> None:
        """Set the checkpoint that is on disk."""
        self._previous_ids, self._previous_instance = checkpoint.ids, checkpoint.instance

    def write(
        self, checkpoint: Checkpoint, registers: RegisterCursor | AssembledSnapshot | None
    ) -> None:
        """Write a checkpoint record. If `registers` is given, the checkpoint itself holds none."""
        self._probes.hit(Probe.JOURNAL_COMPACTED)
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
        requests = (*self._source.live_requests(), *self._reliable_broadcast.held_back())
        record = CheckpointRecord(checkpoint, acceptor.promised, accepted, decided, requests)
        preceding = len(self._outbox.records)
        if registers is None:
            self._outbox.records.append(record)
        elif isinstance(registers, AssembledSnapshot):
            live, deleted = registers.live, registers.deleted
            self._outbox.checkpoints.append(EncodedCheckpoint(preceding, record, live, deleted))
        else:
            self._outbox.checkpoints.append(StreamedCheckpoint(preceding, record, registers))
