"""Strong operations respect real time.

Section 4.3: "when a strong operation op returns a stable response before another strong operations
op' starts, then op will be serialized before op'". Where all answers are stable, all are as strong.
"""

from creek.checkers.run import Run
from creek.checkers.verdict import Illegal, Ok, Verdict, saw_answer, saw_invoked
from creek.history import OperationRecord

NAME = "real_time"


def check(run: Run) -> Verdict:
    weak_too = not run.history.terms.tentative
    strong = [record for record in run.history.operations if record.strong or weak_too]
    for record in strong:
        if record.stable is not None and run.index_of(record) is None:
            message = f"{record.id} has a stable answer but is not on committed"
            return Illegal(NAME, message, (saw_answer(record, record.stable),))
    return _sweep(run, strong) or Ok(NAME)


def _sweep(run: Run, strong: list[OperationRecord]) -> Illegal | None:
    """Invocations in the order of time, beside the furthest place answered until then."""
    placed = [(place, each) for each in strong if (place := run.index_of(each)) is not None]
    answered = sorted(
        ((each.stable.at_us, place, each) for place, each in placed if each.stable is not None),
        key=lambda entry: entry[:2],
    )
    furthest, furthest_place, at = None, -1, 0
    for place, record in sorted(placed, key=lambda entry: entry[1].invoked_us):
        while at < len(answered) and answered[at][0] < record.invoked_us:
            _, other_place, other = answered[at]
            if other_place > furthest_place:
                furthest, furthest_place = other, other_place
            at += 1
        if furthest is not None and furthest.stable is not None and furthest_place > place:
            message = (
                f"{furthest.id} had its stable answer before {record.id} was invoked, but "
                f"is committed after it, at {furthest_place} against {place}"
            )
            seen = saw_answer(furthest, furthest.stable)
            return Illegal(NAME, message, (saw_invoked(furthest), seen, saw_invoked(record)))
    return None
