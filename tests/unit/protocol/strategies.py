"""Hypothesis strategies for the property tests of the protocol."""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    AcceptedValue,
    Ballot,
    Cast,
    CatchUp,
    Checkpoint,
    CheckpointRecord,
    Decided,
    Decisions,
    FirstVote,
    Heartbeat,
    Message,
    Prepare,
    Progress,
    Promise,
    Promised,
    Pull,
    PullResponse,
    Received,
    Record,
    RecoveryQuery,
    RecoveryResponse,
    Reject,
    Snapshot,
    Summary,
    Vote,
)
from creekdb.protocol.request import Operation, Outcome, Request


def frozen_dots(dots: Iterable[Dot]) -> Dots:
    return DotSet(dots).freeze()


events = st.integers(1, 12)
dot = st.builds(Dot, st.integers(0, 3), events)
dot_sets: st.SearchStrategy[set[Dot]] = st.sets(dot, max_size=24)
dots = dot_sets.map(lambda each: frozen_dots(sorted(each)))

counters = st.integers(0, 2**62 - 1)
ballots = st.builds(Ballot, st.integers(1, 2**62 - 1), st.integers(0, 3))
batches = st.lists(dot, max_size=5, unique=True).map(tuple)

plain_values = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5)
)
values: st.SearchStrategy[Any] = st.recursive(
    plain_values,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
keys = (
    st.text(max_size=4)
    | st.integers(-(2**63), 2**63 - 1)
    | st.lists(st.text(max_size=3) | st.integers(0, 9), max_size=3).map(tuple)
)

operations = st.builds(
    Operation, st.text(min_size=1, max_size=6), st.lists(values, max_size=3).map(tuple)
)
weak_requests = st.builds(Request, counters, dot, operations, st.just(False))
strong_requests = st.builds(Request, counters, dot, operations, st.just(True), dots)
requests = weak_requests | strong_requests
request_tuples = st.lists(requests, max_size=3).map(tuple)
outcomes = st.builds(Outcome, values) | st.builds(
    Outcome, st.none(), st.text(min_size=1, max_size=8)
)

accepted_values = st.builds(AcceptedValue, counters, ballots, batches)
accepted_tuples = st.lists(accepted_values, max_size=3).map(tuple)
checkpoints = st.builds(
    Checkpoint,
    instance=counters,
    length=counters,
    ids=dots,
    timestamp=counters,
    state=st.dictionaries(keys, values, max_size=3).map(lambda state: tuple(state.items())),
    outcomes=st.lists(st.tuples(dot, outcomes), max_size=3).map(tuple),
)

MESSAGES: dict[type[Message], st.SearchStrategy[Message]] = {
    Cast: st.builds(Cast, request_tuples),
    Summary: st.builds(Summary, dots),
    Pull: st.builds(Pull, dots),
    PullResponse: st.builds(PullResponse, request_tuples),
    Heartbeat: st.builds(
        Heartbeat,
        ballots,
        st.none() | st.integers(0, 3),
        st.lists(st.integers(0, 3), unique=True).map(tuple),
    ),
    Prepare: st.builds(Prepare, ballots, counters),
    Promise: st.builds(Promise, ballots, counters, accepted_tuples),
    Accept: st.builds(Accept, ballots, counters, batches),
    Vote: st.builds(Vote, ballots, counters),
    FirstVote: st.builds(FirstVote, ballots, counters, batches),
    Reject: st.builds(Reject, ballots),
    Progress: st.builds(Progress, counters),
    CatchUp: st.builds(CatchUp, counters),
    Decisions: st.builds(Decisions, counters, st.lists(batches, max_size=3).map(tuple)),
    Snapshot: st.builds(Snapshot, checkpoints),
    RecoveryQuery: st.builds(RecoveryQuery, ballots),
    RecoveryResponse: st.builds(
        RecoveryResponse, ballots, ballots, st.booleans(), counters, accepted_tuples, dots
    ),
}

RECORDS: dict[type[Record], st.SearchStrategy[Record]] = {
    CheckpointRecord: st.builds(
        CheckpointRecord,
        checkpoints,
        ballots,
        accepted_tuples,
        st.lists(st.tuples(counters, batches), max_size=3).map(tuple),
        request_tuples,
    ),
    Received: st.builds(Received, requests),
    Promised: st.builds(Promised, ballots),
    Accepted: st.builds(Accepted, accepted_values),
    Decided: st.builds(Decided, counters, batches),
}

messages: st.SearchStrategy[Message] = st.one_of(*MESSAGES.values())
records: st.SearchStrategy[Record] = st.one_of(*RECORDS.values())
