"""Random histories of a linearizable object, and a checker that tries every order."""

import itertools
from collections.abc import Sequence
from itertools import combinations, permutations
from random import Random
from typing import Any

from creekdb.checkers.blackbox.linearizability.models import IMPOSSIBLE, Model
from creekdb.checkers.blackbox.linearizability.search import Interval
from creekdb.checkers.blackbox.observations import CallStatus, FinalObservation, ObservedCall
from creekdb.datatypes import SAMPLERS, DataType, OperationSampler
from creekdb.execution.sequential import Sequential
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request

_NUMBERS = itertools.count(1)


def call(
    client: str,
    operation: str,
    *arguments: Any,
    at: tuple[int, int | None],
    value: Any = None,
    status: CallStatus | None = None,
    strong: bool = True,
    final: FinalObservation | None = None,
) -> ObservedCall:
    """Return a call that was in progress in the interval `at`."""
    return ObservedCall(
        client=client,
        operation=operation,
        arguments=arguments,
        strong=strong,
        invoked_us=at[0],
        responded_us=at[1],
        status=status or (CallStatus.UNKNOWN if at[1] is None else CallStatus.OK),
        value=value,
        final=final,
    )


def random_history(
    datatype: DataType,
    seed: int,
    count: int,
    clients: int,
    sample: OperationSampler | None = None,
    weak_share: float = 0.0,
) -> list[ObservedCall]:
    """Simulate an object whose strong calls take effect between invocation and response.

    A weak call takes effect at any time after its invocation. Some calls get no response, and take
    effect or not. Some are rejected, and take no effect.
    """
    random = Random(seed)
    draw = sample or SAMPLERS[datatype.name]
    planned: list[tuple[float, int, ObservedCall]] = []
    free_us = [0] * clients
    for number in range(count):
        client = number % clients
        start = free_us[client] + random.randrange(10)
        end = start + random.randrange(40)
        free_us[client] = end + random.randrange(10)
        operation, arguments = draw(random)
        strong = random.random() >= weak_share
        planned_call = call(
            f"client {client}", operation, *arguments, at=(start, end), strong=strong
        )
        effect_us = random.uniform(start, end if strong else end + 300)
        planned.append((effect_us, number, planned_call))
    return _executed(datatype, random, sorted(planned))


def _executed(
    datatype: DataType, random: Random, planned: Sequence[tuple[float, int, ObservedCall]]
) -> list[ObservedCall]:
    machine = datatype.sequential()
    observed = []
    for effect_us, number, each in planned:
        fate = random.random()
        status, value = CallStatus.REJECTED, None
        if fate > 0.05:
            status, value = _response(machine, each)
        if fate > 0.95 or 0.05 > fate > 0.03:
            status, value = CallStatus.UNKNOWN, None
        observed.append((number, _with_response(random, each, effect_us, status, value)))
    return sorted((each for _, each in sorted(observed)), key=lambda each: each.invoked_us)


def _response(machine: Sequential, each: ObservedCall) -> tuple[CallStatus, Any]:
    return execute_unchecked(machine, each.operation, each.arguments)


def execute_unchecked(
    machine: Sequential, name: str, arguments: tuple[Any, ...]
) -> tuple[CallStatus, Any]:
    """Execute a call whose arguments no client has checked, as samplers draw them."""
    number = next(_NUMBERS)
    request = Request(number, Dot(0, number), Operation(name, arguments), strong=False)
    outcome = machine.apply(request)
    if outcome.error is not None:
        return CallStatus.ERROR, outcome.error
    return CallStatus.OK, outcome.value


def _with_response(
    random: Random, each: ObservedCall, effect_us: float, status: CallStatus, value: Any
) -> ObservedCall:
    assert each.responded_us is not None
    final = None
    if not each.strong and status in (CallStatus.OK, CallStatus.ERROR):
        if random.random() < 0.5:
            responded_us = max(int(effect_us) + 1, each.responded_us) + random.randrange(20)
            final = FinalObservation(responded_us, status, value, changed=True)
        status, value = CallStatus.OK, "a tentative response"
    return ObservedCall(
        client=each.client,
        operation=each.operation,
        arguments=each.arguments,
        strong=each.strong,
        invoked_us=each.invoked_us,
        responded_us=None if status is CallStatus.UNKNOWN else each.responded_us,
        status=status,
        value=value,
        final=final,
    )


def has_some_order(calls: Sequence[Interval], model: Model) -> bool:
    """True if an order of the required calls and some optional ones fits. Tries every order."""
    required = [each for each in calls if each.is_required]
    optional = [each for each in calls if not each.is_required]
    return any(
        _fits(order, model)
        for count in range(len(optional) + 1)
        for chosen in combinations(optional, count)
        for order in permutations([*required, *chosen])
    )


def _fits(order: Sequence[Interval], model: Model) -> bool:
    state = model.initial
    for index, each in enumerate(order):
        if any(
            later.end_us is not None and later.end_us < each.start_us for later in order[index:]
        ):
            return False
        state = model.step(state, each.operation, each.arguments, each.status, each.value)
        if state is IMPOSSIBLE:
            return False
    return True
