"""Replaying the committed order sequentially gives exactly the stable answers, and the state.

Section 4.3: "the stable return values produced by Creek are such that they can be obtained by a
sequential execution of all operations in some total order S"; "S corresponds to the order of
operations on the committed list".
"""

from creek.checkers._same import different_key, same
from creek.checkers.run import Run
from creek.checkers.verdict import (
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
from creek.history import Dot, FinalState, Key, OperationRecord

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
        if record is None or record.stable is None:
            continue
        got = record.stable.outcome
        if not (same(got.value, expected.value) and got.error == expected.error):
            message = (
                f"the stable answer to {dot} is {outcome(got)}, but the sequential execution of "
                f"committed gives {outcome(expected)} at index {index}"
            )
            return Illegal(NAME, message, (saw_invoked(record), saw_answer(record, record.stable)))
    if run.history.quiescent:
        return _states(run, dict(machine.state)) or Ok(NAME)
    return Ok(NAME)


def _answered(run: Run) -> dict[Dot, OperationRecord]:
    return {
        record.id: record
        for record in run.history.operations
        if record.strong and record.stable is not None and run.index_of(record) is not None
    }


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
