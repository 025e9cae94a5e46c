"""Convergence of a terminal state: time passes, all messages arrive, and no more faults happen.

Every call must then be committed once, at every replica, unless a crash lost it before it had a
response. All replicas must have the state that a sequential execution of the order gives.
"""

from collections.abc import Sequence
from typing import Final

from creekdb.checkers.replay import equal_exactly
from creekdb.execution.datatype import DataType
from creekdb.exploration.local_states import LocalStates
from creekdb.exploration.node import (
    Complete,
    ExploredNode,
    Input,
    PropertyViolated,
    Receive,
    Sync,
    Tick,
)
from creekdb.exploration.properties import Properties
from creekdb.exploration.scope import Scope
from creekdb.protocol.request import Request

ROUNDS_MAX: Final = 200
"""Upper bound for the ticks until the replicas have converged."""


class Convergence:
    def __init__(
        self, scope: Scope, datatype: DataType, states: LocalStates, properties: Properties
    ) -> None:
        self._scope = scope
        self._datatype = datatype
        self._states = states
        self._properties = properties

    def check(self, numbers: Sequence[int], precedence: frozenset[tuple[int, int]]) -> None:
        """Raise `PropertyViolated` if replicas in these local states do not converge."""
        nodes = [self._states.rebuild(each) for each in numbers]
        for _ in range(ROUNDS_MAX):
            self._pass_time(nodes)
            if self._has_converged(nodes):
                break
        else:
            texts = [
                f"replica {each.index} has {each.replica.view.committed_length()} committed and "
                f"{each.replica.view.tentative_length()} tentative requests"
                for each in nodes
            ]
            raise PropertyViolated(f"no convergence in {ROUNDS_MAX} ticks: {', '.join(texts)}")
        observations = [
            self._states.observations[self._states.number_observation(each)] for each in nodes
        ]
        self._properties.check(observations, precedence)
        self._check_calls(nodes)
        self._check_final_states(nodes)

    def _pass_time(self, nodes: list[ExploredNode]) -> None:
        """Let all replicas tick, and deliver all messages."""
        steps: list[tuple[int, Input]] = [(each.index, Tick()) for each in nodes]
        while steps:
            in_flight: list[int] = []
            for replica, step in steps:
                in_flight += self._post(nodes[replica], step)
            envelopes = [self._states.envelopes[each] for each in in_flight]
            steps = [(each.receiver, Receive(each.sender, each.message)) for each in envelopes]

    def _post(self, node: ExploredNode, step: Input) -> list[int]:
        """Apply an input, complete its executions and make its records durable."""
        sent = self._states.post(node, step)
        while node.running:
            sent += self._states.post(node, Complete(0))
        return sent + self._states.post(node, Sync())

    def _has_converged(self, nodes: list[ExploredNode]) -> bool:
        views = [each.replica.view for each in nodes]
        return len({each.committed_length() for each in views}) == 1 and all(
            not each.tentative_length() and each.is_idle() for each in views
        )

    def _check_calls(self, nodes: list[ExploredNode]) -> None:
        committed = set(nodes[0].replica.view.committed_ids())
        for node in nodes:
            for call, id in node.witness.issued.items():
                responses = node.witness.responses.get(call, ())
                if (responses or call in node.live_calls) and id.event > 0 and id not in committed:
                    raise PropertyViolated(f"{id} is lost, the request of call {call}")
                if call in node.live_calls and not responses:
                    raise PropertyViolated(f"{id}, the request of call {call}, has no response")
                is_strong = self._scope.calls[call].strong
                if is_strong and call in node.live_calls and not node.witness.has_stable(call):
                    raise PropertyViolated(f"the strong request {id} has no stable response")

    def _check_final_states(self, nodes: list[ExploredNode]) -> None:
        for node in nodes:
            view = node.replica.view
            requests: tuple[Request, ...] = view.last_committed(view.committed_length())
            if len(requests) < view.committed_length():
                continue  # a checkpoint replaced the beginning
            machine = self._datatype.sequential()
            for request in requests:
                machine.apply(request)
            if not equal_exactly(dict(view.state()), machine.changes()):
                raise PropertyViolated(
                    f"replica {node.index} ends with another state than a sequential execution"
                )
