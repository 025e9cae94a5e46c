"""Clients get the responses that the paper specifies, and no others.

Lines 65-74 and 55-57 specify one tentative and one final response to a weak operation. A strong
operation gets tentative responses, "one for each time the operation is (re)executed". Its last
response is the only stable one. A stable or final response is sent after the request is on
committed. Only final responses, which only weak operations get, may be marked as changed.

Without crashes, every operation gets its responses. A read-only operation that is not part of the
common order gets no final response. If a scheme has no tentative responses, weak and strong
operations get one stable response each.
"""

from collections import defaultdict
from itertools import pairwise

from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import Violation, checker
from creekdb.history import CheckpointInstalled, Committed, Dot, OperationRecord, ResponseKind

_WEAK_KINDS = ((), (ResponseKind.TENTATIVE,), (ResponseKind.TENTATIVE, ResponseKind.FINAL))
_STABLE_ONLY_KINDS = ((), (ResponseKind.STABLE,))


@checker("responses")
def check(run: RunIndex) -> None:
    committed_us = _committed_us(run)
    for record in run.history.operations:
        _check_response_kinds(record, run.history.guarantees.tentative)
        _check_committed_before_response(record, committed_us[record.replica, record.incarnation])
    if run.history.quiescent:
        _check_liveness(run)


def _check_response_kinds(record: OperationRecord, tentative: bool) -> None:
    responses = record.responses
    kinds = tuple(each.kind for each in responses)
    if not tentative and kinds not in _STABLE_ONLY_KINDS:
        raise _violation(f"{record.id} got responses other than a single stable one", record)
    if tentative and not record.strong and kinds not in _WEAK_KINDS:
        message = f"weak {record.id} got responses other than one tentative and one final"
        raise _violation(message, record)
    if record.strong and any(each.kind is ResponseKind.STABLE for each in responses[:-1]):
        raise _violation(f"strong {record.id} got a response after its stable one", record)
    if record.strong and ResponseKind.FINAL in kinds:
        raise _violation(f"strong {record.id} got a final response", record)
    if any(each.changed and each.kind is not ResponseKind.FINAL for each in responses):
        raise _violation(f"a response to {record.id} is marked changed, but is not final", record)
    times = [record.invoked_us, *(each.at_us for each in responses)]
    if any(later < earlier for earlier, later in pairwise(times)):
        raise _violation(f"the invocation and responses of {record.id} go back in time", record)


def _check_committed_before_response(record: OperationRecord, committed_us: dict[Dot, int]) -> None:
    last = record.stable or record.final
    if last is None:
        return
    since_us = committed_us.get(record.id)
    if since_us is None or last.at_us < since_us:
        bound = "at all" if since_us is None else f"before {since_us / 1000:.3f} ms"
        message = (
            f"{record.id} got its {last.kind.value} response, but its replica had not committed it "
            f"{bound}"
        )
        raise _violation(message, record)


def _committed_us(run: RunIndex) -> defaultdict[tuple[int, int], dict[Dot, int]]:
    """Return the commit time of each incarnation's own requests, by incarnation."""
    own_ids: defaultdict[tuple[int, int], set[Dot]] = defaultdict(set)
    for record in run.history.operations:
        own_ids[record.replica, record.incarnation].add(record.id)
    committed_us: defaultdict[tuple[int, int], dict[Dot, int]] = defaultdict(dict)
    for log in run.logs:
        times_us = committed_us[log.replica, log.incarnation]
        pending = own_ids[log.replica, log.incarnation]
        for logged in log.events:
            match logged.event:
                case Committed(id=dot) if dot in pending:
                    times_us[dot] = logged.at_us
                    pending.discard(dot)
                case CheckpointInstalled(ids=dots):
                    for dot in [dot for dot in pending if dot in dots]:
                        times_us[dot] = logged.at_us
                        pending.discard(dot)
                case _:
                    pass
    return committed_us


def _check_liveness(run: RunIndex) -> None:
    up = {(log.replica, log.incarnation) for log in run.last_logs.values()}
    for record in run.history.operations:
        if (record.replica, record.incarnation) not in up:
            continue
        if not record.responses:
            raise _violation(f"liveness: {record.id} never got a response", record)
        if record.stable is None and record.final is None and not record.is_local:
            kind = "stable" if record.strong or not run.history.guarantees.tentative else "final"
            raise _violation(f"liveness: {record.id} never got a {kind} response", record)


def _violation(message: str, record: OperationRecord) -> Violation:
    return Violation(message, record, *((record, each) for each in record.responses[-4:]))
