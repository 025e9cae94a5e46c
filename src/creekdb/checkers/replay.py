"""Exact equality of values: 1, 1.0 and True are three answers, and NaN is the same as itself.

Replaying the committed order sequentially gives exactly the last answers, and the state.

Section 4.3: "the stable return values produced by Creek are such that they can be obtained by a
sequential execution of all operations in some total order S"; "S corresponds to the order of
operations on the committed list". The same goes for the final answer to a weak operation, which
says too whether it differs from what the client was told at first.
"""

from typing import Any

import msgspec

from creekdb.checkers.run_index import Run
from creekdb.checkers.verdict import (
    Illegal,
    Ok,
    Unknown,
    Verdict,
    outcome,
    saw_answer,
    saw_final,
    saw_invoked,
    short,
)
from creekdb.history import Answer, Dot, FinalState, Key, Kind, OperationRecord, Outcome

_encode = msgspec.msgpack.Encoder().encode


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if type(left) is tuple:
        return len(left) == len(right) and (_same_bytes(left, right) or all(map(same, left, right)))
    if type(left) is dict:
        return left.keys() == right.keys() and same(
            tuple(left.values()), tuple([right[key] for key in left])
        )
    if type(left) is float:
        return repr(left) == repr(right)
    return bool(left == right)


def _same_bytes(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """What is encoded alike is the same; but dicts that are the same may have different orders."""
    try:
        return _encode(left) == _encode(right)
    except (OverflowError, TypeError, ValueError):
        return False  # a number too large, say


def different_key(left: dict[Any, Any], right: dict[Any, Any]) -> Any:
    """A key under which two states differ, the first in their order; only if they do differ."""
    absent = object()
    for key in [*left, *right]:
        if not same(left.get(key, absent), right.get(key, absent)):
            return key
    raise ValueError("the states are the same")


NAME = "replay"


def check(run: Run) -> Verdict:
    if run.datatype is None:
        return Unknown(NAME, f"no data type '{run.history.datatype}' is known: pass it along")
    machine = run.datatype.sequential()
    answered = _answered(run)
    for index, dot in enumerate(run.committed):
        if dot is None:
            return Unknown(NAME, f"no log tells which request is committed at index {index}")
        request = run.request(dot)
        if request is None:
            return Illegal(NAME, f"{dot}, committed at index {index}, was never cast")
        expected = machine.apply(request)
        record = answered.get(dot)
        if record is None:
            continue
        last = record.stable or record.final
        assert last is not None, "it was answered for good"
        if not _equal(last.outcome, expected):
            message = (
                f"the {last.kind.value} answer to {dot} is {outcome(last.outcome)}, but the "
                f"sequential execution of committed gives {outcome(expected)} at index {index}"
            )
            return Illegal(NAME, message, (saw_invoked(record), saw_answer(record, last)))
        if problem := _changed(record, last):
            return problem
    if run.history.quiescent:
        return _states(run, machine.changes()) or Ok(NAME)
    return Ok(NAME)


def _answered(run: Run) -> dict[Dot, OperationRecord]:
    return {
        record.id: record
        for record in run.history.operations
        if (record.stable or record.final) and run.index_of(record) is not None
    }


def _changed(record: OperationRecord, last: Answer) -> Illegal | None:
    if last.kind is not Kind.FINAL or record.tentative is None:
        return None
    told = record.tentative
    if last.changed == _equal(told.outcome, last.outcome):
        word = "differs from" if last.changed else "is"
        message = f"the final answer to {record.id} claims that it {word} what was told"
        seen = (saw_answer(record, each) for each in (told, last))
        return Illegal(NAME, message, (saw_invoked(record), *seen))
    return None


def _equal(left: Outcome, right: Outcome) -> bool:
    return same(left.value, right.value) and left.error == right.error


def _states(run: Run, replayed: dict[Key, object]) -> Illegal | None:
    for final in run.history.finals:
        if _settled(run, final) and not same(state := dict(final.state), replayed):
            key = different_key(state, replayed)
            message = (
                f"replica {final.replica} ends with another state than the sequential execution of "
                f"committed: under {short(key)} that leaves {_at(replayed, key)}"
            )
            return Illegal(NAME, message, (saw_final(final, f"ends with {_at(state, key)}"),))
    return None


def _settled(run: Run, final: FinalState) -> bool:
    return not final.tentative and final.first + len(final.committed) == len(run.committed)


def _at(state: dict[Key, object], key: Key) -> str:
    return short(state[key]) if key in state else "nothing"
