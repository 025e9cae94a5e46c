"""The committed order respects the program order of sessions and of replicas.

Section 4.3: the total order "respects the program order of every replica from the point of view of
each strong operation"; "the execution of operations always respects the order in which each replica
invokes operations". A weak operation thus comes before everything that its replica issues later. A
strong one promises nothing until its stable answer, and from then on comes before everything that
its session invokes. Where the terms of a run exclude tentative answers, a weak one is no different.
"""

from itertools import groupby

from creekdb.checkers.real_time import find_real_time_violation
from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import Illegal, Ok, Verdict, event_witness, invocation_witness
from creekdb.history import OperationRecord

NAME = "session_order"


def check(run: RunIndex) -> Verdict:
    return (
        _check_replica_order(run)
        or _check_weak_session_order(run)
        or _check_strong_session_order(run)
        or Ok(NAME)
    )


def _check_replica_order(run: RunIndex) -> Illegal | None:
    """In the order of event numbers: no weak request may be missing before a committed one."""
    last = {dot: casts[-1] for dot, casts in run.casts.items()}
    weak = {dot for dot, cast in last.items() if not cast.request.strong}
    weak |= {each.id for each in run.history.operations if _is_ordered_at_invocation(run, each)}
    for _, dots in groupby(sorted(last), key=lambda dot: dot.replica):
        latest, latest_place = None, -1.0
        for dot in dots:
            place = run.positions.get(dot)
            if place is not None and latest is not None and latest_place > place:
                message = (
                    f"{dot} is committed at {place} without the weak {latest} before it, "
                    "which its replica issued earlier"
                )
                seen = (last[each] for each in (latest, dot))
                return Illegal(
                    NAME, message, tuple(event_witness(each.log, each.logged) for each in seen)
                )
            where = float("inf") if place is None else place
            if dot in weak and where > latest_place:
                latest, latest_place = dot, where
    return None


def _check_weak_session_order(run: RunIndex) -> Illegal | None:
    """In the order of invocation, within one connection to one incarnation."""

    def connection(record: OperationRecord) -> tuple[int, int, int]:
        return record.session, record.replica, record.incarnation

    def invocation(record: OperationRecord) -> tuple[int, int, int, int, int]:
        return *connection(record), record.invoked_us, record.id.event

    records = sorted(run.history.operations, key=invocation)
    for _, group in groupby(records, key=connection):
        latest, latest_place = None, -1
        for record in group:
            place = run.position_of(record)
            if place is None:
                continue
            if latest is not None and latest_place > place:
                message = (
                    f"{record.id} is committed at {place}, before the weak {latest.id} "
                    f"at {latest_place}, which its session invoked earlier"
                )
                return Illegal(
                    NAME, message, (invocation_witness(latest), invocation_witness(record))
                )
            if _is_ordered_at_invocation(run, record):
                latest, latest_place = record, place
    return None


def _is_ordered_at_invocation(run: RunIndex, record: OperationRecord) -> bool:
    return run.history.guarantees.tentative and not record.strong


def _check_strong_session_order(run: RunIndex) -> Illegal | None:
    records = sorted(run.history.operations, key=lambda each: each.session)
    for _, group in groupby(records, key=lambda each: each.session):
        if found := find_real_time_violation(run, group):
            message = (
                f"{found.later.id} is committed at {found.later_position}, before "
                f"{found.earlier.id} at {found.earlier_position}, whose stable answer its session "
                "had seen earlier"
            )
            return Illegal(NAME, message, found.witnesses)
    return None
