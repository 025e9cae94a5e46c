"""Search for a linearization of the calls on one object (Wing and Gong, with Lowe's memory).

A *required* call has a response. It takes effect between its invocation and its response, and its
response must fit the state. An *optional* call has an unknown response. It takes effect at any time
after its invocation, or never. The search places required calls one by one. A call can be placed
next if no unplaced call responded before its invocation.

Reductions, none of which loses a linearization:

- A configuration consists of the placed required calls, the state, and the placed optional calls.
  It is explored once, and not at all after one that differs only in fewer optional calls.
- A call without an effect is placed as soon as its response fits, and no alternative is tried.
- Optional calls are placed only directly before a required call, the shortest sequences of them
  first. An optional call that would not change the state is omitted.
- Of equal optional calls, the one with the earliest invocation is placed first.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from creekdb.checkers.blackbox.linearizability.models import IMPOSSIBLE, Model
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall
from creekdb.errors import UsageError


class Interval(NamedTuple):
    """A call, with the time in which it takes effect and the response that must fit."""

    source: ObservedCall
    operation: str
    arguments: tuple[Any, ...]
    status: CallStatus
    """`ok` or `error` for a required call, `unknown` for an optional one."""
    value: Any
    start_us: int
    end_us: int | None
    """Time of the response, or None for an optional call."""

    def without_response(self) -> "Interval":
        return self._replace(status=CallStatus.UNKNOWN, value=None, end_us=None)

    @property
    def is_required(self) -> bool:
        return self.end_us is not None


class Finding(Enum):
    LINEARIZABLE = "linearizable"
    ILLEGAL = "illegal"
    OUT_OF_STEPS = "out of steps"


class SearchResult(NamedTuple):
    finding: Finding
    steps: int
    """Number of evaluated steps of the model."""
    order: tuple[Interval, ...] = ()
    """A linearization, or the longest one found if there is none of all calls."""
    blocked: Interval | None = None
    """Call that must be placed after `order` and cannot be, if the history is illegal."""
    states: frozenset[Hashable] = frozenset()
    """States after required calls, if the history is illegal."""


class _Node:
    """Invocation or response in a doubly linked list in the order of time."""

    __slots__ = (
        "bit",
        "call",
        "has_effect",
        "is_response",
        "next",
        "order",
        "previous",
        "text",
        "twin",
    )

    def __init__(self, call: Interval | None, order: int, is_response: bool = False) -> None:
        self.call = call
        self.order = order
        self.is_response = is_response
        self.bit = 0
        """Position of the call among the required or among the optional calls."""
        self.has_effect = True
        self.text = ""
        """Operation and arguments, equal for equal optional calls."""
        self.next: _Node | None = None
        self.previous: _Node | None = None
        self.twin: _Node | None = None
        """Response of a required call."""

    def unlink(self) -> None:
        assert self.previous is not None, "the head is never unlinked"
        self.previous.next = self.next
        if self.next is not None:
            self.next.previous = self.previous
        if self.twin is not None:
            self.twin.unlink()

    def relink(self) -> None:
        if self.twin is not None:
            self.twin.relink()
        assert self.previous is not None, "the head is never unlinked"
        self.previous.next = self
        if self.next is not None:
            self.next.previous = self


class _Move(NamedTuple):
    """Optional calls and a required call that are placed next, and the state after them."""

    nodes: tuple[_Node, ...]
    state: Any


class _Frame(NamedTuple):
    """Placed calls, and the configuration before them."""

    move: _Move
    moves: Iterator[_Move]
    """Further moves after these calls."""
    state: Any
    first: int
    placed: int
    used: int


class _OutOfSteps(Exception):
    pass


def search(calls: Sequence[Interval], model: Model, steps_max: int, start: Any) -> SearchResult:
    """Search for a linearization of the calls that begins in the state `start`.

    Most linearizable histories need no more than one optional call in front of a required one. So
    a quick search with this restriction comes first, if there are optional calls.
    """
    steps = 0
    if not all(call.is_required for call in calls):
        quick = _Search(calls, model, steps_max, start, optional_max=1).run()
        if quick.finding is not Finding.ILLEGAL:
            return quick
        steps = quick.steps
    full = _Search(calls, model, steps_max - steps, start, optional_max=len(calls)).run()
    return full._replace(steps=steps + full.steps)


class _Search:
    def __init__(
        self,
        calls: Sequence[Interval],
        model: Model,
        steps_max: int,
        start: Any,
        optional_max: int,
    ) -> None:
        self._model = model
        self._steps_max = steps_max
        self._optional_max = optional_max
        """Upper bound for the number of optional calls directly before a required call."""
        self._steps = 0
        self._required, self._optional = _Node(None, -1), _Node(None, -1)
        self._remaining = self._link(calls)
        self._state = start
        self._first = 0
        """Number of the first required call that is not placed."""
        self._placed = 0
        """Placed required calls, as bits from `_first` on."""
        self._used = 0
        """Placed optional calls, as bits."""
        self._seen: dict[tuple[int, int, Any], list[int]] = {}
        _masks(self._seen, (0, 0, start), start).append(0)
        self._frames: list[_Frame] = []
        self._longest: tuple[Interval, ...] = ()
        self._blocked: Interval | None = None
        self._depth_max = -1

    def run(self) -> SearchResult:
        try:
            is_legal = self._explore()
        except _OutOfSteps:
            return SearchResult(Finding.OUT_OF_STEPS, self._steps)
        if is_legal:
            return SearchResult(Finding.LINEARIZABLE, self._steps, self._order())
        return SearchResult(
            Finding.ILLEGAL,
            self._steps,
            self._longest,
            self._blocked,
            frozenset(state for _, _, state in self._seen),
        )

    def _explore(self) -> bool:
        moves = self._moves()
        while self._remaining:
            move = next(moves, None)
            if move is None:
                self._note_depth()
                if not self._frames:
                    return False
                moves = self._undo()
            elif self._apply(move, moves):
                moves = self._moves()
        return True

    # --- configurations -------------------------------------------------------------------------

    def _apply(self, move: _Move, moves: Iterator[_Move]) -> bool:
        """Place the calls of a move, unless the configuration after it was explored already."""
        *optional, required = move.nodes
        used = self._used
        for node in optional:
            used |= 1 << node.bit
        first, placed = self._first, self._placed | 1 << (required.bit - self._first)
        while placed & 1:
            first, placed = first + 1, placed >> 1
        key = first, placed, move.state
        if _is_dominated(_masks(self._seen, key, move.state), used):
            return False
        self._frames.append(_Frame(move, moves, self._state, self._first, self._placed, self._used))
        for node in move.nodes:
            node.unlink()
        self._state, self._first, self._placed, self._used = move.state, first, placed, used
        self._remaining -= 1
        return True

    def _undo(self) -> Iterator[_Move]:
        frame = self._frames.pop()
        for node in reversed(frame.move.nodes):
            node.relink()
        self._state, self._first, self._placed, self._used = frame[2:]
        self._remaining += 1
        return frame.moves

    def _note_depth(self) -> None:
        """Keep the placed calls if they are the longest linearization so far."""
        if len(self._frames) > self._depth_max:
            self._depth_max = len(self._frames)
            self._longest = self._order()
            self._blocked = self._first_response().call

    def _order(self) -> tuple[Interval, ...]:
        nodes = (node for frame in self._frames for node in frame.move.nodes)
        return tuple(node.call for node in nodes if node.call is not None)

    # --- moves ----------------------------------------------------------------------------------

    def _moves(self) -> Iterator[_Move]:
        """Yield the moves from this configuration, those with the fewest optional calls first."""
        candidates = sorted(self._candidates(), key=_response_order)
        for node in candidates:
            if not node.has_effect and self._step(self._state, node) is not IMPOSSIBLE:
                yield _Move((node,), self._state)
                return
        effective = [each for each in candidates if each.has_effect]
        yield from self._required_moves(self._state, (), effective)
        deadline = self._first_response().order
        for state, nodes in self._optional_sequences(deadline):
            yield from self._required_moves(state, nodes, candidates)

    def _required_moves(
        self, state: Any, nodes: tuple[_Node, ...], candidates: Iterable[_Node]
    ) -> Iterator[_Move]:
        for node in candidates:
            after = self._step(state, node)
            if after is not IMPOSSIBLE:
                yield _Move((*nodes, node), after)

    def _candidates(self) -> Iterator[_Node]:
        """Yield the required calls that were invoked before the first response."""
        node = self._required.next
        while node is not None and not node.is_response:
            yield node
            node = node.next

    def _first_response(self) -> _Node:
        node = self._required.next
        while node is not None and not node.is_response:
            node = node.next
        assert node is not None, "a required call has a response"
        return node

    def _optional_sequences(self, deadline: int) -> Iterator[tuple[Any, tuple[_Node, ...]]]:
        """Yield sequences of optional calls that change the state, with the state after them."""
        level: list[tuple[Any, tuple[_Node, ...], int]] = [(self._state, (), 0)]
        seen: dict[Any, list[int]] = {self._state: [0]}
        for _ in range(self._optional_max):
            following = []
            for state, nodes, mask in level:
                for node in self._available(deadline, mask):
                    after = self._step(state, node)
                    with_node = mask | 1 << node.bit
                    if after is IMPOSSIBLE or after == state:
                        continue
                    if not _is_dominated(_masks(seen, after, after), with_node):
                        sequence = (*nodes, node)
                        yield after, sequence
                        following.append((after, sequence, with_node))
            level = following

    def _available(self, deadline: int, excluded: int) -> Iterator[_Node]:
        """Yield unplaced optional calls invoked before the deadline, the first of equal ones."""
        equal: set[str] = set()
        node = self._optional.next
        while node is not None and node.order < deadline:
            if not excluded >> node.bit & 1 and node.text not in equal:
                equal.add(node.text)
                yield node
            node = node.next

    def _step(self, state: Any, node: _Node) -> Any:
        self._steps += 1
        if self._steps > self._steps_max:
            raise _OutOfSteps
        call = node.call
        assert call is not None, "only the head has no call"
        return self._model.step(state, call.operation, call.arguments, call.status, call.value)

    # --- events ---------------------------------------------------------------------------------

    def _link(self, calls: Sequence[Interval]) -> int:
        """Build both lists. Return the number of required calls."""
        events: list[tuple[int, bool, int]] = []
        for number, call in enumerate(calls):
            events.append((call.start_us, False, number))
            if call.end_us is not None:
                events.append((call.end_us, True, number))
        events.sort()  # of equal times, invocations come first: the calls overlap
        last_required, last_optional = self._required, self._optional
        invocations: dict[int, _Node] = {}
        required_count = optional_count = 0
        for order, (_, is_response, number) in enumerate(events):
            call = calls[number]
            node = _Node(call, order, is_response)
            if is_response:
                invocations[number].twin = node
                last_required = _append(last_required, node)
            elif call.is_required:
                node.bit, required_count = required_count, required_count + 1
                node.has_effect = not is_effectless(call, self._model)
                invocations[number] = node
                last_required = _append(last_required, node)
            else:
                node.bit, optional_count = optional_count, optional_count + 1
                node.text = f"{call.operation}{call.arguments!r}"
                last_optional = _append(last_optional, node)
        return required_count


def is_effectless(call: Interval, model: Model) -> bool:
    """True if the call certainly changes no state."""
    return call.operation in model.readonly or call.status is CallStatus.ERROR


def _response_order(node: _Node) -> int:
    """Return the order of the response: calls that respond first probably took effect first."""
    assert node.twin is not None, "a required call has a response"
    return node.twin.order


def _append(last: _Node, node: _Node) -> _Node:
    last.next = node
    node.previous = last
    return node


def _masks(seen: dict[Any, list[int]], key: Any, state: Any) -> list[int]:
    """Return the bits of a configuration. Raise `UsageError` if its state is not hashable."""
    try:
        return seen.setdefault(key, [])
    except TypeError as error:
        kind = type(state).__name__
        raise UsageError(
            f"cannot search for an order: the model has a state of the type {kind}, which is not "
            "hashable; use tuples and frozen sets"
        ) from error


def _is_dominated(masks: list[int], mask: int) -> bool:
    """True if a subset of the bits is in the list. Otherwise add the bits to the list."""
    for each in masks:
        if each & mask == each:
            return True
    masks[:] = [each for each in masks if each & mask != mask]
    masks.append(mask)
    return False
