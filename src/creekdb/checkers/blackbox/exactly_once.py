"""Every acknowledged call takes effect exactly once, and every rejected call never.

The evidence is in the final states and in the responses. For the key-value store, a put returns the
previous value, which is its own if it was executed twice. Counters bound the number of increments.
For transactions, each value was appended once. The final response to a weak call is marked as
changed exactly if it differs from the tentative one, for every data type.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

from creekdb.checkers.blackbox.anomalies.transactions import (
    TRANSACTION_OPERATIONS,
    UnusableTransactions,
    freeze,
    requested_operations,
)
from creekdb.checkers.blackbox.kv_observations import (
    KvWrites,
    MalformedResponse,
    amount_of,
    call_witness,
    counted,
    view_of,
)
from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall, ObservedRun
from creekdb.checkers.replay import equal_exactly
from creekdb.checkers.verdict import Illegal, Inconclusive, Ok, Verdict, short_text

CHECKER: Final = "exactly once"


class NotExactlyOnce(Exception):
    def __init__(self, cause: str, *calls: ObservedCall) -> None:
        super().__init__(cause)
        self.calls = calls


def check_exactly_once(run: ObservedRun) -> Verdict:
    """Return the verdict on a run. Without final states, only responses are evidence."""
    try:
        _check_changed(run)
        if run.datatype == "kv":
            writes = KvWrites(run)
            _check_puts(run, writes)
            _check_upper_bounds(run, writes)
            for replica, state in run.final_states.items():
                _check_counters(writes, replica, state)
        elif run.datatype == "transactions":
            for replica, state in run.final_states.items():
                _check_appends(run, replica, state)
    except (NotExactlyOnce, MalformedResponse) as violation:
        return Illegal(CHECKER, str(violation), tuple(map(call_witness, violation.calls)))
    except UnusableTransactions as error:
        return Inconclusive(CHECKER, str(error))
    return Ok(CHECKER)


def _check_changed(run: ObservedRun) -> None:
    for call in run.calls:
        final = call.final
        if final is None or final.status is CallStatus.UNKNOWN or not call.has_response:
            continue
        if final.changed is None or ANY_VALUE in (final.value, call.value):
            continue  # not recorded
        is_same = final.status is call.status and equal_exactly(final.value, call.value)
        if final.changed is is_same:
            responses = f"{short_text(call.value)} and then {short_text(final.value)}"
            raise NotExactlyOnce(
                f"changed is {final.changed} after the responses {responses}", call
            )


def _check_puts(run: ObservedRun, writes: KvWrites) -> None:
    for put in writes.once.values():
        previous = [put.value] if put.status is CallStatus.OK else []
        if put.final is not None and put.final.status is CallStatus.OK:
            previous.append(put.final.value)
        if any(each is not None and each is not ANY_VALUE for each in previous):
            raise NotExactlyOnce("the only put of a key returned a previous value", put)
    for call in run.calls:
        view = view_of(call)
        for key, value in view.values.items() if view is not None else ():
            only = writes.once.get(key)
            if only is not None and value is not None:
                if only.status is CallStatus.REJECTED:
                    raise NotExactlyOnce(f"{key} was read, and its put was rejected", only, call)
                if not equal_exactly(value, only.arguments[1]):
                    raise NotExactlyOnce(f"{key} was read with another value", only, call)


class _Increments:
    """Increments of one counter that were not rejected, in the order of their invocations."""

    def __init__(self, calls: list[ObservedCall]) -> None:
        begun = [call for call in calls if call.status is not CallStatus.REJECTED]
        begun.sort(key=lambda call: call.invoked_us)
        self._invoked_us = [call.invoked_us for call in begun]
        self._sums = [0, *accumulate(map(amount_of, begun))]

    def sum_until(self, time_us: int) -> int:
        return self._sums[bisect_right(self._invoked_us, time_us)]


def _check_upper_bounds(run: ObservedRun, writes: KvWrites) -> None:
    """Check that no response counts an increment twice, or one that began later."""
    increments = {key: _Increments(calls) for key, calls in writes.counters.items()}
    for call in run.calls:
        view = view_of(call)
        if view is None or call.responded_us is None:
            continue
        for key in view.values.keys() & increments.keys():
            begun, value = increments[key].sum_until(call.responded_us), counted(view, key, call)
            if value > begun:
                raise NotExactlyOnce(
                    f"{key} was read as {value}, and the increments up to then add {begun}", call
                )


def _check_counters(writes: KvWrites, replica: str, state: Mapping[Any, Any]) -> None:
    for key, calls in writes.counters.items():
        amounts: Counter[CallStatus] = Counter()
        for call in calls:
            amounts[call.status] += amount_of(call)
        value = state.get(key, 0)
        acknowledged, unknown = amounts[CallStatus.OK], amounts[CallStatus.UNKNOWN]
        if type(value) is not int or not acknowledged <= value <= acknowledged + unknown:
            raise NotExactlyOnce(
                f"the increments of {key} with a response add {acknowledged}, those of unknown "
                f"outcome add {unknown}, and the final value on replica {replica} is "
                f"{short_text(value)}"
            )


def _check_appends(run: ObservedRun, replica: str, state: Mapping[Any, Any]) -> None:
    elements = {
        freeze(key): Counter(freeze(value))
        for key, value in state.items()
        if isinstance(value, list | tuple)
    }
    for call in run.calls:
        if call.operation not in TRANSACTION_OPERATIONS:
            continue
        least, most = _executions(call)
        for function, key, value in requested_operations(call.arguments):
            count = elements.get(key, Counter())[value] if function == "append" else least
            if not least <= count <= most:
                cause = f"{short_text(value)} is {count} times in {key} on replica {replica}"
                raise NotExactlyOnce(cause, call)


def _executions(call: ObservedCall) -> tuple[int, int]:
    """Return how often the call may have taken effect, at least and at most."""
    is_final = call.final is not None and call.final.status is not CallStatus.UNKNOWN
    status = call.final.status if call.final is not None and is_final else call.status
    match status:
        case CallStatus.OK:
            return 1, 1
        case CallStatus.REJECTED:
            return 0, 0
        case CallStatus.ERROR if call.strong or is_final:
            return 0, 0
        case _:
            return 0, 1
