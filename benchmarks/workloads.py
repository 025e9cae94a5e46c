"""Requests, and replicas in the state to measure.

Request number i of a replica is its event i. Timestamps leave gaps for late requests. Nothing here
is timed.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from creekdb.datatypes.counter import COUNTER
from creekdb.protocol.effects import Task
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Accept, Ballot, Cast, Vote
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.core.replica import Replica

ME, WEAK, STRONG = 0, 1, 2
"""The measured replica and its peers: one issues weak requests, the other strong ones."""
SETTINGS = Settings(members=(ME, WEAK, STRONG))
BALLOT = Ballot(1, STRONG)
GAP_US = 10
INCREMENT = Operation("increment", (1,))
CAST_SIZE = 100
SCATTER = 7919
"""A prime: its multiples modulo the length reach every position."""


def weak(event: int, timestamp: int) -> Request:
    return Request(timestamp, Dot(WEAK, event), INCREMENT, False)


def strong(event: int, timestamp: int, weak_before: int) -> Request:
    """Return a strong request whose causal context is the first `weak_before` weak ones."""
    context = Dots({WEAK: (1, weak_before + 1)} if weak_before else {})
    return Request(timestamp, Dot(STRONG, event), INCREMENT, True, context)


def weak_requests(count: int, start: int = 0) -> list[Request]:
    return [weak(event, event * GAP_US) for event in range(start + 1, start + count + 1)]


def mixed_requests(weak_per_strong: int) -> Iterator[Request]:
    """Yield endlessly: weak requests, then a strong one with all of them as its causal context."""
    timestamp = weak_events = strong_events = 0
    while True:
        for _ in range(weak_per_strong):
            weak_events, timestamp = weak_events + 1, timestamp + GAP_US
            yield weak(weak_events, timestamp)
        strong_events, timestamp = strong_events + 1, timestamp + GAP_US
        yield strong(strong_events, timestamp, weak_events)


def late_requests(count: int, first: int, last: int, scattered: bool = True) -> list[Request]:
    """Return weak requests of the replica `STRONG`, positioned between the weak requests number
    `first` and `last`: scattered, or in order, as after the healing of a partition."""
    positions = last - first
    return [
        Request(
            (first + (number * SCATTER % positions if scattered else number * positions // count))
            * GAP_US
            + GAP_US // 2,
            Dot(STRONG, number + 1),
            INCREMENT,
            False,
        )
        for number in range(count)
    ]


# --- a replica and its inputs -----------------------------------------------------------------


def new_replica() -> BasicReplica:
    return BasicReplica(ME, SETTINGS, COUNTER)


def deliver(replica: Replica, requests: Iterable[Request]) -> None:
    """RB-deliver requests in few messages, without running the resulting tasks."""
    remaining = iter(requests)
    while batch := tuple(islice(remaining, CAST_SIZE)):
        for sender in (WEAK, STRONG):
            own_requests = tuple(each for each in batch if each.id.replica == sender)
            if own_requests:
                replica.receive(Cast(own_requests), sender, 0)


def execute(replica: Replica) -> int:
    """Run tasks until none is left; return their number."""
    count = 0
    while tasks := replica.take_effects().tasks:
        for task in tasks:
            run(replica, task)
            count += 1
    return count


def run(replica: Replica, task: Task) -> None:
    replica.completed(task, replica.run(task), 0)


def decide(replica: Replica, instance: int, id: Dot) -> None:
    """CAB-deliver one identifier: by the leader's proposal and vote, and the replica's own vote."""
    replica.receive(Accept(BALLOT, instance, (id,)), STRONG, 0)
    replica.receive(Vote(BALLOT, instance), STRONG, 0)


def executed_replica(requests: Iterable[Request]) -> BasicReplica:
    """Return a replica that has delivered and executed `requests`, all of them tentative."""
    replica = new_replica()
    catch_up(replica, requests)
    return replica


def catch_up(replica: Replica, requests: Iterable[Request]) -> None:
    """Deliver and execute in batches. The requests of two peers arrive in order, so that none is
    rolled back."""
    remaining = iter(requests)
    while batch := tuple(islice(remaining, CAST_SIZE)):
        deliver(replica, batch)
        execute(replica)
