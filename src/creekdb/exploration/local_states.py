"""Local states: the states of single replicas, numbered, and the steps between them.

A replica reacts to an input alone, without regard to the others. So each step of one replica is
computed once, although it is part of many states of the cluster. A local state is stored as the
inputs that lead to it. To take a step, a new replica repeats these inputs.
"""

import hashlib
from typing import Final, NamedTuple

from creekdb.errors import CreekError
from creekdb.execution.datatype import DataType
from creekdb.exploration.canonical import canonical_encoding
from creekdb.exploration.node import (
    ExploredNode,
    Input,
    PropertyViolated,
    Receive,
    Suspect,
    Sync,
    Tick,
    Witness,
)
from creekdb.exploration.scope import Scope
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import (
    Cast,
    Decided,
    FirstVote,
    Message,
    Progress,
    Promise,
    Reject,
    Vote,
    encode,
)
from creekdb.protocol.request import Batch
from creekdb.schemes.core.spec import Scheme

ELECTION_ROUNDS_MAX: Final = 20


STAYS_IGNORED: Final = (Cast, FirstVote, Promise, Progress, Reject, Vote)
"""Messages that a replica ignores for ever once it ignores them.

The replica has the request of a `Cast`, has received a ballot above that of a `Promise`, or leads
already. Or it has decided the instance of a `Vote`, or of a `FirstVote` of a follower. Only a crash
can undo any of this.
"""


class Envelope(NamedTuple):
    sender: int
    receiver: int
    message: int
    """Number of the message."""


class Observation(NamedTuple):
    """State of one replica, as far as the properties of the cluster depend on it."""

    first_position: int
    """Position of the first of `committed`. Earlier ones are truncated."""
    committed: tuple[Dot, ...]
    decided: dict[int, Batch]
    """Decisions among the records."""
    witness: Witness


class LocalState(NamedTuple):
    previous: int
    """Number of the state before the last input, or -1."""
    last_inputs: tuple[Input, ...]
    """Inputs since that state."""
    replica: int
    volatile_count: int
    running_count: int
    observation: int
    """Number of the observation."""


class LocalStep(NamedTuple):
    state: int
    sent: tuple[int, ...]
    """Numbers of the envelopes."""
    violation: str | None = None


class LocalStates:
    def __init__(self, scope: Scope, scheme: Scheme, datatype: DataType) -> None:
        self._scope = scope
        self._scheme = scheme
        self._datatype = datatype
        self.states: list[LocalState] = []
        self.observations: list[Observation] = []
        self.messages: list[Message] = []
        self.envelopes: list[Envelope] = []
        self._state_numbers: dict[bytes, int] = {}
        self._observation_numbers: dict[bytes, int] = {}
        self._message_numbers: dict[bytes, int] = {}
        self._envelope_numbers: dict[Envelope, int] = {}
        self._steps: dict[tuple[int, Input], LocalStep | None] = {}

    @property
    def step_count(self) -> int:
        return len(self._steps)

    def initial_states(self) -> tuple[int, ...]:
        """Return the states of a cluster whose replicas all trust replica 0, the leader."""
        members = range(self._scope.replicas)
        nodes = [self._new_node(each) for each in members]
        inputs: list[list[Input]] = [[] for _ in members]
        for _ in range(ELECTION_ROUNDS_MAX):
            in_flight: list[int] = []
            steps: list[tuple[int, Input]] = [(each, Tick()) for each in members]
            while steps:
                for replica, step in steps:
                    for each in (step, Sync()):
                        inputs[replica].append(each)
                        in_flight += self.post(nodes[replica], each)
                envelopes = [self.envelopes[each] for each in in_flight]
                steps = [(each.receiver, Receive(each.sender, each.message)) for each in envelopes]
                in_flight = []
            if all(each.replica.view.leader() == 0 and each.records for each in nodes):
                return tuple(
                    self._number_state(nodes[each], -1, tuple(inputs[each])) for each in members
                )
        raise CreekError("the replicas elect no leader in this scope")

    def step(self, state: int, step: Input) -> LocalStep | None:
        """Return the step with this input; None if it is impossible in the state."""
        key = (state, step)
        if key not in self._steps:
            self._steps[key] = self._take_step(state, step)
        return self._steps[key]

    def is_ignored_for_ever(self, state: int, envelope: int) -> bool:
        """True if the message changes nothing at its receiver in this or any later state, as long
        as the receiver does not crash."""
        sender, _, number = self.envelopes[envelope]
        message = self.messages[number]
        if not isinstance(message, STAYS_IGNORED):
            return False
        if isinstance(message, Vote | FirstVote) and not self._has_decided(state, message.instance):
            return False
        if isinstance(message, FirstVote) and message.ballot.replica == sender:
            return False  # it also opens a ballot
        return self.step(state, Receive(sender, number)) == LocalStep(state, ())

    def _has_decided(self, state: int, instance: int) -> bool:
        return instance in self.observations[self.states[state].observation].decided

    def rebuild(self, state: int) -> ExploredNode:
        """Return a new node in this state."""
        groups: list[tuple[Input, ...]] = []
        replica, number = self.states[state].replica, state
        while number >= 0:
            groups.append(self.states[number].last_inputs)
            number = self.states[number].previous
        node = self._new_node(replica)
        for group in reversed(groups):
            for each in group:
                node.apply(each, self.messages)
        return node

    def _new_node(self, replica: int) -> ExploredNode:
        return ExploredNode(replica, self._scope, self._scheme, self._datatype)

    def _take_step(self, state: int, step: Input) -> LocalStep | None:
        node = self.rebuild(state)
        if isinstance(step, Suspect) and node.suspected_member() is None:
            return None
        ballot = node.own_ballot()
        try:
            sent = tuple(self.post(node, step))
        except PropertyViolated as violation:
            return LocalStep(state, (), str(violation))
        except Exception as error:  # noqa: BLE001 - a replica must not fail on any input
            return LocalStep(state, (), f"the replica fails: {type(error).__name__}: {error}")
        if isinstance(step, Suspect) and node.own_ballot() == ballot:
            return None
        return LocalStep(self._number_state(node, state, (step,)), sent)

    def post(self, node: ExploredNode, step: Input) -> list[int]:
        """Apply an input to the node, and return the numbers of the envelopes that leave it."""
        return [
            self._number_envelope(node.index, to, each.message)
            for each in node.apply(step, self.messages)
            for to in each.to
        ]

    def _number_envelope(self, sender: int, receiver: int, message: Message) -> int:
        data = encode(message)
        number = self._message_numbers.setdefault(data, len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
        envelope = Envelope(sender, receiver, number)
        if envelope not in self._envelope_numbers:
            self._envelope_numbers[envelope] = len(self.envelopes)
            self.envelopes.append(envelope)
        return self._envelope_numbers[envelope]

    def _number_state(self, node: ExploredNode, previous: int, inputs: tuple[Input, ...]) -> int:
        key = _digest(node.index, *node.state_roots)
        if key not in self._state_numbers:
            self._state_numbers[key] = len(self.states)
            state = LocalState(
                previous,
                inputs,
                node.index,
                node.volatile_count,
                len(node.running),
                self.number_observation(node),
            )
            self.states.append(state)
        return self._state_numbers[key]

    def number_observation(self, node: ExploredNode) -> int:
        view = node.replica.view
        committed = view.committed_ids()
        decided = {each.instance: each.batch for each in node.records if type(each) is Decided}
        first_position = view.committed_length() - len(committed)
        observation = Observation(first_position, committed, decided, node.witness)
        key = _digest(*observation)
        if key not in self._observation_numbers:
            self._observation_numbers[key] = len(self.observations)
            self.observations.append(observation)
        return self._observation_numbers[key]


def _digest(*items: object) -> bytes:
    return hashlib.blake2b(canonical_encoding(*items), digest_size=20).digest()
