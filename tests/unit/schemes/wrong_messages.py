"""Messages that no correct member of a cluster of three sends, for property tests to draw from."""

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

outside = st.sampled_from((3, 4, 99, -1, 2**62))
"""Not a member."""
too_large = st.integers(COUNTER_LIMIT, 2**64 - 1)
negative = st.integers(-(2**63), -1)
out_of_range = too_large | negative
counters = st.integers(0, 30)
members = st.integers(0, 2)

ids = st.builds(Dot, members, st.integers(1, 40))
batches = st.lists(ids, unique=True, max_size=3).map(tuple)
wrong_ids = (
    st.builds(Dot, outside, counters)
    | st.builds(Dot, members, st.integers(-5, 0))
    | st.builds(Dot, members, too_large)
)
wrong_ranges = (
    st.just(())
    | st.lists(counters, min_size=1, max_size=5).filter(lambda each: len(each) % 2 == 1)
    | st.tuples(st.integers(-5, 0), counters)
    | st.tuples(counters, counters).filter(lambda each: each[0] >= each[1])
    | st.tuples(st.integers(1, 5), too_large)
    | st.just((1, 4, 3, 9))
).map(tuple)
wrong_dots = st.builds(lambda replica, ranges: Dots({replica: ranges}), members, wrong_ranges) | (
    st.builds(lambda replica: Dots({0: (1, 2), replica: (1, 2)}), outside)
)
ballots = st.builds(Ballot, st.integers(1, 9), members)
wrong_ballots = (
    st.builds(Ballot, st.integers(1, 9), outside)
    | st.builds(Ballot, out_of_range, members)
    | st.just(Ballot(0, 1))
)
wrong_batches = st.builds(lambda id, batch: (*batch, id), wrong_ids, batches) | st.builds(
    lambda id, batch: (id, *batch, id), ids, batches
)


def request(
    id: Dot, timestamp: int = 1, strong: bool = False, context: Dots | None = None
) -> Request:
    return Request(timestamp, id, Operation("put", ("a", 1)), strong, context)


def own_future(id: Dot, reach: int) -> Request:
    return request(id, strong=True, context=Dots({id.replica: (1, id.event + 1 + reach)}))


wrong_requests = (
    st.builds(request, wrong_ids)
    | st.builds(request, ids, out_of_range)
    | st.builds(lambda id: request(id, strong=True), ids)
    | st.builds(lambda id: request(id, context=Dots()), ids)
    | st.builds(lambda id, dots: request(id, strong=True, context=dots), ids, wrong_dots)
    | st.builds(own_future, ids, st.integers(0, 3))
)


def wrong_checkpoint(
    instance: int = 10**6,
    length: int = 30,
    ids: Dots = Dots({0: (1, 11), 1: (1, 11), 2: (1, 11)}),  # noqa: B008 - immutable
    timestamp: int = 1,
    outcomes: tuple[tuple[Dot, Outcome], ...] = (),
) -> Snapshot:
    return Snapshot(Checkpoint(instance, length, ids, timestamp, (), outcomes))


wrong_snapshots = (
    st.builds(wrong_checkpoint, instance=out_of_range)
    | st.builds(wrong_checkpoint, length=st.integers(0, 29) | st.integers(31, 99) | negative)
    | st.builds(wrong_checkpoint, ids=wrong_dots)
    | st.builds(wrong_checkpoint, timestamp=out_of_range)
    | st.builds(
        wrong_checkpoint,
        outcomes=st.builds(lambda id: ((id, Outcome(1)),), st.builds(Dot, members, st.just(11))),
    )
)


def contradicting_promise(ballot: Ballot, decided: int, kind: int, batch: Any) -> Promise:
    above = Ballot(ballot.round + 1, 0)
    fine = AcceptedValue(decided + 1, ballot, batch)
    wrong: AcceptedValue = [
        fine,
        AcceptedValue(decided - 1, ballot, batch),
        AcceptedValue(decided + 2, above, batch),
        AcceptedValue(decided + 8 * 4, ballot, batch),
        AcceptedValue(decided + 2**61, ballot, batch),
        AcceptedValue(decided, NO_BALLOT, batch),
    ][kind]
    return Promise(ballot, decided, (fine, wrong))


wrong_promises = (
    st.builds(contradicting_promise, ballots, st.integers(1, 30), st.integers(0, 5), batches)
    | st.builds(Promise, wrong_ballots, counters, st.just(()))
    | st.builds(Promise, ballots, out_of_range, st.just(()))
    | st.builds(
        lambda ballot, at, batch: Promise(ballot, at, (AcceptedValue(at, ballot, batch),)),
        ballots,
        counters,
        wrong_batches,
    )
)


def wrong_from(sender: int) -> st.SearchStrategy[Message]:
    """Messages that this member never sends."""
    other = st.sampled_from([each for each in range(3) if each != sender])
    foreign = st.builds(Ballot, st.integers(1, 9), other)
    owned = st.builds(Ballot, st.integers(1, 9), st.just(sender))
    wrong: list[st.SearchStrategy[Message]] = [
        st.builds(lambda each: Cast((each,)), wrong_requests),
        st.builds(lambda replica: Cast((request(Dot(replica, 1)),)), other),
        st.builds(lambda each: PullResponse((each,)), wrong_requests),
        st.builds(Summary, wrong_dots),
        st.builds(Pull, wrong_dots),
        st.builds(Heartbeat, wrong_ballots, members, st.just((0, 1, 2))),
        st.builds(Heartbeat, ballots, outside, st.just((0, 1, 2))),
        st.builds(lambda ballot, each: Heartbeat(ballot, 0, (0, each)), ballots, outside),
        st.builds(lambda ballot, each: Heartbeat(ballot, 0, (each, each)), ballots, members),
        st.builds(Prepare, foreign | wrong_ballots, counters),
        st.builds(Prepare, owned, out_of_range),
        st.builds(Accept, foreign | wrong_ballots, counters, batches),
        st.builds(Accept, owned, out_of_range, batches),
        st.builds(Accept, owned, counters, wrong_batches),
        wrong_promises,
        st.builds(Vote, wrong_ballots, counters),
        st.builds(Vote, ballots, out_of_range),
        st.builds(Reject, wrong_ballots | st.just(NO_BALLOT)),
        st.builds(Progress, out_of_range),
        st.builds(CatchUp, out_of_range),
        st.builds(Decisions, out_of_range, st.lists(batches, max_size=2).map(tuple)),
        st.builds(lambda first, batch: Decisions(first, ((), batch)), counters, wrong_batches),
        wrong_snapshots,
    ]
    return st.one_of(wrong)
