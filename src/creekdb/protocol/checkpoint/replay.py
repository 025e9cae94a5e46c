"""Replay of the journal."""

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from creekdb.protocol.consensus.omega import NO_BALLOT
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
