"""Reliable broadcast keeps its word (Section 3.2), and delivers each origin's requests in order.

"(1) validity: if a correct replica RB-casts some message m, then the replica eventually RB-delivers
m, (2) uniform integrity: for any message m, every process RB-delivers m at most once and only if m
was previously RB-cast, and (3) agreement: if a correct replica RB-delivers some message m, then
eventually all replicas RB-deliver m."

A replica RB-delivers its own request by casting it (line 24), and what a checkpoint covers by
installing it. What others could know to be delivered is delivered for ever: a replica that restarts
finds it on its disk. Since an identifier stands for one message, casting another request under it
is a violation, unless the first was lost in a crash before anybody but its own replica saw it.
"""

from itertools import pairwise

from creekdb.checkers.run_index import IdSet, LoggedCast, RunIndex, add_known_ids
from creekdb.checkers.verdict import (
    Illegal,
    Ok,
    Verdict,
    Witness,
    event_witness,
    final_state_witness,
    response_witness,
)
from creekdb.history import (
    CheckpointInstalled,
    Committed,
    Dot,
    LoggedEvent,
    OperationRecord,
    RbCast,
    RbDelivered,
    ReplicaLog,
)

NAME = "reliable_broadcast"


def check(run: RunIndex) -> Verdict:
    for log in run.logs:
        if problem := _check_integrity(run, log):
            return problem
    return (
        _check_id_reuse(run)
        or _check_recovery(run)
        or _check_validity(run)
        or _check_agreement(run)
        or Ok(NAME)
    )


def _check_integrity(run: RunIndex, log: ReplicaLog) -> Illegal | None:
    known = IdSet()
    for logged in log.events:
        match logged.event:
            case RbCast(request=request):
                if request.id.replica != log.replica:
                    message = f"{request.id} was cast by replica {log.replica}"
                    return Illegal(NAME, message, (event_witness(log, logged),))
                if request.id in known:
                    message = f"event number reused: {request.id} was there when it was cast"
                    return Illegal(
                        NAME, message, _repeated_delivery_witnesses(log, logged, request.id)
                    )
                if problem := _check_fifo(run, log, logged, request.id, known):
                    return problem
            case RbDelivered(id=dot):
                if problem := _check_delivery(run, log, logged, dot, known):
                    return problem
            case CheckpointInstalled(ids=dots):
                known.update(dots)
            case _:
                pass
    return None


def _check_delivery(
    run: RunIndex, log: ReplicaLog, logged: LoggedEvent, dot: Dot, known: IdSet
) -> Illegal | None:
    if dot in known:
        message = f"{dot} was RB-delivered twice, or after a checkpoint that covers it"
        return Illegal(NAME, message, _repeated_delivery_witnesses(log, logged, dot))
    if run.request_at(dot, logged.at_us) is None:
        message = f"{dot} was RB-delivered, but nobody had RB-cast it"
        return Illegal(NAME, message, (event_witness(log, logged),))
    return _check_fifo(run, log, logged, dot, known)


def _check_fifo(
    run: RunIndex, log: ReplicaLog, logged: LoggedEvent, dot: Dot, known: IdSet
) -> Illegal | None:
    """FIFO per origin; `known` grows by `dot`."""
    if dot.event > 1 and Dot(dot.replica, dot.event - 1) not in known:
        message = f"{dot} was delivered before {Dot(dot.replica, dot.event - 1)}"
        return Illegal(NAME, message, (event_witness(log, logged),))
    known.add(dot)
    return None


# --- an identifier is one message -------------------------------------------------------------


def _check_id_reuse(run: RunIndex) -> Illegal | None:
    reused = {dot: casts for dot, casts in run.casts.items() if len(casts) > 1}
    if reused:
        records = {(each.id, each.incarnation): each for each in run.history.operations}
        seen = _visible_events_by_id(run, reused)
        for dot, casts in reused.items():
            if problem := _check_reuse_of(dot, casts, seen[dot], records):
                return problem
    return _check_duplicate_responses(run)


def _visible_events_by_id(
    run: RunIndex, reused: dict[Dot, list[LoggedCast]]
) -> dict[Dot, list[tuple[ReplicaLog, LoggedEvent]]]:
    """Where the identifiers show outside of the log that cast them, or on any committed."""
    seen: dict[Dot, list[tuple[ReplicaLog, LoggedEvent]]] = {dot: [] for dot in reused}
    for log, logged in run.events():
        match logged.event:
            case RbDelivered(id=dot) | Committed(id=dot):
                if dot in seen:
                    seen[dot].append((log, logged))
            case CheckpointInstalled(ids=dots):
                for dot in reused:
                    if dot in dots:
                        seen[dot].append((log, logged))
            case _:
                pass
    return seen


def _check_reuse_of(
    dot: Dot,
    casts: list[LoggedCast],
    seen: list[tuple[ReplicaLog, LoggedEvent]],
    records: dict[tuple[Dot, int], OperationRecord],
) -> Illegal | None:
    """What is seen before the next cast is the earlier request; after it, the later one."""
    for first, second in pairwise(casts):
        if first.request == second.request:
            continue
        witness: Witness | None = None
        record = records.get((dot, first.log.incarnation))
        if record is not None and record.answers:
            witness = response_witness(record, record.answers[0])
        for log, logged in seen:
            if first.logged.at_us <= logged.at_us < second.logged.at_us:
                witness = witness or event_witness(log, logged)
        if witness is not None:
            message = f"event number reused: {dot} names two requests, and the first was seen"
            cast = (event_witness(each.log, each.logged) for each in (first, second))
            return Illegal(NAME, message, (*cast, witness))
    return None


def _check_duplicate_responses(run: RunIndex) -> Illegal | None:
    answered: dict[Dot, OperationRecord] = {}
    for record in run.history.operations:
        if record.answers and not record.is_local:  # no other replica heard of it
            other = answered.setdefault(record.id, record)
            if other is not record:
                message = f"event number reused: two operations were answered as {record.id}"
                seen = (response_witness(each, each.answers[0]) for each in (other, record))
                return Illegal(NAME, message, tuple(seen))
    return None


def _check_recovery(run: RunIndex) -> Illegal | None:
    for old, new in pairwise(run.logs):
        if old.replica == new.replica and not new.has_empty_disk:
            had, found = IdSet(), IdSet()
            for logged in old.visible_events:
                add_known_ids(had, logged.event)
            for logged in new.events:
                if logged.at_us == new.started_us:
                    add_known_ids(found, logged.event)
            missing = found.first_missing(had)
            if missing is not None:
                message = f"replica {new.replica} restarted without {missing}"
                return Illegal(
                    NAME,
                    message,
                    _repeated_delivery_witnesses(old, old.visible_events[-1], missing)[:1],
                )
    return None


# --- liveness ---------------------------------------------------------------------------------


def _check_validity(run: RunIndex) -> Illegal | None:
    for record in run.history.operations:
        if not record.answers or _is_local_read(run, record):
            continue
        answer = response_witness(record, record.answers[0])
        if not any(
            cast.log.incarnation == record.incarnation
            and cast.request.operation == record.operation
            and cast.request.strong >= record.strong
            for cast in run.casts.get(record.id, ())
        ):
            return Illegal(NAME, f"{record.id} was answered but never RB-cast", (answer,))
        known = run.known_ids.get(record.replica)
        if run.history.quiescent and known is not None and record.id not in known:
            message = f"replica {record.replica} ends without its own {record.id}"
            return Illegal(NAME, message, (answer,))
    return None


def _is_local_read(run: RunIndex, record: OperationRecord) -> bool:
    """Section 4.4: a weak operation that only reads may be answered by its replica alone."""
    if not record.is_local or record.strong:
        return False
    return run.datatype is None or run.datatype.is_readonly(record.operation.name)


def _check_agreement(run: RunIndex) -> Illegal | None:
    if not run.history.quiescent:
        return None
    everything = IdSet()
    for known in run.known_ids.values():
        everything.update(known)
    for final in run.history.final_states:
        missing = run.known_ids.get(final.replica, IdSet()).first_missing(everything)
        if missing is not None:
            owner = next(each for each, known in run.known_ids.items() if missing in known)
            message = f"replica {owner} has {missing}, which replica {final.replica} never got"
            witness = final_state_witness(final, f"ends without {missing}")
            return Illegal(NAME, message, (*_first_delivery_witness(run, owner, missing), witness))
    return None


def _first_delivery_witness(run: RunIndex, replica: int, dot: Dot) -> tuple[Witness, ...]:
    log = run.last_logs[replica]
    return tuple(event_witness(log, each) for each in log.events if _is_delivery_of(each, dot))[:1]


def _repeated_delivery_witnesses(
    log: ReplicaLog, last: LoggedEvent, dot: Dot
) -> tuple[Witness, ...]:
    """What first brought `dot` to this log, and what brought it again."""
    first = next(each for each in log.events if _is_delivery_of(each, dot))
    return event_witness(log, first), event_witness(log, last)


def _is_delivery_of(logged: LoggedEvent, dot: Dot) -> bool:
    match logged.event:
        case RbCast(request=request):
            return request.id == dot
        case RbDelivered(id=delivered):
            return delivered == dot
        case CheckpointInstalled(ids=dots):
            return dot in dots
        case _:
            return False
