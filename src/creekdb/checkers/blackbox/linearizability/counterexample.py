"""Small counterexamples of linearizability.

Removal of an update from a history would make correct reads of its value look illegal. Only these
reductions are therefore applied, each of which keeps or weakens the constraints:

- *The end.* A prefix of a linearizable history is linearizable. The shortest illegal prefix ends
  with a response. A call that responds later has no response in the prefix.
- *The start.* Calls that responded before some time are replaced by all states that the search
  found possible after required calls. No call in the rest can have been placed before them. A call
  in progress at that time may be part of the state already, so it loses its response.
- *Calls without an effect*, that is read-only calls and errors, constrain other calls in no way. A
  linearization without such a call contains all others in the same order.

The rest is illegal from each of the possible states, so the whole history is illegal. It is locally
minimal: none of the reductions can go further.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE, Model
from creekdb.checkers.blackbox.linearizability.search import (
    Finding,
    Interval,
    SearchResult,
    is_effectless,
    search,
)
from creekdb.checkers.blackbox.observations import CallStatus
from creekdb.checkers.verdict import Witness, short_text

STATES_MAX: Final = 200
"""Upper bound for the states from which the rest of a history is searched."""
WITNESSES_MAX: Final = 30
STATES_SHOWN: Final = 4
TEXT_MAX: Final = 40
"""Upper bound for the characters of one value in a text."""


class Counterexample(NamedTuple):
    """Calls on one object that no order explains."""

    calls: tuple[Interval, ...]
    """Remaining calls, in the order of their invocations."""
    order: tuple[Interval, ...]
    """Longest linearization of them that was found."""
    blocked: Interval
    """Call that must be placed after `order` and cannot be."""
    states: tuple[Any, ...]
    """Possible states before the calls."""
    omitted: int
    """Number of earlier calls that the states stand for."""

    def message(self) -> str:
        return f"no order of the calls explains {call_text(self.blocked)}"

    def witnesses(self) -> tuple[Witness, ...]:
        """Return the calls as text: the blocked one last, after those nearest to it."""
        others = [each for each in self.calls if each is not self.blocked]
        shown = [*others[-(WITNESSES_MAX - 1) :], self.blocked]
        return tuple(_witness(each) for each in shown)

    def states_text(self) -> str:
        """Return the possible states before the calls, as text."""
        texts = [_value_text(repr(each)) for each in self.states[:STATES_SHOWN]]
        if (more := len(self.states) - STATES_SHOWN) > 0:
            texts.append(f"{more} more")
        return " or ".join(texts)


def shrink(
    calls: Sequence[Interval], model: Model, result: SearchResult, steps_max: int
) -> Counterexample:
    """Return a small counterexample in calls that `result` found illegal.

    After `steps_max` steps, the smallest one so far is returned.
    """
    return _Shrinking(model, steps_max).shrink(calls, result)


class _Shrinking:
    def __init__(self, model: Model, steps_max: int) -> None:
        self._model = model
        self._steps_left = steps_max

    def shrink(self, calls: Sequence[Interval], result: SearchResult) -> Counterexample:
        prefix, result = self._shortest_prefix(calls, result)
        found = _counterexample(prefix, result, (self._model.initial,))
        found = self._latest_start(found, result.states)
        return self._without_effectless(found)

    def _shortest_prefix(
        self, calls: Sequence[Interval], result: SearchResult
    ) -> tuple[Sequence[Interval], SearchResult]:
        ends = sorted({call.end_us for call in calls if call.end_us is not None})
        low, high = 0, len(ends) - 1  # the prefix up to the end at `high` is illegal
        shortest: Sequence[Interval] = calls
        while low < high:
            middle = (low + high) // 2
            prefix = _prefix(calls, ends[middle])
            found = self._search(prefix, self._model.initial)
            if found.finding is Finding.ILLEGAL:
                high, shortest, result = middle, prefix, found
            else:
                low = middle + 1
        return shortest, result

    def _latest_start(self, whole: Counterexample, states: frozenset[Any]) -> Counterexample:
        if len(states) > STATES_MAX:
            return whole
        starts = tuple(sorted(states, key=repr))
        cuts = sorted({call.start_us for call in whole.calls})
        low, high = 0, len(cuts)  # the rest from the cut before `low` is illegal
        shortest = whole
        while low < high:
            middle = (low + high) // 2
            found = self._illegal(_rest(whole.calls, cuts[middle]), starts)
            if found is None:
                high = middle
            else:
                low, shortest = middle + 1, found
        return shortest._replace(omitted=len(whole.calls) - len(shortest.calls))

    def _without_effectless(self, found: Counterexample) -> Counterexample:
        for call in found.calls:
            if is_effectless(call, self._model):
                others = [each for each in found.calls if each is not call]
                smaller = self._illegal(others, found.states)
                found = found if smaller is None else smaller._replace(omitted=found.omitted)
        return found

    def _illegal(self, calls: Sequence[Interval], starts: tuple[Any, ...]) -> Counterexample | None:
        """Return the calls as a counterexample if they are illegal from each of the states."""
        longest: SearchResult | None = None
        for start in starts:
            result = self._search(calls, start)
            if result.finding is not Finding.ILLEGAL:
                return None
            if longest is None or len(result.order) > len(longest.order):
                longest = result
        assert longest is not None, "a search has visited at least its first state"
        return _counterexample(calls, longest, starts)

    def _search(self, calls: Sequence[Interval], start: Any) -> SearchResult:
        result = search(calls, self._model, self._steps_left, start)
        self._steps_left -= result.steps
        return result


def _counterexample(
    calls: Sequence[Interval], result: SearchResult, states: tuple[Any, ...]
) -> Counterexample:
    assert result.blocked is not None, "an illegal history has a call that cannot be placed"
    return Counterexample(tuple(calls), result.order, result.blocked, states, omitted=0)


def _prefix(calls: Sequence[Interval], until_us: int) -> list[Interval]:
    return [
        call.without_response() if call.end_us is None or call.end_us > until_us else call
        for call in calls
        if call.start_us <= until_us
    ]


def _rest(calls: Sequence[Interval], from_us: int) -> list[Interval]:
    return [
        call if call.start_us >= from_us else call.without_response()
        for call in calls
        if call.end_us is None or call.end_us >= from_us
    ]


# --- texts --------------------------------------------------------------------------------------


def call_text(call: Interval) -> str:
    """Return the call with its response, such as `put x 1 → ok`."""
    words = [call.operation, *(_value_text(each) for each in call.arguments)]
    return f"{' '.join(words)} → {response_text(call)}"


def response_text(call: Interval) -> str:
    if call.status is CallStatus.UNKNOWN:
        return "?"
    if call.value is ANY_VALUE:
        return call.status.value
    text = _value_text(call.value)
    return f"error {text}" if call.status is CallStatus.ERROR else text


def _value_text(value: object) -> str:
    is_plain = isinstance(value, str) and value != "" and value.isprintable()
    text = str(value) if is_plain else short_text(value)
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


def _witness(call: Interval) -> Witness:
    strength = "" if call.source.strong else "weak "
    return Witness(call.source.client, f"{strength}{call_text(call)}", call.start_us)
