"""Search of all states of a cluster within a scope.

A state of the cluster is a tuple of numbers: the local state of each replica, the calls made, the
remaining faults, and the messages in flight. These tuples are compared as a whole.

Reductions, all of which keep every violation reachable:

- Steps of different replicas commute. Their orders lead to the same state, which is visited once.
- Messages in flight are a multiset, or a sequence per link with `fifo` links. The order in which
  different replicas sent them is not part of the state.
- A replica that cannot crash any more has durable records at once. A slow disk would only delay its
  outputs, and each delay of a message is a state anyway.
- A message that its receiver ignores from now on is removed (`LocalStates.is_ignored_for_ever`).
- A crash includes the restart. A replica that is down takes no step, and neither does one that
  receives nothing.

Replica numbers break ties between ballots and timestamps, so permuted replicas are not equivalent.
"""

import enum
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Final, NamedTuple

import msgspec

from creekdb.datatypes import get_datatype
from creekdb.errors import UsageError
from creekdb.exploration.convergence import Convergence
from creekdb.exploration.local_states import LocalStates, LocalStep, Observation
from creekdb.exploration.node import (
    Complete,
    Crash,
    Input,
    Invoke,
    PropertyViolated,
    Receive,
    Suspect,
    Sync,
    Tick,
    input_text,
)
from creekdb.exploration.properties import Properties
from creekdb.exploration.scope import CALLS_MAX, Scope
from creekdb.exploration.text import message_text, response_text
from creekdb.protocol.messages import encode
from creekdb.schemes.core.spec import SchemeSpec

NONE_ISOLATED: Final = 0xFFFF
PROGRESS_EVERY: Final = 2_000
"""Number of states between two reports of the progress."""
WALK_STEPS_MAX: Final = 400


class ClusterState(NamedTuple):
    """State of the cluster. All numbers are unsigned."""

    replicas: tuple[int, ...]
    """Local states."""
    calls_made: int
    """Bit per call."""
    precedence: int
    """Bit per pair of calls: the first had its stable response before the second was made."""
    crashes: int
    """Remaining crashes. The next fields count other remaining steps."""
    leader_changes: int
    losses: int
    duplicates: int
    partitions: int
    ticks: int
    isolated: int
    """Isolated replica, or NONE_ISOLATED."""
    in_flight: tuple[int, ...]
    """Envelopes: sorted by number, or by link and in the order of sending."""

    def key(self) -> bytes:
        return array("I", (*self[0], *self[1:-1], *self[-1])).tobytes()


class ActKind(enum.Enum):
    INPUT = "input"
    DELIVERY = "delivery"
    DUPLICATE = "delivery of a copy"
    LOSS = "loss"
    ISOLATION = "isolation"
    HEALING = "healing"


class Act(NamedTuple):
    """One step of the cluster: an input of a replica, or a fault of the network."""

    kind: ActKind
    replica: int
    input: Input
    envelope: int = -1

    @property
    def is_optional(self) -> bool:
        """True for a fault or a tick, which the cluster does not need to become quiescent."""
        return self.kind in (ActKind.DUPLICATE, ActKind.LOSS, ActKind.ISOLATION) or isinstance(
            self.input, Crash | Suspect | Tick
        )


class Step(msgspec.Struct, frozen=True):
    """Step of a path, for reports."""

    choice: int
    """Index among the possible steps of its state, sorted by text."""
    text: str
    replica: int
    """Replica that takes the step."""
    sender: int | None = None
    """Sender of the message that the step delivers."""
    outputs: tuple[str, ...] = ()
    """Messages and responses that leave the replica."""


class Exploration(msgspec.Struct, kw_only=True):
    """Result of a search, of random walks or of a replay."""

    scope: Scope
    scheme: str
    states: int = 0
    """Different states."""
    transitions: int = 0
    depth: int = 0
    """Steps to the state that is furthest from the initial one; of random walks, the longest."""
    terminal_states: int = 0
    """States in which the replicas were shown to converge."""
    local_states: int = 0
    local_steps: int = 0
    is_exhausted: bool = False
    violation: str | None = None
    steps: tuple[Step, ...] = ()
    """Path to the violation; of a replay, the path."""

    @property
    def path(self) -> str:
        """Text form of the steps, for `creek explore --replay`."""
        return ".".join(str(each.choice) for each in self.steps)


class _StepViolated(PropertyViolated):
    """Violation after the last of the expanded states, in the step `acts`."""

    def __init__(self, message: str, *acts: Act) -> None:
        super().__init__(message)
        self.acts = acts


class Explorer:
    def __init__(
        self,
        scope: Scope,
        scheme: SchemeSpec,
        on_progress: Callable[[Exploration], None] = lambda _: None,
    ) -> None:
        datatype = get_datatype(scope.datatype)
        self._scope = scope
        self._result = Exploration(scope=scope, scheme=scheme.name)
        self._on_progress = on_progress
        self._locals = LocalStates(scope, scheme.create, datatype)
        self._properties = Properties(scope, datatype)
        self._convergence = Convergence(scope, datatype, self._locals, self._properties)
        self._early_violation: str | None = None
        """Violation before the initial state."""
        try:
            replicas = self._locals.initial_states()
        except PropertyViolated as error:
            replicas, self._early_violation = (), str(error)
        self._initial = ClusterState(
            replicas,
            0,
            0,
            scope.crashes,
            scope.leader_changes,
            scope.losses,
            scope.duplicates,
            scope.partitions,
            scope.ticks,
            NONE_ISOLATED,
            (),
        )
        self._ignored: dict[tuple[int, int], bool] = {}
        """Results of `is_ignored_for_ever`."""
        self._checked: set[tuple[int, ...]] = set()
        """Observations and precedence of the states that were checked."""
        self._converging: set[tuple[int, ...]] = set()
        """Local states and precedence of the terminal states that were checked."""

    # --- searches -----------------------------------------------------------------------------

    def search(self, states_max: int) -> Exploration:
        """Visit all states breadth first, at most `states_max`. Stop at the first violation."""
        if self._early_violation is not None:
            return self._finish(0, f"in the first election: {self._early_violation}")
        numbers = {self._initial.key(): 0}
        parents, acts = array("q", [-1]), [Act(ActKind.INPUT, 0, Sync())]
        frontier: list[tuple[int, ClusterState]] = [(0, self._initial)]
        while frontier:
            reached: list[tuple[int, ClusterState]] = []
            for number, state in frontier:
                try:
                    for act, successor in self._expand(state):
                        key = successor.key()
                        if key in numbers:
                            continue
                        if len(numbers) == states_max:
                            return self._finish(len(numbers))
                        self._check(successor, act)
                        numbers[key] = len(numbers)
                        parents.append(number)
                        acts.append(act)
                        reached.append((numbers[key], successor))
                except _StepViolated as error:
                    path = [*error.acts]
                    while number:
                        path.insert(0, acts[number])
                        number = parents[number]
                    return self._finish(len(numbers), str(error), path)
                if number % PROGRESS_EVERY == 0:
                    self._result.states = len(numbers)
                    self._on_progress(self._result)
            frontier = reached
            self._result.depth += bool(frontier)
        self._result.is_exhausted = True
        return self._finish(len(numbers))

    def walk(self, walks: int, seed: int) -> Exploration:
        """Take random paths from the initial state. Stop at the first violation."""
        if self._early_violation is not None:
            return self._finish(0, f"in the first election: {self._early_violation}")
        random = Random(seed)
        visited = {self._initial.key()}
        for number in range(walks):
            state, path = self._initial, list[Act]()
            try:
                for _ in range(WALK_STEPS_MAX):
                    taken = self._take_any(state, random)
                    if taken is None:
                        break
                    act, state = taken
                    self._check(state, act)
                    path.append(act)
                    visited.add(state.key())
            except _StepViolated as error:
                return self._finish(len(visited), str(error), [*path, *error.acts])
            self._result.depth = max(self._result.depth, len(path))
            self._result.states = len(visited)
            if number % 10 == 0:
                self._on_progress(self._result)
        return self._finish(len(visited))

    def _take_any(self, state: ClusterState, random: Random) -> tuple[Act, ClusterState] | None:
        """Take a random step; None if none is possible."""
        acts = list(self._acts(state))
        if all(act.is_optional for act in acts):
            self._result.terminal_states += 1
            self._check_terminal(state)
        random.shuffle(acts)
        for act in acts:
            successor = self._take(state, act)
            if successor is not None:
                self._result.transitions += 1
                return act, successor
        return None

    def replay(self, path: str) -> Exploration:
        """Take the steps of a path, which a search has reported."""
        if self._early_violation is not None:
            return self._finish(0, f"in the first election: {self._early_violation}")
        state, acts = self._initial, list[Act]()
        try:
            for choice in filter(None, path.split(".")):
                possible = self._sorted_acts(state)
                if not choice.isdecimal() or int(choice) >= len(possible):
                    raise UsageError(
                        f"path {path}: step {len(acts) + 1} is '{choice}', but must be a number "
                        f"below {len(possible)}; give the options of the search that found the path"
                    )
                acts.append(possible[int(choice)])
                successor = self._take(state, acts[-1])
                assert successor is not None
                state = successor
                self._check(state, acts[-1])
            for _ in self._expand(state):
                pass
        except _StepViolated as error:
            return self._finish(len(acts), str(error), acts)
        return self._finish(len(acts), None, acts)

    def _finish(
        self, states: int, violation: str | None = None, acts: list[Act] | None = None
    ) -> Exploration:
        result = self._result
        result.states = states
        result.local_states = len(self._locals.states)
        result.local_steps = self._locals.step_count
        result.violation = violation
        result.steps = tuple(self._describe(acts or []))
        return result

    # --- steps --------------------------------------------------------------------------------

    def _expand(self, state: ClusterState) -> Iterator[tuple[Act, ClusterState]]:
        """Yield the possible steps and their states. If none is left but faults and ticks, check
        the convergence from here."""
        is_terminal = True
        for act in self._acts(state):
            successor = self._take(state, act)
            if successor is not None:
                self._result.transitions += 1
                is_terminal = is_terminal and act.is_optional
                yield act, successor
        if is_terminal:
            self._result.terminal_states += 1
            self._check_terminal(state)

    def _acts(self, state: ClusterState) -> Iterator[Act]:
        scope, states = self._scope, self._locals.states
        for number, call in enumerate(scope.calls):
            if not state.calls_made >> number & 1 and self._is_next_of_session(state, number):
                yield Act(ActKind.INPUT, call.replica, Invoke(number))
        for replica, local in enumerate(state.replicas):
            volatile = states[local].volatile_count
            if volatile:
                yield Act(ActKind.INPUT, replica, Sync())
            for task in range(states[local].running_count):
                yield Act(ActKind.INPUT, replica, Complete(task))
            if state.crashes and replica in scope.crashing:
                for kept in range(volatile + 1):
                    yield Act(ActKind.INPUT, replica, Crash(kept))
            if state.leader_changes and replica in scope.suspecting and replica != state.isolated:
                yield Act(ActKind.INPUT, replica, Suspect())
            if state.ticks:
                yield Act(ActKind.INPUT, replica, Tick())
            if state.partitions and replica in scope.isolated and state.isolated == NONE_ISOLATED:
                yield Act(ActKind.ISOLATION, replica, Sync())
        if state.isolated != NONE_ISOLATED:
            yield Act(ActKind.HEALING, state.isolated, Sync())
        for number in self._deliverable(state.in_flight):
            envelope = self._locals.envelopes[number]
            receive = Receive(envelope.sender, envelope.message)
            yield Act(ActKind.DELIVERY, envelope.receiver, receive, number)
            if state.duplicates:
                yield Act(ActKind.DUPLICATE, envelope.receiver, receive, number)
            if state.losses:
                yield Act(ActKind.LOSS, envelope.receiver, receive, number)

    def _is_next_of_session(self, state: ClusterState, number: int) -> bool:
        session = self._scope.calls[number].session
        return all(
            state.calls_made >> earlier & 1 or call.session != session
            for earlier, call in enumerate(self._scope.calls[:number])
        )

    def _deliverable(self, in_flight: tuple[int, ...]) -> list[int]:
        """Return the envelopes that may arrive next, each once."""
        if self._scope.links == "any":
            return list(dict.fromkeys(in_flight))
        first: dict[tuple[int, int], int] = {}
        for number in in_flight:
            first.setdefault(self._link(number), number)
        return list(first.values())

    def _link(self, envelope: int) -> tuple[int, int]:
        return self._locals.envelopes[envelope][:2]

    def _take(self, state: ClusterState, act: Act) -> ClusterState | None:
        """Return the state after the step; None if the step is impossible."""
        match act.kind:
            case ActKind.LOSS:
                in_flight = _without(state.in_flight, act.envelope)
                return state._replace(in_flight=in_flight, losses=state.losses - 1)
            case ActKind.ISOLATION:
                isolated = state._replace(isolated=act.replica, partitions=state.partitions - 1)
                return isolated._replace(in_flight=self._connected(isolated, state.in_flight))
            case ActKind.HEALING:
                return state._replace(isolated=NONE_ISOLATED)
            case ActKind.DELIVERY:
                state = state._replace(in_flight=_without(state.in_flight, act.envelope))
            case ActKind.DUPLICATE:
                state = state._replace(duplicates=state.duplicates - 1)
            case ActKind.INPUT:
                state = self._count_input(state, act)
        step = self._step(state, act.replica, act)
        if step is None:
            return None
        replicas = list(state.replicas)
        replicas[act.replica] = step.state
        sent = [*step.sent]
        for replica in range(len(replicas)) if isinstance(act.input, Crash) else (act.replica,):
            can_crash = state.crashes and replica in self._scope.crashing
            if not can_crash and self._locals.states[replicas[replica]].volatile_count:
                sync = self._locals.step(replicas[replica], Sync())
                assert sync is not None
                if sync.violation is not None:
                    raise _StepViolated(sync.violation, act)
                replicas[replica] = sync.state
                sent += sync.sent
        in_flight = (*state.in_flight, *self._connected(state, tuple(sent)))
        state = state._replace(replicas=tuple(replicas))
        return state._replace(in_flight=self._canonical_order(state, in_flight))

    def _step(self, state: ClusterState, replica: int, act: Act) -> LocalStep | None:
        step = self._locals.step(state.replicas[replica], act.input)
        if step is not None and step.violation is not None:
            raise _StepViolated(step.violation, act)
        return step

    def _count_input(self, state: ClusterState, act: Act) -> ClusterState:
        """Return the state with fewer steps of this kind left."""
        match act.input:
            case Invoke(call=number):
                return state._replace(
                    calls_made=state.calls_made | 1 << number,
                    precedence=state.precedence | self._new_precedence(state, number),
                )
            case Crash():
                in_flight = state.in_flight
                if self._scope.links == "fifo":  # the crash closes the connections
                    in_flight = tuple(
                        each for each in in_flight if self._link(each)[1] != act.replica
                    )
                return state._replace(crashes=state.crashes - 1, in_flight=in_flight)
            case Suspect():
                return state._replace(leader_changes=state.leader_changes - 1)
            case Tick():
                return state._replace(ticks=state.ticks - 1)
            case _:
                return state

    def _new_precedence(self, state: ClusterState, call: int) -> int:
        """Return the bits of the calls that have their stable responses before this one."""
        bits = 0
        if self._scope.calls[call].strong:
            for replica in state.replicas:
                witness = self._observation(replica).witness
                for earlier in witness.issued:
                    if witness.has_stable(earlier):
                        bits |= 1 << (earlier * CALLS_MAX + call)
        return bits

    def _connected(self, state: ClusterState, envelopes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the envelopes that no partition loses."""
        if state.isolated == NONE_ISOLATED:
            return envelopes
        return tuple(each for each in envelopes if state.isolated not in self._link(each))

    def _canonical_order(self, state: ClusterState, in_flight: tuple[int, ...]) -> tuple[int, ...]:
        """Return the envelopes in a canonical order, without those that are ignored for ever."""
        effective = [each for each in in_flight if not self._is_ignored(state, each)]
        effective.sort(key=None if self._scope.links == "any" else self._link)
        return tuple(effective)

    def _is_ignored(self, state: ClusterState, envelope: int) -> bool:
        receiver = self._link(envelope)[1]
        if state.crashes and receiver in self._scope.crashing:
            return False
        key = (state.replicas[receiver], envelope)
        if key not in self._ignored:
            self._ignored[key] = self._locals.is_ignored_for_ever(*key)
        return self._ignored[key]

    # --- properties ---------------------------------------------------------------------------

    def _check(self, state: ClusterState, act: Act) -> None:
        states = self._locals.states
        observations = [states[each].observation for each in state.replicas]
        key = (state.precedence, *observations)
        if key in self._checked:
            return
        self._checked.add(key)
        try:
            self._properties.check(
                [self._locals.observations[each] for each in observations],
                _pairs(state.precedence),
            )
        except PropertyViolated as error:
            raise _StepViolated(str(error), act) from None

    def _check_terminal(self, state: ClusterState) -> None:
        key = (state.precedence, *state.replicas)
        if key in self._converging:
            return
        self._converging.add(key)
        if state[3:10] == self._initial[3:10]:
            self._check_without_faults(state)
        try:
            self._convergence.check(state.replicas, _pairs(state.precedence))
        except PropertyViolated as error:
            raise _StepViolated(str(error)) from None

    def _check_without_faults(self, state: ClusterState) -> None:
        """Check that strong calls have stable responses. Without faults, no time must pass."""
        for number, call in enumerate(self._scope.calls):
            witness = self._observation(state.replicas[call.replica]).witness
            if call.strong and not witness.has_stable(number):
                raise _StepViolated(
                    f"call {number} has no stable response, although all messages have arrived"
                )

    def _observation(self, local: int) -> Observation:
        return self._locals.observations[self._locals.states[local].observation]

    # --- descriptions -------------------------------------------------------------------------

    def _sorted_acts(self, state: ClusterState) -> list[Act]:
        """Return the possible steps in an order that does not depend on the search."""
        possible = [act for act in self._acts(state) if self._is_possible(state, act)]
        return sorted(possible, key=self._sort_key)

    def _is_possible(self, state: ClusterState, act: Act) -> bool:
        try:
            return self._take(state, act) is not None
        except _StepViolated:
            return True

    def _sort_key(self, act: Act) -> tuple[str, bytes]:
        is_message = act.envelope >= 0
        message = self._locals.envelopes[act.envelope].message if is_message else -1
        data = encode(self._locals.messages[message]) if is_message else b""
        return self._text(act), data

    def _text(self, act: Act) -> str:
        match act.kind:
            case ActKind.INPUT:
                return f"replica {act.replica}: {input_text(act.input, self._scope)}"
            case ActKind.ISOLATION:
                return f"replica {act.replica}: a partition isolates it"
            case ActKind.HEALING:
                return f"replica {act.replica}: the partition heals"
            case _:
                sender, receiver, message = self._locals.envelopes[act.envelope]
                text = f"{sender} → {receiver}: {message_text(self._locals.messages[message])}"
                verbs = {ActKind.DUPLICATE: ", copy", ActKind.LOSS: ", lost"}
                return text + verbs.get(act.kind, "")

    def _describe(self, acts: list[Act]) -> Iterator[Step]:
        state = self._initial
        for act in acts:
            choice = self._sorted_acts(state).index(act)
            outputs: tuple[str, ...] = ()
            try:
                successor = self._take(state, act)
            except _StepViolated:
                successor = None
            if successor is not None:
                outputs = tuple(self._outputs(state, successor, act.replica))
                state = successor
            is_received = isinstance(act.input, Receive)
            sender = self._link(act.envelope)[0] if is_received else None
            yield Step(choice, self._text(act), act.replica, sender, outputs)

    def _outputs(self, before: ClusterState, after: ClusterState, replica: int) -> Iterator[str]:
        sent = Counter(after.in_flight) - Counter(before.in_flight)
        envelopes = [self._locals.envelopes[each] for each in sent]
        yield from sorted(
            f"sends to {receiver}: {message_text(self._locals.messages[message])}"
            for sender, receiver, message in envelopes
            if sender == replica
        )
        earlier = self._observation(before.replicas[replica]).witness.responses
        for call, responses in self._observation(after.replicas[replica]).witness.responses.items():
            for response in responses[len(earlier.get(call, ())) :]:
                yield f"responds to call {call}: {response_text(response)}"


def _without(in_flight: tuple[int, ...], envelope: int) -> tuple[int, ...]:
    index = in_flight.index(envelope)
    return in_flight[:index] + in_flight[index + 1 :]


def _pairs(precedence: int) -> frozenset[tuple[int, int]]:
    return frozenset(divmod(bit, CALLS_MAX) for bit in range(CALLS_MAX**2) if precedence >> bit & 1)
