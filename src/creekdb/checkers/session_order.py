"""The committed order respects the program order of sessions and of replicas.

Section 4.3: the total order "respects the program order of every replica from the point of view of
each strong operation". Also, "the execution of operations always respects the order in which each
replica invokes operations". A weak operation therefore precedes everything that its replica issues
later. A strong operation is unordered until its stable response, and from then on precedes
everything that its session invokes. If a scheme has no tentative responses, the rule for strong
operations applies to weak ones.
"""

from itertools import groupby

from creekdb.checkers.real_time import find_real_time_violation
from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import Violation, checker
from creekdb.history import OperationRecord


@checker("session_order")
def check(run: RunIndex) -> None:
    _check_replica_order(run)
    _check_weak_session_order(run)
    _check_strong_session_order(run)


def _check_replica_order(run: RunIndex) -> None:
    """Check, by event number, that each weak request precedes all later ones of its replica."""
    last = {dot: casts[-1] for dot, casts in run.casts.items()}
    weak = {dot for dot, cast in last.items() if not cast.request.strong}
    weak |= {
        each.id
        for each in run.history.operations
        if _is_ordered_at_invocation(run, each) and not run.has_lost_id(each)
    }
    for _, dots in groupby(sorted(last), key=lambda dot: dot.replica):
        latest, latest_position = None, -1.0
        for dot in dots:
            position = run.positions.get(dot)
            if position is not None and latest is not None and latest_position > position:
                message = (
                    f"{dot} is committed at {position} without the weak {latest} before it, "
                    "which its replica issued earlier"
                )
                raise Violation(message, last[latest], last[dot])
            bound = float("inf") if position is None else position
            if dot in weak and bound > latest_position:
                latest, latest_position = dot, bound


def _check_weak_session_order(run: RunIndex) -> None:
    """Check the order of invocation within one connection to one incarnation."""
    for records in run.connections():
        latest, latest_position = None, -1
        for record in sorted(records, key=lambda each: (each.invoked_us, each.id.event)):
            position = run.position_of(record)
            if position is None:
                continue
            if latest is not None and latest_position > position:
                message = (
                    f"{record.id} is committed at {position}, before the weak {latest.id} "
                    f"at {latest_position}, which its session invoked earlier"
                )
                raise Violation(message, latest, record)
            if _is_ordered_at_invocation(run, record):
                latest, latest_position = record, position


def _is_ordered_at_invocation(run: RunIndex, record: OperationRecord) -> bool:
    return run.history.guarantees.tentative and not record.strong


def _check_strong_session_order(run: RunIndex) -> None:
    records = sorted(run.history.operations, key=lambda each: each.session)
    for _, group in groupby(records, key=lambda each: each.session):
        if violation := find_real_time_violation(run, group):
            message = (
                f"{violation.later.id} is committed at {violation.later_position}, before "
                f"{violation.earlier.id} at {violation.earlier_position}, whose stable response "
                "its session had received earlier"
            )
            raise Violation(message, *violation.evidence)
