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

from creekdb.checkers.replay import equal_exactly
from creekdb.checkers.run_index import IdSet, RunIndex, add_known_ids, committed_length_after
from creekdb.checkers.verdict import (
    Illegal,
    Inconclusive,
    Ok,
    Verdict,
    invocation_witness,
    outcome_text,
    response_witness,
)
from creekdb.datatypes import DataType
from creekdb.history import (
    Dot,
    Key,
    ObservedOrder,
    OperationRecord,
    Outcome,
    RbCast,
    Request,
    ResponseKind,
    ResponseRecord,
)

NAME = "fluctuating"


class _ObservedResponse(NamedTuple):
    """An answer and the serialization that it was computed on."""

    record: OperationRecord
    response: ResponseRecord
    observed: ObservedOrder


def check(run: RunIndex) -> Verdict:
    if run.datatype is None:
        return Inconclusive(NAME, f"no data type '{run.history.datatype}' is known: pass it along")
    told = sorted(_observed_responses(run), key=lambda each: each.observed.settled)
    tentative = any(record.tentative is not None for record in run.history.operations)
    if tentative and not told:
        return Inconclusive(
            NAME,
            "the run did not record on which orders answers were computed, as the fuzzer's runs do",
        )
    return (
        _check_read_your_writes(run, run.datatype)
        or _check_replay(run, run.datatype, told)
        or (run.history.guarantees.sequential and _check_observed_completeness(run, told))
        or Ok(NAME)
    )


def _observed_responses(run: RunIndex) -> Iterator[_ObservedResponse]:
    for record in run.history.operations:
        for answer in record.answers:
            if answer.observed is not None:
                yield _ObservedResponse(record, answer, answer.observed)


# --- what the answers are -----------------------------------------------------------------------


def _check_replay(
    run: RunIndex, datatype: DataType, told: list[_ObservedResponse]
) -> Verdict | None:
    """In the order of their settled prefixes, so that one growing state serves them all."""
    settled = datatype.sequential()
    outcomes: list[Outcome] = []
    for each in told:
        if each.observed.settled > len(run.committed):
            message = f"{each.record.id} was answered on more than was ever committed"
            return _illegal(message, each)
        while len(outcomes) < each.observed.settled:
            request = _committed_request(run, len(outcomes))
            if request is None:
                return Inconclusive(
                    NAME, f"no log tells what is committed at index {len(outcomes)}"
                )
            outcomes.append(settled.apply(request))
        problem = (
            _check_observed_ids(run, each)
            or _check_observed_order(run, each)
            or _check_outcome(run, datatype, each, settled.state)
        )
        if problem is not None:
            return problem
    return _check_delivered_locally(run, told) or _check_checkpoint_responses(run, datatype)


def _committed_request(run: RunIndex, index: int) -> Request | None:
    dot = run.committed[index]
    return run.request(dot) if dot is not None else None


def _check_observed_ids(run: RunIndex, told: _ObservedResponse) -> Illegal | None:
    seen: set[Dot] = set()
    for dot in told.observed.ids:
        index = run.positions.get(dot)
        if dot in seen or (index is not None and index < told.observed.settled):
            return _illegal(f"{dot} counts twice in an answer to {told.record.id}", told)
        if dot == told.record.id or run.request_at(dot, told.response.at_us) is None:
            message = f"an answer to {told.record.id} counts {dot}, which had not been cast"
            return _illegal(message, told)
        seen.add(dot)
    return None


def _check_observed_order(run: RunIndex, told: _ObservedResponse) -> Illegal | None:
    """Committed at some time, and then tentative: what is committed later comes later, too."""
    own = () if told.record.is_local else (_own_request(run, told.record),)
    asked = (run.request_at(dot, told.response.at_us) for dot in told.observed.ids)
    requests = [*(each for each in asked if each is not None), *own]
    places = [run.positions.get(each.id, len(run.committed)) for each in requests]
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


def _check_delivered_locally(run: RunIndex, told: list[_ObservedResponse]) -> Illegal | None:
    """Was it all at the replica by the time of the answer?"""
    by_log: dict[tuple[int, int], list[_ObservedResponse]] = {}
    for each in sorted(told, key=lambda each: each.response.at_us):
        by_log.setdefault((each.record.replica, each.record.incarnation), []).append(each)
    for log in run.logs:
        known, length, at = IdSet(), 0, 0
        for each in by_log.pop((log.replica, log.incarnation), ()):
            while at < len(log.events) and log.events[at].at_us <= each.response.at_us:
                event = log.events[at].event
                add_known_ids(known, event)
                length = max(length, committed_length_after(event))
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


def _check_outcome(
    run: RunIndex, datatype: DataType, told: _ObservedResponse, settled: dict[Key, Any]
) -> Illegal | None:
    machine = datatype.sequential()
    machine.state = dict(settled)
    for dot in told.observed.ids:
        request = run.request_at(dot, told.response.at_us)
        assert request is not None, "it had been cast"
        machine.apply(request)
    expected = machine.apply(_own_request(run, told.record))
    got = told.response.outcome
    if equal_exactly(got.value, expected.value) and got.error == expected.error:
        return None
    message = (
        f"{told.record.id} was answered {outcome_text(got)}, but the order that it was executed in "
        f"gives {outcome_text(expected)}"
    )
    return _illegal(message, told)


def _own_request(run: RunIndex, record: OperationRecord) -> Request:
    for cast in run.casts.get(record.id, ()):
        if cast.log.incarnation == record.incarnation:
            return cast.request
    return Request(record.invoked_us, record.id, record.operation, record.strong)


def _check_checkpoint_responses(run: RunIndex, datatype: DataType) -> Verdict | None:
    """Tentative answers without a serialization."""
    bare: dict[int, list[tuple[OperationRecord, ResponseRecord]]] = {}
    for record in run.history.operations:
        place = run.position_of(record)
        for answer in record.answers:
            if answer.kind is not ResponseKind.TENTATIVE or answer.observed is not None:
                continue
            if place is None:
                message = f"{record.id} was answered from a checkpoint, but is not committed"
                return Illegal(
                    NAME, message, (invocation_witness(record), response_witness(record, answer))
                )
            bare.setdefault(place, []).append((record, answer))
    machine = datatype.sequential()
    for index in range(max(bare, default=-1) + 1):
        request = _committed_request(run, index)
        if request is None:
            return Inconclusive(NAME, f"no log tells what is committed at index {index}")
        expected = machine.apply(request)
        for record, answer in bare.get(index, ()):
            got = answer.outcome
            if not (equal_exactly(got.value, expected.value) and got.error == expected.error):
                message = (
                    f"{record.id} was answered {outcome_text(got)} from a checkpoint, but "
                    f"committed gives {outcome_text(expected)}"
                )
                return Illegal(
                    NAME, message, (invocation_witness(record), response_witness(record, answer))
                )
    return None


# --- what a session sees ------------------------------------------------------------------------


def _check_read_your_writes(run: RunIndex, datatype: DataType) -> Illegal | None:
    def connection(record: OperationRecord) -> tuple[int, int, int]:
        return record.session, record.replica, record.incarnation

    for _, group in groupby(sorted(run.history.operations, key=connection), key=connection):
        earlier: list[OperationRecord] = []
        for record in group:  # sorting keeps the order of invocation
            for answer in record.answers:
                if answer.observed is None:
                    continue
                told = _ObservedResponse(record, answer, answer.observed)
                missing = _first_unobserved_write(run, earlier, told)
                if missing is not None:
                    message = (
                        f"{record.id} was answered without {missing.id}, "
                        "which its session had done before"
                    )
                    return _illegal(message, told, missing)
            if not record.is_local:
                earlier.append(record)
    return None


def _first_unobserved_write(
    run: RunIndex, earlier: list[OperationRecord], told: _ObservedResponse
) -> OperationRecord | None:
    there = set(told.observed.ids)
    for each in earlier:
        if each.strong and (each.stable is None or each.stable.at_us > told.record.invoked_us):
            continue
        index = run.position_of(each)
        settled = index is not None and index < told.observed.settled
        if each.id not in there and not settled:
            return each
    return None


# --- what they are computed on ------------------------------------------------------------------


def _check_observed_completeness(run: RunIndex, told: list[_ObservedResponse]) -> Illegal | None:
    """As above, one growing set serves all settled prefixes."""
    delivered = _delivered_before_cast(run)
    settled, length = IdSet(), 0
    for each in told:
        for dot in run.committed[length : each.observed.settled]:
            if dot is not None:
                settled.add(dot)
        length = max(length, each.observed.settled)
        place = run.position_of(each.record)
        there = set(each.observed.ids)
        known = delivered.get((each.record.id, each.record.incarnation), IdSet())
        for dot in settled.missing(known):
            index = run.positions.get(dot)
            if dot in there or index is None or place is None or place < index:
                continue
            message = f"{each.record.id} was answered without {dot}, which comes before it"
            return _illegal(message, each)
    return None


def _delivered_before_cast(run: RunIndex) -> dict[tuple[Dot, int], IdSet]:
    """What each incarnation had when it cast a request of its own."""
    found: dict[tuple[Dot, int], IdSet] = {}
    for log in run.logs:
        known = IdSet()
        for logged in log.events:
            if isinstance(logged.event, RbCast):
                found[logged.event.request.id, log.incarnation] = known.copy()
            add_known_ids(known, logged.event)
    return found


def _illegal(
    message: str, told: _ObservedResponse, other: OperationRecord | None = None
) -> Illegal:
    seen = (invocation_witness(told.record), response_witness(told.record, told.response))
    return Illegal(NAME, message, (invocation_witness(other), *seen) if other is not None else seen)
