"""Linearizability of strong calls, from the observations of clients alone.

A strong call takes effect at one instant between its invocation and its response, and its response
is that of a sequential execution at that instant. Weak calls share the final order (Section 4.3):

- A weak update may take effect at any time after its invocation. Its tentative response is not
  checked. Its final response is that of its position in the final order. If the client observed
  it, the update took effect before that time, and the final response must fit.
- A weak read-only call has no position in the final order, and is not checked.

A call without a response may take effect at any time after its invocation, or never. A rejected
call never takes effect.

Calls without common keys are judged separately, since linearizability is local: a history is
linearizable if the calls on each object are.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from creekdb.checkers.blackbox.linearizability.counterexample import Counterexample, shrink
from creekdb.checkers.blackbox.linearizability.models import KeyRange, Keys, Model, NotModelled
from creekdb.checkers.blackbox.linearizability.search import Finding, Interval, search
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall, ObservedRun
from creekdb.checkers.verdict import Illegal, Inconclusive, Ok, Verdict
from creekdb.history import Operation, Outcome

CHECKER: Final = "linearizability"
STEPS_MAX: Final = 2_000_000
"""Default limit of evaluated steps of the model, for the calls on one object."""


class LinearizabilityResult(NamedTuple):
    """Verdict on the calls, and the counterexample if it is illegal."""

    verdict: Verdict
    counterexample: Counterexample | None = None


def check_linearizability(
    run: ObservedRun, model: Model, steps_max: int = STEPS_MAX
) -> LinearizabilityResult:
    """Judge each object. An illegal one determines the verdict.

    Objects that take many steps are searched last, since a simpler one may be illegal.
    """
    undecided = partition(intervals(run.calls, model), model)
    reasons: list[str] = []
    for limit in (steps_max // 100, steps_max // 10, steps_max):
        remaining = []
        for calls in undecided:
            result = judge(calls, model, limit)
            match result.verdict:
                case Illegal():
                    return result
                case Inconclusive(reason=reason):
                    remaining.append(calls)
                    if limit == steps_max:
                        reasons.append(reason)
                case Ok():
                    pass
        undecided = remaining
    return LinearizabilityResult(Inconclusive(CHECKER, reasons[0]) if reasons else Ok(CHECKER))


def judge(
    calls: Sequence[Interval], model: Model, steps_max: int = STEPS_MAX
) -> LinearizabilityResult:
    """Judge the calls on one object. A counterexample takes up to `steps_max` more steps."""
    try:
        searched = search(calls, model, steps_max, model.initial)
        if searched.finding is Finding.LINEARIZABLE:
            return LinearizabilityResult(Ok(CHECKER))
        if searched.finding is Finding.OUT_OF_STEPS:
            return LinearizabilityResult(Inconclusive(CHECKER, _steps_reason(calls, steps_max)))
        found = shrink(calls, model, searched, steps_max)
    except NotModelled as error:
        return LinearizabilityResult(Inconclusive(CHECKER, str(error)))
    return LinearizabilityResult(Illegal(CHECKER, found.message(), found.witnesses()), found)


def _steps_reason(calls: Sequence[Interval], steps_max: int) -> str:
    subject = f"{len(calls)} calls on one object"
    return f"{subject} are undecided after {steps_max} steps; raise the limit, or use more keys"


# --- constraints --------------------------------------------------------------------------------


def intervals(calls: Iterable[ObservedCall], model: Model) -> list[Interval]:
    """Return the calls that have a position in the order, with their constraints."""
    found = (_interval(call, model) for call in calls)
    return [each for each in found if each is not None]


def _interval(call: ObservedCall, model: Model) -> Interval | None:
    if call.status is CallStatus.REJECTED:
        return None
    response = call if call.strong else call.final
    status, value, end_us = CallStatus.UNKNOWN, None, None
    if response is not None:
        status, value, end_us = response.status, response.value, response.responded_us
    if status not in (CallStatus.OK, CallStatus.ERROR):
        status, value, end_us = CallStatus.UNKNOWN, None, None
    if call.operation in model.readonly and (not call.strong or end_us is None):
        return None
    operation = Operation(call.operation, call.arguments)  # its arguments contain no lists
    return Interval(
        call,
        operation.name,
        operation.arguments,
        status,
        Outcome(value).value,
        call.invoked_us,
        end_us,
    )


# --- objects ------------------------------------------------------------------------------------


def partition(calls: Iterable[Interval], model: Model) -> list[list[Interval]]:
    """Return the calls by object: two calls with a common key are on one object."""
    keyed = [(call, model.keys(call.operation, call.arguments)) for call in calls]
    objects = object_numbers(keys for _, keys in keyed)
    groups: dict[int, list[Interval]] = defaultdict(list)
    for call, keys in keyed:
        groups[object_number(keys, objects)].append(call)
    return list(groups.values())


def object_numbers(key_sets: Iterable[Keys]) -> dict[Hashable, int]:
    """Number the objects that the keys belong to, from 1. All are one if a set is None."""
    objects = _DisjointSets()
    is_one = False
    for keys in key_sets:
        if keys is None:
            is_one = True
        else:
            objects.join(keys)
    if is_one:
        return dict.fromkeys(objects.parents, 0)
    for each in [each for each in objects.parents if isinstance(each, KeyRange)]:
        objects.join([each, *filter(each.covers, objects.parents)])
    numbers = {key: number for number, key in enumerate(objects.parents, 1)}
    return {key: numbers[objects.root(key)] for key in objects.parents}


class _DisjointSets:
    def __init__(self) -> None:
        self.parents: dict[Hashable, Hashable] = {}

    def root(self, key: Hashable) -> Hashable:
        parents = self.parents
        while parents[key] != key:
            parents[key] = key = parents[parents[key]]
        return key

    def join(self, keys: Iterable[Hashable]) -> None:
        listed = list(keys)
        for key in listed:
            self.parents.setdefault(key, key)
        for key, other in pairwise(listed):
            self.parents[self.root(key)] = self.root(other)


def object_number(keys: Keys, numbers: Mapping[Hashable, int]) -> int:
    """Return the number of the object. It is 0 for calls on all keys, and for calls on none."""
    return numbers[next(iter(keys))] if keys else 0
