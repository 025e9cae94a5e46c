"""Strong operations respect real time.

Section 4.3: "when a strong operation op returns a stable response before another strong operations
op' starts, then op will be serialized before op'". Where all answers are stable, all are as strong.
"""

from creekdb.checkers._overtaken import overtaken
from creekdb.checkers.run import Run
from creekdb.checkers.verdict import Illegal, Ok, Verdict, saw_answer

NAME = "real_time"


def check(run: Run) -> Verdict:
    weak_too = not run.history.terms.tentative
    strong = [record for record in run.history.operations if record.strong or weak_too]
    for record in strong:
        if record.stable is not None and run.index_of(record) is None:
            message = f"{record.id} has a stable answer but is not on committed"
            return Illegal(NAME, message, (saw_answer(record, record.stable),))
    found = overtaken(run, strong)
    if found is None:
        return Ok(NAME)
    message = (
        f"{found.answered.id} had its stable answer before {found.invoked.id} was invoked, but "
        f"is committed after it, at {found.answered_place} against {found.invoked_place}"
    )
    return Illegal(NAME, message, found.seen)
