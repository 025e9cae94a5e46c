"""Fluctuating eventual consistency: every answer comes from one serialization of what was asked.

Section 4.3: weak operations "observe" an order that may change from one answer to the next, but
each answer is the outcome of executing, one after another, some of the operations that were cast by
then. Where a run recorded these serializations, each answer is held against its own:

- it is what the sequential execution of exactly those requests, in that order, gives;
- they were delivered where it was answered, and each is there once; what it takes for settled had
  been committed there;
- they stand, with the operation itself behind them, as on "committed · tentative": first some that
  are committed, in that order, then others in the order of their timestamps;
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

from creekdb.checkers.replay import same
from creekdb.checkers.run_index import Ids, Run, learn, length_after
from creekdb.checkers.verdict import (
    Illegal,
    Ok,
    Unknown,
    Verdict,
    outcome,
    saw_answer,
    saw_invoked,
)
from creekdb.datatypes import DataType
from creekdb.history import (
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
        problem = (
            _valid(run, each) or _in_order(run, each) or _answer(run, datatype, each, settled.state)
        )
        if problem is not None:
            return problem
    return _there(run, told) or _from_checkpoints(run, datatype)


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


def _in_order(run: Run, told: _Told) -> Illegal | None:
    """Committed at some time, and then tentative: what is committed later comes later, too."""
    own = () if told.record.local else (_own(run, told.record),)
    asked = (run.request_at(dot, told.answer.at_us) for dot in told.observed.ids)
    requests = [*(each for each in asked if each is not None), *own]
    places = [run.index.get(each.id, len(run.committed)) for each in requests]
    tentative = len(requests)
    """From where on they stand by their timestamps."""
    while tentative and (
        tentative == len(requests) or requests[tentative - 1].key < requests[tentative].key
    ):
        tentative -= 1
    for at in range(1, len(requests)):
        before = places[min(at, tentative) - 1] if tentative else -1
        if before >= places[at]:
            message = (
                f"{requests[at].id} stands behind {requests[at - 1].id} in an answer to "
                f"{told.record.id}, neither by place nor by timestamp"
            )
            return _illegal(message, told)
    return None


def _there(run: Run, told: list[_Told]) -> Illegal | None:
    """Was it all at the replica by the time of the answer?"""
    by_log: dict[tuple[int, int], list[_Told]] = {}
    for each in sorted(told, key=lambda each: each.answer.at_us):
        by_log.setdefault((each.record.replica, each.record.incarnation), []).append(each)
    for log in run.logs:
        known, length, at = Ids(), 0, 0
        for each in by_log.pop((log.replica, log.incarnation), ()):
            while at < len(log.events) and log.events[at].at_us <= each.answer.at_us:
                event = log.events[at].event
                learn(known, event)
                length = max(length, length_after(event))
                at += 1
            if each.observed.settled > length:
                message = (
                    f"{each.record.id} was answered on {each.observed.settled} settled requests, "
                    f"when {length} were committed there"
                )
                return _illegal(message, each)
            for dot in each.observed.ids:
                if dot not in known:
                    message = f"{each.record.id} was answered on {dot}, which was not there yet"
                    return _illegal(message, each)
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


def _from_checkpoints(run: Run, datatype: DataType) -> Verdict | None:
    """Tentative answers without a serialization."""
    bare: dict[int, list[tuple[OperationRecord, Answer]]] = {}
    for record in run.history.operations:
        place = run.index_of(record)
        for answer in record.answers:
            if answer.kind is not Kind.TENTATIVE or answer.observed is not None:
                continue
            if place is None:
                message = f"{record.id} was answered from a checkpoint, but is not committed"
                return Illegal(NAME, message, (saw_invoked(record), saw_answer(record, answer)))
            bare.setdefault(place, []).append((record, answer))
    machine = datatype.sequential()
    for index in range(max(bare, default=-1) + 1):
        request = _committed(run, index)
        if request is None:
            return Unknown(NAME, f"no log tells what is committed at index {index}")
        expected = machine.apply(request)
        for record, answer in bare.get(index, ()):
            got = answer.outcome
            if not (same(got.value, expected.value) and got.error == expected.error):
                message = (
                    f"{record.id} was answered {outcome(got)} from a checkpoint, but "
                    f"committed gives {outcome(expected)}"
                )
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
