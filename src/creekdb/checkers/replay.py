"""A sequential replay of the committed order yields the last responses and the final state.

Section 4.3: "the stable return values produced by Creek are such that they can be obtained by a
sequential execution of all operations in some total order S". "S corresponds to the order of
operations on the committed list". The same applies to the final response to a weak operation. Its
`changed` flag must be correct as well.

Values are compared exactly: 1, 1.0 and True are three values, and NaN equals itself.
"""

from typing import Any

import msgspec

from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import Violation, checker, outcome_text, short_text
from creekdb.history import Key, OperationRecord, Outcome, ResponseKind, ResponseRecord

_encode = msgspec.msgpack.Encoder().encode


def equal_exactly(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if type(left) is tuple:
        return len(left) == len(right) and (
            _equal_encodings(left, right) or all(map(equal_exactly, left, right))
        )
    if type(left) is dict:
        return left.keys() == right.keys() and equal_exactly(
            tuple(left.values()), tuple([right[key] for key in left])
        )
    if type(left) is float:
        return repr(left) == repr(right)
    return bool(left == right)


def _equal_encodings(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """True if both tuples have the same encoding. Equal dicts may have different encodings."""
    try:
        return _encode(left) == _encode(right)
    except (OverflowError, TypeError, ValueError):
        return False  # not encodable, for example a large integer


def first_different_key(left: dict[Any, Any], right: dict[Any, Any]) -> Any:
    """Return the first key under which two different states differ."""
    absent = object()
    for key in [*left, *right]:
        if not equal_exactly(left.get(key, absent), right.get(key, absent)):
            return key
    raise ValueError("the states are equal")


@checker("replay")
def check(run: RunIndex) -> None:
    machine = run.required_datatype().sequential()
    responded = {
        record.id: record
        for record in run.history.operations
        if (record.stable or record.final) and run.position_of(record) is not None
    }
    for index in range(len(run.committed)):
        dot = run.committed_id(index)
        request = run.request(dot)
        if request is None:
            raise Violation(f"{dot}, committed at index {index}, was never cast")
        expected = machine.apply(request)
        record = responded.get(dot)
        if record is None:
            continue
        last = record.stable or record.final
        assert last is not None, "the operation has a stable or final response"
        if not equal_outcomes(last.outcome, expected):
            message = (
                f"the {last.kind.value} response to {dot} is {outcome_text(last.outcome)}, but the "
                f"sequential execution of committed gives {outcome_text(expected)} at index {index}"
            )
            raise Violation(message, record, (record, last))
        _check_changed_flag(record, last)
    if run.history.quiescent:
        _check_final_states(run, machine.changes())


def _check_changed_flag(record: OperationRecord, last: ResponseRecord) -> None:
    if last.kind is not ResponseKind.FINAL or record.tentative is None:
        return
    first = record.tentative
    if last.changed == equal_outcomes(first.outcome, last.outcome):
        flag = "changed, but equals" if last.changed else "unchanged, but differs from"
        message = f"the final response to {record.id} is marked {flag} the tentative one"
        raise Violation(message, record, (record, first), (record, last))


def equal_outcomes(left: Outcome, right: Outcome) -> bool:
    return equal_exactly(left.value, right.value) and left.error == right.error


def _check_final_states(run: RunIndex, replayed: dict[Key, object]) -> None:
    for final in run.history.final_states:
        length, state = final.first + len(final.committed), dict(final.state)
        is_complete = not final.tentative and length == len(run.committed)
        if is_complete and not equal_exactly(state, replayed):
            key = first_different_key(state, replayed)
            message = (
                f"replica {final.replica} ends with another state than the sequential execution of "
                f"committed, which gives {_value_text(replayed, key)} under {short_text(key)}"
            )
            raise Violation(message, (final, f"ends with {_value_text(state, key)}"))


def _value_text(state: dict[Key, object], key: Key) -> str:
    return short_text(state[key]) if key in state else "no value"
