"""The committed order respects the program order of sessions and of replicas.

Section 4.3: the total order "respects the program order of every replica from the point of view of
each strong operation"; "the execution of operations always respects the order in which each replica
invokes operations". A weak operation thus comes before everything that its replica issues later. A
strong one promises nothing until its stable answer, and from then on comes before everything that
its session invokes. Where the terms of a run exclude tentative answers, a weak one is no different.
"""

from itertools import groupby

from creekdb.checkers.real_time import overtaken
from creekdb.checkers.run_index import Run
from creekdb.checkers.verdict import Illegal, Ok, Verdict, saw_event, saw_invoked
from creekdb.history import OperationRecord

NAME = "session_order"


def check(run: Run) -> Verdict:
    return _replicas(run) or _weak_in_sessions(run) or _strong_in_sessions(run) or Ok(NAME)


def _replicas(run: Run) -> Illegal | None:
    """In the order of event numbers: no weak request may be missing before a committed one."""
    last = {dot: casts[-1] for dot, casts in run.casts.items()}
    weak = {dot for dot, cast in last.items() if not cast.request.strong}
    weak |= {each.id for each in run.history.operations if _promises_at_once(run, each)}
    for _, dots in groupby(sorted(last), key=lambda dot: dot.replica):
        latest, latest_place = None, -1.0
        for dot in dots:
            place = run.index.get(dot)
            if place is not None and latest is not None and latest_place > place:
                message = (
                    f"{dot} is committed at {place} without the weak {latest} before it, "
                    "which its replica issued earlier"
                )
                seen = (last[each] for each in (latest, dot))
                return Illegal(
                    NAME, message, tuple(saw_event(each.log, each.logged) for each in seen)
                )
            where = float("inf") if place is None else place
            if dot in weak and where > latest_place:
                latest, latest_place = dot, where
    return None


def _weak_in_sessions(run: Run) -> Illegal | None:
    """In the order of invocation, within one connection to one incarnation."""

    def connection(record: OperationRecord) -> tuple[int, int, int]:
        return record.session, record.replica, record.incarnation

    def invocation(record: OperationRecord) -> tuple[int, int, int, int, int]:
        return *connection(record), record.invoked_us, record.id.event

    records = sorted(run.history.operations, key=invocation)
    for _, group in groupby(records, key=connection):
        latest, latest_place = None, -1
        for record in group:
            place = run.index_of(record)
            if place is None:
                continue
            if latest is not None and latest_place > place:
                message = (
                    f"{record.id} is committed at {place}, before the weak {latest.id} "
                    f"at {latest_place}, which its session invoked earlier"
                )
                return Illegal(NAME, message, (saw_invoked(latest), saw_invoked(record)))
            if _promises_at_once(run, record):
                latest, latest_place = record, place
    return None


def _promises_at_once(run: Run, record: OperationRecord) -> bool:
    return run.history.terms.tentative and not record.strong


def _strong_in_sessions(run: Run) -> Illegal | None:
    records = sorted(run.history.operations, key=lambda each: each.session)
    for _, group in groupby(records, key=lambda each: each.session):
        if found := overtaken(run, group):
            message = (
                f"{found.invoked.id} is committed at {found.invoked_place}, before "
                f"{found.answered.id} at {found.answered_place}, whose stable answer its session "
                "had seen earlier"
            )
            return Illegal(NAME, message, found.seen)
    return None
