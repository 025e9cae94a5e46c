"""Clients get the answers that the paper promises, and no others.

Lines 65-74 and 55-57: a weak operation gets one response and, later, word of how it ended; a strong
one gets tentative responses, "one for each time the operation is (re)executed", then one stable
response, and nothing after it. A stable or final one comes only once the request is on committed,
and only a final one, which is for weak operations, says that it differs from what was told.
Where nothing crashed, everybody is answered; one whose operation was kept from the order of all,
because it only reads, is not told how it ended. Where the terms of a run exclude tentative answers,
weak and strong operations alike get one answer, and it is stable.
"""

from itertools import pairwise

from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import (
    Illegal,
    Ok,
    Verdict,
    Witness,
    invocation_witness,
    response_witness,
)
from creekdb.history import CheckpointInstalled, Committed, Dot, OperationRecord, ResponseKind

NAME = "answers"

_WEAK_KINDS = ((), (ResponseKind.TENTATIVE,), (ResponseKind.TENTATIVE, ResponseKind.FINAL))
_STABLE_ONLY_KINDS = ((), (ResponseKind.STABLE,))


def check(run: RunIndex) -> Verdict:
    committed_us = _committed_us(run)
    for record in run.history.operations:
        problem = _check_response_kinds(record, run.history.guarantees.tentative)
        if problem is None:
            problem = _check_committed_before_response(
                record, committed_us[record.replica, record.incarnation]
            )
        if problem is not None:
            return problem
    return _check_liveness(run) or Ok(NAME)


def _check_response_kinds(record: OperationRecord, tentative: bool) -> Illegal | None:
    answers = record.answers
    kinds = tuple(each.kind for each in answers)
    if not tentative and kinds not in _STABLE_ONLY_KINDS:
        return _illegal(f"{record.id} got another answer than a single stable one", record)
    if tentative and not record.strong and kinds not in _WEAK_KINDS:
        return _illegal(f"weak {record.id} was answered more than once", record)
    if record.strong and any(each.kind is ResponseKind.STABLE for each in answers[:-1]):
        return _illegal(f"strong {record.id} was answered again after its stable answer", record)
    if record.strong and ResponseKind.FINAL in kinds:
        return _illegal(f"strong {record.id} got the final answer of a weak one", record)
    if any(each.changed and each.kind is not ResponseKind.FINAL for each in answers):
        return _illegal(f"an answer to {record.id} that is not final claims a change", record)
    times = [record.invoked_us, *(each.at_us for each in answers)]
    if any(later < earlier for earlier, later in pairwise(times)):
        return _illegal(f"the answers to {record.id} go back in time", record)
    return None


def _check_committed_before_response(
    record: OperationRecord, committed_us: dict[Dot, int]
) -> Illegal | None:
    last = record.stable or record.final
    if last is None:
        return None
    since = committed_us.get(record.id)
    if since is None or last.at_us < since:
        when = "at all" if since is None else f"before {since / 1000:.3f} ms"
        message = (
            f"{record.id} got its {last.kind.value} answer, but was not committed there {when}"
        )
        return _illegal(message, record)
    return None


def _committed_us(run: RunIndex) -> dict[tuple[int, int], dict[Dot, int]]:
    """Since when each incarnation has had its replica's own requests on committed."""
    own = _own_request_ids(run)
    since: dict[tuple[int, int], dict[Dot, int]] = {place: {} for place in own}
    for log in run.logs:
        place = log.replica, log.incarnation
        mine = since.setdefault(place, {})
        waiting = own.get(place, set())
        for logged in log.events:
            match logged.event:
                case Committed(id=dot) if dot in waiting:
                    mine[dot] = logged.at_us
                    waiting.discard(dot)
                case CheckpointInstalled(ids=dots):
                    for dot in [dot for dot in waiting if dot in dots]:
                        mine[dot] = logged.at_us
                        waiting.discard(dot)
                case _:
                    pass
    return since


def _own_request_ids(run: RunIndex) -> dict[tuple[int, int], set[Dot]]:
    own: dict[tuple[int, int], set[Dot]] = {}
    for record in run.history.operations:
        own.setdefault((record.replica, record.incarnation), set()).add(record.id)
    return own


def _check_liveness(run: RunIndex) -> Illegal | None:
    if not run.history.quiescent:
        return None
    up = {(log.replica, log.incarnation) for log in run.last_logs.values()}
    for record in run.history.operations:
        if (record.replica, record.incarnation) not in up:
            continue
        if not record.answers:
            return _illegal(f"liveness: {record.id} never got an answer", record)
        if record.stable is None and record.final is None and not record.is_local:
            kind = "stable" if record.strong or not run.history.guarantees.tentative else "final"
            return _illegal(f"liveness: {record.id} never got a {kind} answer", record)
    return None


def _illegal(message: str, record: OperationRecord) -> Illegal:
    seen: tuple[Witness, ...] = tuple(
        response_witness(record, each) for each in record.answers[-4:]
    )
    return Illegal(NAME, message, (invocation_witness(record), *seen))
