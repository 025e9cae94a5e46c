"""Strategies for messages that no correct member of a cluster of three sends."""

from typing import Any

from hypothesis import strategies as st

from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import (
    Accept,
    AcceptedValue,
    Ballot,
    Cast,
    CatchUp,
    Checkpoint,
    Decisions,
    Heartbeat,
    Message,
    Prepare,
    Progress,
    Promise,
    Pull,
    PullResponse,
    Reject,
    Snapshot,
    Summary,
    Vote,
)
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.validation import COUNTER_LIMIT

non_members = st.sampled_from((3, 4, 99, -1, 2**62))
"""Replica numbers outside the membership."""
too_large = st.integers(COUNTER_LIMIT, 2**64 - 1)
negative = st.integers(-(2**63), -1)
out_of_range = too_large | negative
counters = st.integers(0, 30)
members = st.integers(0, 2)

ids = st.builds(Dot, members, st.integers(1, 40))
batches = st.lists(ids, unique=True, max_size=3).map(tuple)
invalid_ids = (
    st.builds(Dot, non_members, counters)
    | st.builds(Dot, members, st.integers(-5, 0))
    | st.builds(Dot, members, too_large)
)
invalid_ranges = (
    st.just(())
    | st.lists(counters, min_size=1, max_size=5).filter(lambda each: len(each) % 2 == 1)
    | st.tuples(st.integers(-5, 0), counters)
    | st.tuples(counters, counters).filter(lambda each: each[0] >= each[1])
    | st.tuples(st.integers(1, 5), too_large)
    | st.just((1, 4, 3, 9))
).map(tuple)
invalid_dots = st.builds(
    lambda replica, ranges: Dots({replica: ranges}), members, invalid_ranges
) | (st.builds(lambda replica: Dots({0: (1, 2), replica: (1, 2)}), non_members))
ballots = st.builds(Ballot, st.integers(1, 9), members)
invalid_ballots = (
    st.builds(Ballot, st.integers(1, 9), non_members)
    | st.builds(Ballot, out_of_range, members)
    | st.just(Ballot(0, 1))
)
invalid_batches = st.builds(lambda id, batch: (*batch, id), invalid_ids, batches) | st.builds(
    lambda id, batch: (id, *batch, id), ids, batches
)


def request(
    id: Dot, timestamp: int = 1, strong: bool = False, context: Dots | None = None
) -> Request:
    return Request(timestamp, id, Operation("put", ("a", 1)), strong, context)


def request_with_own_future(id: Dot, ahead: int) -> Request:
    return request(id, strong=True, context=Dots({id.replica: (1, id.event + 1 + ahead)}))


invalid_requests = (
    st.builds(request, invalid_ids)
    | st.builds(request, ids, out_of_range)
    | st.builds(lambda id: request(id, strong=True), ids)
    | st.builds(lambda id: request(id, context=Dots()), ids)
    | st.builds(lambda id, dots: request(id, strong=True, context=dots), ids, invalid_dots)
    | st.builds(request_with_own_future, ids, st.integers(0, 3))
)


def invalid_checkpoint(
    instance: int = 10**6,
    length: int = 30,
    ids: Dots = Dots({0: (1, 11), 1: (1, 11), 2: (1, 11)}),  # noqa: B008 - immutable
    timestamp: int = 1,
    outcomes: tuple[tuple[Dot, Outcome], ...] = (),
) -> Snapshot:
    return Snapshot(Checkpoint(instance, length, ids, timestamp, (), outcomes))


invalid_snapshots = (
    st.builds(invalid_checkpoint, instance=out_of_range)
    | st.builds(invalid_checkpoint, length=st.integers(0, 29) | st.integers(31, 99) | negative)
    | st.builds(invalid_checkpoint, ids=invalid_dots)
    | st.builds(invalid_checkpoint, timestamp=out_of_range)
    | st.builds(
        invalid_checkpoint,
        outcomes=st.builds(lambda id: ((id, Outcome(1)),), st.builds(Dot, members, st.just(11))),
    )
)


def contradicting_promise(ballot: Ballot, decided: int, kind: int, batch: Any) -> Promise:
    later = Ballot(ballot.round + 1, 0)
    valid = AcceptedValue(decided + 1, ballot, batch)
    invalid: AcceptedValue = [
        valid,
        AcceptedValue(decided - 1, ballot, batch),
        AcceptedValue(decided + 2, later, batch),
        AcceptedValue(decided + 8 * 4, ballot, batch),
        AcceptedValue(decided + 2**61, ballot, batch),
        AcceptedValue(decided, NO_BALLOT, batch),
    ][kind]
    return Promise(ballot, decided, (valid, invalid))


invalid_promises = (
    st.builds(contradicting_promise, ballots, st.integers(1, 30), st.integers(0, 5), batches)
    | st.builds(Promise, invalid_ballots, counters, st.just(()))
    | st.builds(Promise, ballots, out_of_range, st.just(()))
    | st.builds(
        lambda ballot, at, batch: Promise(ballot, at, (AcceptedValue(at, ballot, batch),)),
        ballots,
        counters,
        invalid_batches,
    )
)


def invalid_messages_from(sender: int) -> st.SearchStrategy[Message]:
    """Return a strategy for messages that the member `sender` never sends."""
    other = st.sampled_from([each for each in range(3) if each != sender])
    foreign = st.builds(Ballot, st.integers(1, 9), other)
    owned = st.builds(Ballot, st.integers(1, 9), st.just(sender))
    invalid: list[st.SearchStrategy[Message]] = [
        st.builds(lambda each: Cast((each,)), invalid_requests),
        st.builds(lambda replica: Cast((request(Dot(replica, 1)),)), other),
        st.builds(lambda each: PullResponse((each,)), invalid_requests),
        st.builds(Summary, invalid_dots),
        st.builds(Pull, invalid_dots),
        st.builds(Heartbeat, invalid_ballots, members, st.just((0, 1, 2))),
        st.builds(Heartbeat, ballots, non_members, st.just((0, 1, 2))),
        st.builds(lambda ballot, each: Heartbeat(ballot, 0, (0, each)), ballots, non_members),
        st.builds(lambda ballot, each: Heartbeat(ballot, 0, (each, each)), ballots, members),
        st.builds(Prepare, foreign | invalid_ballots, counters),
        st.builds(Prepare, owned, out_of_range),
        st.builds(Accept, foreign | invalid_ballots, counters, batches),
        st.builds(Accept, owned, out_of_range, batches),
        st.builds(Accept, owned, counters, invalid_batches),
        invalid_promises,
        st.builds(Vote, invalid_ballots, counters),
        st.builds(Vote, ballots, out_of_range),
        st.builds(Reject, invalid_ballots | st.just(NO_BALLOT)),
        st.builds(Progress, out_of_range),
        st.builds(CatchUp, out_of_range),
        st.builds(Decisions, out_of_range, st.lists(batches, max_size=2).map(tuple)),
        st.builds(lambda first, batch: Decisions(first, ((), batch)), counters, invalid_batches),
        invalid_snapshots,
    ]
    return st.one_of(invalid)
