"""Fluctuating eventual consistency: every answer comes from one serialization of what was asked.

Section 4.3: weak operations "observe" an order that may change from one answer to the next, but
each answer is the outcome of executing, one after another, some of the operations that were cast by
then. Where a run recorded these serializations, each answer is held against its own:

- it is what the sequential execution of exactly those requests, in that order, gives;
- they were cast by then, and each is there once; its beginning is a prefix of committed;
- a session sees what it did: among them is every updating operation that it invoked earlier at the
  same incarnation of the replica, if it is weak, or was already stable when this one was invoked (a
  strong one that is not yet stable may come later, whatever its client was told).

Where the terms of a run say that replicas execute one request after another (line 62), there is
more to ask: an answer is computed on all that was delivered there before the operation was cast,
but for what the committed order puts behind it.

An answer that came with a checkpoint has no serialization of its own: it must be the final one.
Operations that were answered by their replica alone are held to the same rules.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from creek.checkers._ids import Ids
from creek.checkers._same import same
from creek.checkers.run import Run, learn
from creek.checkers.verdict import (
    Illegal,
    Ok,
    Unknown,
    Verdict,
    outcome,
    saw_answer,
    saw_invoked,
)
from creek.datatypes import DataType
from creek.history import (
    Answer,
    Cast,
    Dot,
    Key,
    Kind,
    Observed,
    OperationRecord,
    Outcome,
    Request,
)

NAME = "fluctuating"


class _Told(NamedTuple):
    """An answer and the serialization that it was computed on."""

    record: OperationRecord
    answer: Answer
    observed: Observed


def check(run: Run) -> Verdict:
    if run.datatype is None:
        return Unknown(NAME, f"no data type '{run.history.datatype}' is known: pass it along")
    told = sorted(_told(run), key=lambda each: each.observed.settled)
    tentative = any(record.tentative is not None for record in run.history.operations)
    if tentative and not told:
        return Unknown(
            NAME,
            "the run did not record on which orders answers were computed, as the fuzzer's runs do",
        )
    return (
        _in_sessions(run, run.datatype)
        or _replayed(run, run.datatype, told)
        or (run.history.terms.sequential and _complete(run, told))
        or Ok(NAME)
    )


def _told(run: Run) -> Iterator[_Told]:
    for record in run.history.operations:
        for answer in record.answers:
            if answer.observed is not None:
                yield _Told(record, answer, answer.observed)


# --- what the answers are -----------------------------------------------------------------------


def _replayed(run: Run, datatype: DataType, told: list[_Told]) -> Verdict | None:
    """In the order of their settled prefixes, so that one growing state serves them all."""
    settled = datatype.sequential()
    outcomes: list[Outcome] = []
    for each in told:
        if each.observed.settled > len(run.committed):
            message = f"{each.record.id} was answered on more than was ever committed"
            return _illegal(message, each)
        while len(outcomes) < each.observed.settled:
            request = _committed(run, len(outcomes))
            if request is None:
                return Unknown(NAME, f"no log tells what is committed at index {len(outcomes)}")
            outcomes.append(settled.apply(request))
        if problem := _valid(run, each) or _answer(run, datatype, each, settled.state):
            return problem
    return _from_checkpoints(run, datatype)


def _committed(run: Run, index: int) -> Request | None:
    dot = run.committed[index]
    return run.request(dot) if dot is not None else None


def _valid(run: Run, told: _Told) -> Illegal | None:
    seen: set[Dot] = set()
    for dot in told.observed.ids:
        index = run.index.get(dot)
        if dot in seen or (index is not None and index < told.observed.settled):
            return _illegal(f"{dot} counts twice in an answer to {told.record.id}", told)
        if dot == told.record.id or run.request_at(dot, told.answer.at_us) is None:
            message = f"an answer to {told.record.id} counts {dot}, which had not been cast"
            return _illegal(message, told)
        seen.add(dot)
    return None


def _answer(run: Run, datatype: DataType, told: _Told, settled: dict[Key, Any]) -> Illegal | None:
    machine = datatype.sequential()
    machine.state = dict(settled)
    for dot in told.observed.ids:
        request = run.request_at(dot, told.answer.at_us)
        assert request is not None, "it had been cast"
        machine.apply(request)
    expected = machine.apply(_own(run, told.record))
    got = told.answer.outcome
    if same(got.value, expected.value) and got.error == expected.error:
        return None
    message = (
        f"{told.record.id} was answered {outcome(got)}, but the order that it was executed in "
        f"gives {outcome(expected)}"
    )
    return _illegal(message, told)


def _own(run: Run, record: OperationRecord) -> Request:
    for cast in run.casts.get(record.id, ()):
        if cast.log.incarnation == record.incarnation:
            return cast.request
    return Request(record.invoked_us, record.id, record.operation, record.strong)


def _from_checkpoints(run: Run, datatype: DataType) -> Illegal | None:
    """Tentative answers without a serialization."""
    bare = {
        run.index_of(record): (record, answer)
        for record in run.history.operations
        for answer in record.answers
        if answer.kind is Kind.TENTATIVE and answer.observed is None
    }
    if not bare:
        return None
    machine = datatype.sequential()
    for index in range(len(run.committed)):
        request = _committed(run, index)
        if request is None:
            return None
        expected = machine.apply(request)
        if index in bare:
            record, answer = bare.pop(index)
            got = answer.outcome
            if not (same(got.value, expected.value) and got.error == expected.error):
                message = (
                    f"{record.id} was answered {outcome(got)} from a checkpoint, but "
                    f"committed gives {outcome(expected)}"
                )
                return Illegal(NAME, message, (saw_invoked(record), saw_answer(record, answer)))
    for record, answer in bare.values():
        message = f"{record.id} was answered from a checkpoint, but is not committed"
        return Illegal(NAME, message, (saw_invoked(record), saw_answer(record, answer)))
    return None


# --- what a session sees ------------------------------------------------------------------------


def _in_sessions(run: Run, datatype: DataType) -> Illegal | None:
    def connection(record: OperationRecord) -> tuple[int, int, int]:
        return record.session, record.replica, record.incarnation

    for _, group in groupby(sorted(run.history.operations, key=connection), key=connection):
        earlier: list[OperationRecord] = []
        for record in group:  # sorting keeps the order of invocation
            for answer in record.answers:
                if answer.observed is None:
                    continue
                told = _Told(record, answer, answer.observed)
                missing = _unseen(run, earlier, told)
                if missing is not None:
                    message = (
                        f"{record.id} was answered without {missing.id}, "
                        "which its session had done before"
                    )
                    return _illegal(message, told, missing)
            if not record.local:
                earlier.append(record)
    return None


def _unseen(run: Run, earlier: list[OperationRecord], told: _Told) -> OperationRecord | None:
    there = set(told.observed.ids)
    for each in earlier:
        if each.strong and (each.stable is None or each.stable.at_us > told.record.invoked_us):
            continue
        index = run.index_of(each)
        settled = index is not None and index < told.observed.settled
        if each.id not in there and not settled:
            return each
    return None


# --- what they are computed on ------------------------------------------------------------------


def _complete(run: Run, told: list[_Told]) -> Illegal | None:
    """As above, one growing set serves all settled prefixes."""
    delivered = _delivered_before(run)
    settled, length = Ids(), 0
    for each in told:
        for dot in run.committed[length : each.observed.settled]:
            if dot is not None:
                settled.add(dot)
        length = max(length, each.observed.settled)
        place = run.index_of(each.record)
        there = set(each.observed.ids)
        known = delivered.get((each.record.id, each.record.incarnation), Ids())
        for dot in settled.missing(known):
            index = run.index.get(dot)
            if dot in there or index is None or place is None or place < index:
                continue
            message = f"{each.record.id} was answered without {dot}, which comes before it"
            return _illegal(message, each)
    return None


def _delivered_before(run: Run) -> dict[tuple[Dot, int], Ids]:
    """What each incarnation had when it cast a request of its own."""
    found: dict[tuple[Dot, int], Ids] = {}
    for log in run.logs:
        known = Ids()
        for logged in log.events:
            if isinstance(logged.event, Cast):
                found[logged.event.request.id, log.incarnation] = known.copy()
            learn(known, logged.event)
    return found


def _illegal(message: str, told: _Told, other: OperationRecord | None = None) -> Illegal:
    seen = (saw_invoked(told.record), saw_answer(told.record, told.answer))
    return Illegal(NAME, message, (saw_invoked(other), *seen) if other is not None else seen)
