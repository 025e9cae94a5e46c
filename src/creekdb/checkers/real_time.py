"""Strong operations respect real time.

Section 4.3: "when a strong operation op returns a stable response before another strong operations
op' starts, then op will be serialized before op'". If a scheme has stable responses only, weak
operations must respect real time as well.
"""

from collections.abc import Iterable
from typing import NamedTuple

from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import Evidence, Violation, checker
from creekdb.history import OperationRecord


class RealTimeViolation(NamedTuple):
    earlier: OperationRecord
    earlier_position: int
    later: OperationRecord
    """Invoked after the stable response to `earlier`, but committed before it."""
    later_position: int
    evidence: tuple[Evidence, ...]


def find_real_time_violation(
    run: RunIndex, records: Iterable[OperationRecord]
) -> RealTimeViolation | None:
    """Return an operation that is committed before one whose stable response preceded it, or None.

    Scans invocations in the order of time, with the furthest position that has a stable response.
    """
    positioned = [
        (position, each) for each in records if (position := run.position_of(each)) is not None
    ]
    stable = sorted(
        (
            (each.stable.at_us, position, each)
            for position, each in positioned
            if each.stable is not None
        ),
        key=lambda entry: entry[:2],
    )
    furthest, furthest_position, at = None, -1, 0
    for position, record in sorted(positioned, key=lambda entry: entry[1].invoked_us):
        while at < len(stable) and stable[at][0] < record.invoked_us:
            if stable[at][1] > furthest_position:
                _, furthest_position, furthest = stable[at]
            at += 1
        if furthest is not None and furthest.stable is not None and furthest_position > position:
            evidence = (furthest, (furthest, furthest.stable), record)
            return RealTimeViolation(furthest, furthest_position, record, position, evidence)
    return None


@checker("real_time")
def check(run: RunIndex) -> None:
    includes_weak = not run.history.guarantees.tentative
    records = [record for record in run.history.operations if record.strong or includes_weak]
    for record in records:
        if record.stable is not None and run.position_of(record) is None:
            message = f"{record.id} got a stable response, but is not on committed"
            raise Violation(message, (record, record.stable))
    violation = find_real_time_violation(run, records)
    if violation is not None:
        message = (
            f"{violation.earlier.id} got its stable response before {violation.later.id} was "
            f"invoked, but is committed after it (at {violation.earlier_position}, "
            f"after {violation.later_position})"
        )
        raise Violation(message, *violation.evidence)
