"""Search for an order of calls in which an invariant of the application breaks.

Creek executes all calls in one order, which clients cannot predict. Only the calls of one session
keep their order. `explore` executes the calls in every such order, without a cluster, and checks
the invariant after each call. Orders that lead to the same state are continued once. The search is
breadth first, so a broken invariant is reported with the fewest calls.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from creekdb.errors import BadValue
from creekdb.execution.datatype import DataType
from creekdb.execution.sequential import Sequential
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key
from creekdb.wire.deduplication import describe_call

STATES_MAX: Final = 100_000
"""Upper bound for the explored states."""

CallSpec: TypeAlias = tuple[Any, ...]
"""A call: an operation, by name or function, and its arguments."""
Invariant: TypeAlias = Callable[[Sequential], object]
"""Function of a machine in the state to judge. It raises `AssertionError`, or returns False, if
the state is wrong. It may call operations; their effects are dropped."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class InvariantBroken(AssertionError):
    """Order of calls after which the invariant does not hold."""

    def __init__(self, order: Sequence[tuple[Operation, Outcome]], cause: str) -> None:
        lines = [
            f"  {number}. {describe_call(operation)} -> {_outcome_text(outcome)}"
            for number, (operation, outcome) in enumerate(order, 1)
        ]
        count = f"{len(lines)} call{'' if len(lines) == 1 else 's'}"
        header = f"the invariant breaks after {count}{cause}:"
        if not lines:
            header = f"the invariant does not hold before the first call{cause}"
        super().__init__("\n".join([header, *lines]))
        self.order = tuple(operation for operation, _ in order)
        """Operations in the order that breaks the invariant."""


class OrderSearch(NamedTuple):
    """Result of a search in which the invariant held."""

    states: int
    """Number of distinct states."""
    final_states: int
    """Number of distinct states after all calls. With more than one, the order matters."""
    outcomes: dict[str, tuple[Outcome, ...]]
    """All outcomes by call, such as `book('C', 9)`. A weak call with several may change."""


class _Node(NamedTuple):
    """State after some calls: the number of executed calls of each session, and the order."""

    positions: tuple[int, ...]
    state: dict[Key, Any]
    order: tuple[tuple[Operation, Outcome], ...]


def explore(
    datatype: DataType,
    calls: Iterable[CallSpec | list[CallSpec]],
    *,
    invariant: Invariant,
    first: Iterable[CallSpec] = (),
    states_max: int = STATES_MAX,
) -> OrderSearch:
    """Execute the calls in every order. Raise `InvariantBroken` if the invariant ever breaks.

    A call is a tuple, such as `(book, "C", 9, "ann")`. A list of calls is a session, which keeps
    its order. The calls in `first` precede all others.
    """
    start = datatype.sequential()
    for operation, *arguments in first:
        start.call(operation, *arguments)
    sessions = [
        [
            _operation(datatype, each)
            for each in (session if isinstance(session, list) else [session])
        ]
        for session in calls
    ]
    root = _Node((0,) * len(sessions), start.state, ())
    _check(datatype, root, invariant)
    queue, seen = deque([root]), {_identity(root)}
    ends: set[bytes] = set()
    outcomes: dict[str, list[Outcome]] = {}
    while queue:
        node = queue.popleft()
        following = [_execute(datatype, node, sessions, each) for each in _ready(node, sessions)]
        for each in following:
            operation, outcome = each.order[-1]
            known = outcomes.setdefault(describe_call(operation), [])
            if not any(outcome.same_as(other) for other in known):
                known.append(outcome)
            identity = _identity(each)
            if identity in seen:
                continue
            seen.add(identity)
            if len(seen) > states_max:
                raise BadValue(
                    f"the calls lead to more than {states_max} states; explore fewer calls, or set "
                    "states_max"
                )
            _check(datatype, each, invariant)
            queue.append(each)
        if not following:
            ends.add(_identity(node))
    return OrderSearch(len(seen), len(ends), {key: tuple(each) for key, each in outcomes.items()})


def _operation(datatype: DataType, call: CallSpec) -> Operation:
    if type(call) is not tuple or not call:
        raise BadValue(f"a call is a tuple of an operation and its arguments, not {call!r}")
    operation, *arguments = call
    return datatype.checked_call(datatype.name_of(operation), *arguments)


def _ready(node: _Node, sessions: Sequence[Sequence[Operation]]) -> list[int]:
    """Return the sessions that have a call left."""
    return [
        number
        for number, (position, session) in enumerate(zip(node.positions, sessions, strict=True))
        if position < len(session)
    ]


def _execute(
    datatype: DataType, node: _Node, sessions: Sequence[Sequence[Operation]], session: int
) -> _Node:
    """Return the state after the next call of the session.

    Timestamp and id of the request are the same in every order, as in a cluster.
    """
    position = node.positions[session]
    operation = sessions[session][position]
    timestamp = 1 + position + sum(map(len, sessions[:session]))
    machine = _machine(datatype, node.state)
    outcome = machine.apply(Request(timestamp, Dot(session, position + 1), operation, False))
    positions = (*node.positions[:session], position + 1, *node.positions[session + 1 :])
    return _Node(positions, machine.state, (*node.order, (operation, outcome)))


def _check(datatype: DataType, node: _Node, invariant: Invariant) -> None:
    try:
        holds = invariant(_machine(datatype, node.state))
    except AssertionError as error:
        first_line = str(error).partition("\n")[0]  # pytest appends the values of the assertion
        cause = f" ({first_line})" if first_line else ""
        raise InvariantBroken(node.order, cause) from error
    if holds is False:
        raise InvariantBroken(node.order, "")


def _machine(datatype: DataType, state: dict[Key, Any]) -> Sequential:
    machine = datatype.sequential()
    machine.state = dict(state)
    return machine


def _identity(node: _Node) -> bytes:
    items = sorted((repr(key), value) for key, value in node.state.items())
    return _encode((node.positions, [(key, _encode(value)) for key, value in items]))


def _outcome_text(outcome: Outcome) -> str:
    return repr(outcome.value) if outcome.error is None else f"raised {outcome.error}"
