"""Each safety property, on observations that violate only that property."""

from collections.abc import Iterable

import pytest

from creekdb.datatypes.lists import LIST
from creekdb.exploration.local_states import Observation
from creekdb.exploration.node import PropertyViolated, Witness
from creekdb.exploration.properties import Properties
from creekdb.exploration.scope import get_scope
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.dot import Dot, Dots
from creekdb.protocol.messages import Ballot
from creekdb.protocol.request import Batch, Operation, Outcome, Request

BALLOT, LATER = Ballot(1, 0), Ballot(2, 1)


def append(timestamp: int, replica: int, event: int, *context: Dot, strong: bool = True) -> Request:
    operation = Operation("append", (f"{replica}.{event}",))
    dots = (
        Dots({each.replica: (each.event, each.event + 1) for each in context}) if strong else None
    )
    return Request(timestamp, Dot(replica, event), operation, strong, dots)


WEAK = append(1, 1, 1, strong=False)
STRONG = append(2, 2, 1, WEAK.id)
OTHER = append(3, 0, 1)


class Cluster:
    """Observations of three replicas, two of which voted for the batches of one ballot."""

    def __init__(
        self, *batches: Batch, requests: Iterable[Request] = (WEAK, STRONG, OTHER)
    ) -> None:
        self.witnesses = [Witness() for _ in range(3)]
        self.committed: list[tuple[Dot, ...]] = [()] * 3
        self.decided: list[dict[int, Batch]] = [{} for _ in range(3)]
        for request in requests:
            self.witnesses[0].requests[request.id] = request
        for voter in (0, 1):
            self.vote(voter, BALLOT, *batches)

    def vote(self, voter: int, ballot: Ballot, *batches: Batch) -> None:
        for instance, batch in enumerate(batches):
            self.witnesses[voter].proposals[instance, ballot] = batch
            self.witnesses[voter].votes.add((instance, ballot))

    def respond(self, request: Request, *responses: tuple[ResponseKind, int, bool]) -> None:
        """Send responses with these kinds, values and marks to call 0."""
        witness = self.witnesses[2]
        witness.issued[0] = request.id
        witness.responses[0] = [
            Response(request.id, 0, kind, Outcome(value), changed)
            for kind, value, changed in responses
        ]

    def check(self, *precedence: tuple[int, int]) -> None:
        observations = [
            Observation(0, *each)
            for each in zip(self.committed, self.decided, self.witnesses, strict=True)
        ]
        Properties(get_scope("smallest"), LIST).check(observations, frozenset(precedence))


STABLE = (ResponseKind.STABLE, 2, False)


def test_a_correct_cluster_violates_nothing() -> None:
    cluster = Cluster((STRONG.id,), (OTHER.id,))
    cluster.committed = [(WEAK.id, STRONG.id, OTHER.id), (WEAK.id, STRONG.id), ()]
    cluster.decided[0] = {0: (STRONG.id,)}
    cluster.respond(STRONG, (ResponseKind.TENTATIVE, 7, False), STABLE)
    cluster.witnesses[0].issued[1] = OTHER.id

    cluster.check((0, 1))


def test_an_instance_has_one_chosen_batch() -> None:
    cluster = Cluster((STRONG.id,))
    for voter in (1, 2):
        cluster.vote(voter, LATER, (OTHER.id,))

    with pytest.raises(PropertyViolated, match="instance 0 has two chosen batches"):
        cluster.check()


def test_a_decision_is_the_chosen_batch() -> None:
    cluster = Cluster((STRONG.id,))
    cluster.decided[2] = {0: (OTHER.id,)}

    with pytest.raises(PropertyViolated, match="instance 0 is decided as"):
        cluster.check()


def test_committed_orders_agree_with_the_decisions() -> None:
    cluster = Cluster((STRONG.id,))
    cluster.committed[2] = (STRONG.id, WEAK.id)

    with pytest.raises(PropertyViolated, match=r"replica 2 has .* at position 0 of committed"):
        cluster.check()


def test_a_request_is_committed_once() -> None:
    cluster = Cluster((STRONG.id,))
    cluster.committed[2] = (WEAK.id, STRONG.id, WEAK.id)

    with pytest.raises(PropertyViolated, match="replica 2 committed a request twice"):
        cluster.check()


@pytest.mark.parametrize("voters", [(), (0,)])
def test_a_stable_response_needs_a_majority(voters: tuple[int, ...]) -> None:
    cluster = Cluster()
    for voter in voters:
        cluster.vote(voter, BALLOT, (STRONG.id,))
    cluster.respond(STRONG, STABLE)

    with pytest.raises(PropertyViolated, match="its position is not decided"):
        cluster.check()


def test_a_stable_response_is_that_of_a_sequential_execution() -> None:
    cluster = Cluster((STRONG.id,))
    cluster.respond(STRONG, (ResponseKind.STABLE, 1, False))

    with pytest.raises(PropertyViolated, match=r"is 1, but a sequential execution .* gives 2"):
        cluster.check()


@pytest.mark.parametrize(("tentative", "changed"), [(1, True), (5, False)])
def test_a_final_response_is_marked_if_it_differs(tentative: int, changed: bool) -> None:
    responses = (ResponseKind.TENTATIVE, tentative, False), (ResponseKind.FINAL, 1, changed)
    cluster = Cluster((STRONG.id,))
    cluster.respond(WEAK, *responses)

    with pytest.raises(PropertyViolated, match=r"the final response to .* is marked wrongly"):
        cluster.check()


def test_strong_calls_follow_those_that_ended_before() -> None:
    cluster = Cluster((STRONG.id,), (OTHER.id,))
    cluster.witnesses[2].issued = {0: STRONG.id, 1: OTHER.id}

    with pytest.raises(PropertyViolated, match="whose stable response was sent before"):
        cluster.check((1, 0))


def test_an_identifier_names_one_request() -> None:
    cluster = Cluster()
    cluster.witnesses[1].requests[WEAK.id] = append(9, 1, 1, strong=False)

    with pytest.raises(PropertyViolated, match="two requests have the identifier"):
        cluster.check()


def test_a_strong_request_follows_its_context() -> None:
    early = append(5, 0, 2, STRONG.id)
    cluster = Cluster((early.id,), requests=(WEAK, STRONG, early))

    with pytest.raises(PropertyViolated, match="of its causal context"):
        cluster.check()


def test_a_weak_request_precedes_later_ones_of_its_replica() -> None:
    later = append(5, 1, 2)
    cluster = Cluster((later.id,), requests=(WEAK, later))

    with pytest.raises(PropertyViolated, match=r"precedes the weak .* of its replica"):
        cluster.check()
