"""Once faults are over and clients have stopped, replicas agree, and nothing answered is lost.

Section 3.4: "the replicas' states in each subgroup converge once the stream of operations submitted
by clients ceases". Section 4.3: committed is the "ever growing single serialization to which all
serializations observed [...] gravitate". A run that does not come to rest fails.
"""

from creekdb.checkers.replay import different_key, same
from creekdb.checkers.run_index import Run
from creekdb.checkers.verdict import (
    Illegal,
    Ok,
    Verdict,
    Witness,
    saw_answer,
    saw_final,
    saw_invoked,
    short,
)
from creekdb.history import FinalState

NAME = "convergence"


def check(run: Run) -> Verdict:
    if not run.history.quiescent or not run.history.finals:
        return Illegal(NAME, "liveness: did not settle", _unsettled(run))
    return (
        _tentative(run)
        or _lengths(run)
        or _orders(run)
        or _states(run)
        or _lost_answers(run)
        or _lost_requests(run)
        or Ok(NAME)
    )


def _unsettled(run: Run) -> tuple[Witness, ...]:
    return tuple(
        saw_final(final, f"has {_length(final)} committed, {len(final.tentative)} tentative")
        for final in run.history.finals[:5]
    )


def _tentative(run: Run) -> Illegal | None:
    for final in run.history.finals:
        if final.tentative:
            some = ", ".join(str(dot) for dot in final.tentative[:5])
            message = f"liveness: {len(final.tentative)} requests never stabilised"
            return Illegal(NAME, message, (saw_final(final, f"has {some} on tentative"),))
    return None


def _lengths(run: Run) -> Illegal | None:
    finals = run.history.finals
    for final in finals:
        if _length(final) != len(run.committed):
            message = f"{len(run.committed)} requests are committed, but not everywhere"
            seen = (saw_final(each, f"has {_length(each)} on committed") for each in finals[:5])
            return Illegal(NAME, message, tuple(seen))
    return None


def _orders(run: Run) -> Illegal | None:
    for final in run.history.finals:
        for index, dot in enumerate(final.committed, start=final.first):
            if run.committed[index] not in (dot, None):
                message = f"the committed orders differ at index {index}"
                what = f"has {dot} there, where others have {run.committed[index]}"
                return Illegal(NAME, message, (saw_final(final, what),))
    return None


def _states(run: Run) -> Illegal | None:
    reference = run.history.finals[0]
    expected = dict(reference.state)
    for final in run.history.finals[1:]:
        state = dict(final.state)
        if not same(state, expected):
            key = different_key(state, expected)
            seen = tuple(
                saw_final(each, f"has {short(dict(each.state).get(key, 'nothing'))}")
                for each in (reference, final)
            )
            return Illegal(NAME, f"the states differ under {short(key)}", seen)
    return None


def _lost_answers(run: Run) -> Illegal | None:
    """Answered means durable. Only a replica that never came back may take with it what it alone
    had, and even then nothing stable; one that was dismissed leaves everything behind."""
    kept = {*run.last_logs, *(log.replica for log in run.logs if log.dismissed)}
    for record in run.history.operations:
        must_stay = record.replica in kept or record.stable is not None
        if record.answers and must_stay and not record.local and run.index_of(record) is None:
            message = f"{record.id} was answered and then lost: it is not on committed"
            seen = (saw_invoked(record), saw_answer(record, record.answers[0]))
            return Illegal(NAME, message, seen)
    return None


def _lost_requests(run: Run) -> Illegal | None:
    for final in run.history.finals:
        for dot in run.known.get(final.replica, ()):
            if dot not in run.index and None not in run.committed:
                message = f"{dot} was delivered and then lost: it is not on committed"
                return Illegal(NAME, message, (saw_final(final, f"knew {dot}"),))
    return None


def _length(final: FinalState) -> int:
    return final.first + len(final.committed)
