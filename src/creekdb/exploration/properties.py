"""Safety properties of a state of the cluster, judged by the outputs of the replicas.

The votes that were sent or are durable determine which batches are chosen. The chosen batches and
the requests that were sent determine the final order, by lines 48-52 of Algorithm 1. Weak requests
that a batch names extend the context of the next strong one. Everything else is compared with this
order:

- no instance has two chosen or decided batches;
- the committed order of each replica agrees with it, position by position;
- a stable or final response belongs to a request in it, and is that of a sequential execution;
- a weak request precedes all later requests of its replica;
- a strong call precedes every strong call that was made after its stable response.

`creekdb.exploration.node` checks the properties of single steps.
"""

from collections import defaultdict
from collections.abc import Sequence

from creekdb.checkers.quorums import decides
from creekdb.checkers.replay import equal_outcomes
from creekdb.execution.datatype import DataType
from creekdb.exploration.local_states import Observation
from creekdb.exploration.node import PropertyViolated, replay
from creekdb.exploration.scope import Scope
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Ballot
from creekdb.protocol.request import Batch, Outcome, Request


class Properties:
    def __init__(self, scope: Scope, datatype: DataType) -> None:
        self._scope = scope
        self._datatype = datatype
        self._voters = tuple(range(scope.replicas))

    def check(
        self, observations: Sequence[Observation], precedence: frozenset[tuple[int, int]]
    ) -> None:
        """Raise `PropertyViolated` if the state violates a property.

        `precedence`: pairs of calls, of which the first had its stable response before the second
        was made.
        """
        chosen = self._chosen_batches(observations)
        for replica, each in enumerate(observations):
            for instance, batch in each.decided.items():
                if chosen.setdefault(instance, batch) != batch:
                    raise PropertyViolated(
                        f"instance {instance} is decided as {_ids_text(batch)} at replica "
                        f"{replica}, and as {_ids_text(chosen[instance])} elsewhere"
                    )
        requests = _sent_requests(observations)
        order = _final_order(self._chosen_batches(observations), requests)
        _check_committed(observations, [request.id for request in order])
        positions = {request.id: position for position, request in enumerate(order)}
        _check_replica_order(order, requests)
        self._check_responses(observations, positions, replay(order, self._datatype))
        self._check_real_time(observations, positions, precedence)

    def _chosen_batches(self, observations: Sequence[Observation]) -> dict[int, Batch]:
        """Return the batch of each instance that the votes in one ballot have decided."""
        voters: defaultdict[tuple[int, Ballot], set[int]] = defaultdict(set)
        first_voters: defaultdict[tuple[int, Ballot, Batch], set[int]] = defaultdict(set)
        proposals: dict[tuple[int, Ballot], Batch] = {}
        for replica, each in enumerate(observations):
            for proposal, batch in each.witness.proposals.items():
                if proposals.setdefault(proposal, batch) != batch:
                    raise PropertyViolated(f"two batches were proposed in {_ballot_text(proposal)}")
            for vote in each.witness.votes:
                voters[vote].add(replica)
            for first_vote in each.witness.first_votes:
                first_voters[first_vote].add(replica)
        chosen: dict[int, Batch] = {}
        for vote in sorted(voters):
            if vote not in proposals:
                raise PropertyViolated(f"vote without a proposal in {_ballot_text(vote)}")
            (instance, ballot), batch = vote, proposals[vote]
            first = first_voters[instance, ballot, batch]
            is_decided = decides(self._voters, ballot, voters[vote], first)
            if is_decided and chosen.setdefault(instance, batch) != batch:
                raise PropertyViolated(
                    f"instance {instance} has two chosen batches, {_ids_text(batch)} in ballot "
                    f"{ballot} and {_ids_text(chosen[instance])} in an earlier one"
                )
        return chosen

    def _check_responses(
        self,
        observations: Sequence[Observation],
        positions: dict[Dot, int],
        outcomes: list[Outcome],
    ) -> None:
        for each in observations:
            for call, responses in each.witness.responses.items():
                id = each.witness.issued[call]
                for response in responses:
                    if response.kind is ResponseKind.TENTATIVE:
                        continue
                    if id not in positions:
                        raise PropertyViolated(
                            f"the {response.kind.value} response to {id} was sent, but its "
                            "position is not decided"
                        )
                    expected = outcomes[positions[id]]
                    if not equal_outcomes(response.outcome, expected):
                        raise PropertyViolated(
                            f"the {response.kind.value} response to {id} is "
                            f"{response.outcome.value!r}, but a sequential execution of the "
                            f"decided order gives {expected.value!r}"
                        )
                    first = responses[0]
                    if response.kind is ResponseKind.FINAL and response.changed == equal_outcomes(
                        first.outcome, response.outcome
                    ):
                        raise PropertyViolated(f"the final response to {id} is marked wrongly")

    def _check_real_time(
        self,
        observations: Sequence[Observation],
        positions: dict[Dot, int],
        precedence: frozenset[tuple[int, int]],
    ) -> None:
        issued = {call: id for each in observations for call, id in each.witness.issued.items()}
        for earlier, later in precedence:
            if issued[later] not in positions:
                continue
            position = positions.get(issued[earlier])
            if position is None or position > positions[issued[later]]:
                raise PropertyViolated(
                    f"{issued[later]} precedes {issued[earlier]}, whose stable response was sent "
                    "before the later call"
                )


def _sent_requests(observations: Sequence[Observation]) -> dict[Dot, Request]:
    requests: dict[Dot, Request] = {}
    for each in observations:
        for id, request in each.witness.requests.items():
            if requests.setdefault(id, request) != request:
                raise PropertyViolated(f"two requests have the identifier {id}")
    return requests


def _final_order(chosen: dict[int, Batch], requests: dict[Dot, Request]) -> list[Request]:
    """Return the order that lines 48-52 give for the decided instances up to the first gap."""
    order: dict[Dot, Request] = {}
    instance = 0
    while instance in chosen:
        cut: list[Request] = []
        for id in chosen[instance]:
            if id in order:
                continue  # decided twice: the first decision counts
            if id not in requests:
                raise PropertyViolated(f"the decided request {id} was never sent")
            request = requests[id]
            context = request.context
            if context is None:
                cut += [each for each in _weak_up_to(id, requests) if each not in cut]
                continue
            missing = [each for each in context if each not in requests]
            if missing:
                raise PropertyViolated(f"{missing[0]}, in the context of {id}, was never sent")
            later = [each.id for each in cut if each.key > request.key]
            if later:
                raise PropertyViolated(f"{later[0]}, in the cut of {id}, is later")
            extension = [requests[each] for each in context if each not in order]
            extension += [each for each in cut if each.id not in {*order, *context}]
            for each in sorted(extension, key=lambda each: each.key):
                if each.strong:
                    raise PropertyViolated(f"{id} precedes {each.id} of its causal context")
                order[each.id] = each
            order[id] = request
        instance += 1
    return list(order.values())


def _weak_up_to(id: Dot, requests: dict[Dot, Request]) -> list[Request]:
    """Return the weak requests of an origin up to an event."""
    missing = [Dot(id.replica, event) for event in range(1, id.event)]
    missing = [each for each in missing if each not in requests]
    if missing:
        raise PropertyViolated(f"{missing[0]}, in a cut up to {id}, was never sent")
    return [
        each
        for each in requests.values()
        if each.id.replica == id.replica and each.id.event <= id.event and not each.strong
    ]


def _check_committed(observations: Sequence[Observation], decided: list[Dot]) -> None:
    expected = dict(enumerate(decided))
    for replica, each in enumerate(observations):
        if len(set(each.committed)) < len(each.committed):
            raise PropertyViolated(f"replica {replica} committed a request twice")
        for position, id in enumerate(each.committed, each.first_position):
            if expected.setdefault(position, id) != id:
                raise PropertyViolated(
                    f"replica {replica} has {id} at position {position} of committed, "
                    f"where others have {expected[position]}"
                )


def _check_replica_order(order: list[Request], requests: dict[Dot, Request]) -> None:
    """Check that each weak request precedes all later ones of its replica."""
    preceding: set[Dot] = set()
    for request in order:
        replica, event = request.id
        for id, other in requests.items():
            is_earlier = id.replica == replica and id.event < event
            if is_earlier and not other.strong and id not in preceding:
                raise PropertyViolated(f"{request.id} precedes the weak {id} of its replica")
        preceding.add(request.id)


def _ballot_text(proposal: tuple[int, Ballot]) -> str:
    return f"instance {proposal[0]}, ballot {proposal[1]}"


def _ids_text(batch: Batch) -> str:
    return f"({', '.join(map(str, batch))})"
