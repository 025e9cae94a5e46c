"""Who is committed before somebody whose stable answer was there before it was invoked.

Strong operations respect real time.

Section 4.3: "when a strong operation op returns a stable response before another strong operations
op' starts, then op will be serialized before op'". Where all answers are stable, all are as strong.
"""

from collections.abc import Iterable
from typing import NamedTuple

from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import (
    Illegal,
    Ok,
    Verdict,
    Witness,
    invocation_witness,
    response_witness,
)
from creekdb.history import OperationRecord


class RealTimeViolation(NamedTuple):
    earlier: OperationRecord
    earlier_position: int
    later: OperationRecord
    """Later, and yet before it on committed."""
    later_position: int
    witnesses: tuple[Witness, ...]


def find_real_time_violation(
    run: RunIndex, records: Iterable[OperationRecord]
) -> RealTimeViolation | None:
    """Invocations in the order of time, beside the furthest place answered until then."""
    placed = [(place, each) for each in records if (place := run.position_of(each)) is not None]
    answered = sorted(
        ((each.stable.at_us, place, each) for place, each in placed if each.stable is not None),
        key=lambda entry: entry[:2],
    )
    furthest, furthest_place, at = None, -1, 0
    for place, record in sorted(placed, key=lambda entry: entry[1].invoked_us):
        while at < len(answered) and answered[at][0] < record.invoked_us:
            if answered[at][1] > furthest_place:
                _, furthest_place, furthest = answered[at]
            at += 1
        if furthest is not None and furthest.stable is not None and furthest_place > place:
            answer = response_witness(furthest, furthest.stable)
            seen = (invocation_witness(furthest), answer, invocation_witness(record))
            return RealTimeViolation(furthest, furthest_place, record, place, seen)
    return None


NAME = "real_time"


def check(run: RunIndex) -> Verdict:
    weak_too = not run.history.guarantees.tentative
    strong = [record for record in run.history.operations if record.strong or weak_too]
    for record in strong:
        if record.stable is not None and run.position_of(record) is None:
            message = f"{record.id} has a stable answer but is not on committed"
            return Illegal(NAME, message, (response_witness(record, record.stable),))
    found = find_real_time_violation(run, strong)
    if found is None:
        return Ok(NAME)
    message = (
        f"{found.earlier.id} had its stable answer before {found.later.id} was invoked, but "
        f"is committed after it, at {found.earlier_position} against {found.later_position}"
    )
    return Illegal(NAME, message, found.witnesses)
