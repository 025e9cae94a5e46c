"""Reliable broadcast has its properties (Section 3.2), and delivers in FIFO order per origin.

- "(1) validity: if a correct replica RB-casts some message m, then the replica eventually
  RB-delivers m"
- "(2) uniform integrity: for any message m, every process RB-delivers m at most once and only if m
  was previously RB-cast"
- "(3) agreement: if a correct replica RB-delivers some message m, then eventually all replicas
  RB-deliver m"

A replica RB-delivers its own request by casting it (line 24), and the requests of a checkpoint by
installing it. A delivery that other processes could observe is permanent: a restarted replica
recovers it from disk. An identifier denotes one message, so casting another request under it is a
violation. The only exception is a first request that was lost in a crash before any other process
observed it. If tentative responses did not wait for the disk, a client may have observed it.
"""

from itertools import pairwise

from creekdb.checkers.run_index import IdSet, LoggedCast, RunIndex, add_rb_delivered, rb_delivered
from creekdb.checkers.verdict import Evidence, Violation, checker
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


@checker("reliable_broadcast")
def check(run: RunIndex) -> None:
    for log in run.logs:
        _check_integrity(run, log)
    _check_id_reuse(run)
    _check_recovery(run)
    _check_validity(run)
    if run.history.quiescent:
        _check_agreement(run)


def _check_integrity(run: RunIndex, log: ReplicaLog) -> None:
    delivered = IdSet()
    for logged in log.events:
        match logged.event:
            case RbCast(request=request):
                dot = request.id
                if dot.replica != log.replica:
                    message = f"{dot} was cast by replica {log.replica}, not by its origin"
                    raise Violation(message, (log, logged))
                if dot in delivered:
                    message = f"event number reused: {dot} was delivered before it was cast"
                    raise Violation(message, _first_delivery(log, dot), (log, logged))
            case RbDelivered(id=dot):
                if dot in delivered:
                    message = f"{dot} was RB-delivered twice, or after a checkpoint that covers it"
                    raise Violation(message, _first_delivery(log, dot), (log, logged))
                if run.request_at(dot, logged.at_us) is None:
                    message = f"{dot} was RB-delivered, but had not been RB-cast"
                    raise Violation(message, (log, logged))
            case CheckpointInstalled(ids=dots):
                delivered.update(dots)
                continue
            case _:
                continue
        if dot.event > 1 and Dot(dot.replica, dot.event - 1) not in delivered:
            message = f"{dot} was delivered before {Dot(dot.replica, dot.event - 1)}"
            raise Violation(message, (log, logged))
        delivered.add(dot)


# --- unique identifiers -----------------------------------------------------------------------


def _check_id_reuse(run: RunIndex) -> None:
    reused = {dot: casts for dot, casts in run.casts.items() if len(casts) > 1}
    if reused:
        records = {(each.id, each.incarnation): each for each in run.history.operations}
        visible = _visible_events_by_id(run, reused)
        for dot, casts in reused.items():
            _check_reuse_of(run, dot, casts, visible[dot], records)
    _check_duplicate_responses(run)


def _visible_events_by_id(
    run: RunIndex, reused: dict[Dot, list[LoggedCast]]
) -> dict[Dot, list[tuple[ReplicaLog, LoggedEvent]]]:
    """Return the visible deliveries and commits of the identifiers, in any log."""
    visible: dict[Dot, list[tuple[ReplicaLog, LoggedEvent]]] = {dot: [] for dot in reused}
    for log, logged in run.events():
        match logged.event:
            case RbDelivered(id=dot) | Committed(id=dot):
                if dot in visible:
                    visible[dot].append((log, logged))
            case CheckpointInstalled(ids=dots):
                for dot in reused:
                    if dot in dots:
                        visible[dot].append((log, logged))
            case _:
                pass
    return visible


def _check_reuse_of(
    run: RunIndex,
    dot: Dot,
    casts: list[LoggedCast],
    visible: list[tuple[ReplicaLog, LoggedEvent]],
    records: dict[tuple[Dot, int], OperationRecord],
) -> None:
    """Check that no process observed the earlier request before the later cast."""
    for first, second in pairwise(casts):
        if first.request == second.request:
            continue
        evidence: Evidence | None = None
        record = records.get((dot, first.log.incarnation))
        if record is not None and record.responses and not run.may_be_lost(record):
            evidence = (record, record.responses[0])
        for log, logged in visible:
            if first.logged.at_us <= logged.at_us < second.logged.at_us:
                evidence = evidence or (log, logged)
        if evidence is not None:
            message = f"event number reused: {dot} denotes two requests, and the first was observed"
            raise Violation(message, first, second, evidence)


def _check_duplicate_responses(run: RunIndex) -> None:
    responded: dict[Dot, OperationRecord] = {}
    for record in run.history.operations:
        if record.is_local or run.may_be_lost(record):
            continue  # local operations have no unique identifier
        if record.responses:
            other = responded.setdefault(record.id, record)
            if other is not record:
                message = f"event number reused: two operations got responses as {record.id}"
                first, second = other.responses[0], record.responses[0]
                raise Violation(message, (other, first), (record, second))


def _check_recovery(run: RunIndex) -> None:
    for old, new, recovered in run.recoveries():
        missing = rb_delivered(recovered).first_missing(rb_delivered(old.visible_events))
        if missing is not None:
            message = f"replica {new.replica} restarted without {missing}"
            raise Violation(message, _first_delivery(old, missing))


# --- liveness ---------------------------------------------------------------------------------


def _check_validity(run: RunIndex) -> None:
    for record in run.history.operations:
        if not record.responses or _is_local_read(run, record):
            continue
        response = (record, record.responses[0])
        if not any(
            cast.log.incarnation == record.incarnation
            and cast.request.operation == record.operation
            and cast.request.strong >= record.strong
            for cast in run.casts.get(record.id, ())
        ):
            raise Violation(f"{record.id} got a response, but was never RB-cast", response)
        delivered = run.rb_delivered_ids.get(record.replica)
        if not run.history.quiescent or delivered is None or run.may_be_lost(record):
            continue
        if record.id not in delivered:
            raise Violation(f"replica {record.replica} ends without its own {record.id}", response)


def _is_local_read(run: RunIndex, record: OperationRecord) -> bool:
    """True if the replica may execute the operation alone: weak and read-only (Section 4.4)."""
    if not record.is_local or record.strong:
        return False
    return run.datatype is None or run.datatype.is_readonly(record.operation.name)


def _check_agreement(run: RunIndex) -> None:
    all_delivered = IdSet()
    for delivered in run.rb_delivered_ids.values():
        all_delivered.update(delivered)
    for final in run.history.final_states:
        missing = run.rb_delivered_ids.get(final.replica, IdSet()).first_missing(all_delivered)
        if missing is not None:
            owner = next(each for each, ids in run.rb_delivered_ids.items() if missing in ids)
            message = (
                f"replica {owner} has {missing}, which replica {final.replica} never delivered"
            )
            delivery = _first_delivery(run.last_logs[owner], missing)
            raise Violation(message, delivery, (final, f"ends without {missing}"))


def _first_delivery(log: ReplicaLog, dot: Dot) -> tuple[ReplicaLog, LoggedEvent]:
    """Return the first delivery of `dot` in a log that contains one."""
    delivered = IdSet()
    for logged in log.events:
        add_rb_delivered(delivered, logged.event)
        if dot in delivered:
            return log, logged
    raise AssertionError(f"the log contains no delivery of {dot}")
