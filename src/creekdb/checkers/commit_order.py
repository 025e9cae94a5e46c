"""Committed is extended as procedure `commit` specifies (lines 48-52).

"committedExt = [x | x ∈ tentative ∧ x.id ∈ r.causalCtx]"; "committed = committed · committedExt ·
[r]". Each strong request is preceded by the uncommitted weak requests of its causal context, in
the order of their timestamps, and by no others. Strong requests are in the order of CAB delivery.
No other checker detects a wrong order on which all replicas agree.
"""

from itertools import pairwise

from creekdb.checkers.run_index import IdSet, LoggedCast, RunIndex
from creekdb.checkers.verdict import Illegal, Inconclusive, Ok, Verdict, event_witness
from creekdb.history import Dot

NAME = "commit_order"


def check(run: RunIndex) -> Verdict:
    before = IdSet()
    extension: list[LoggedCast] = []
    strong: list[Dot] = []
    for index, dot in enumerate(run.committed):
        if dot is None:
            return Inconclusive(NAME, f"no log records the request committed at index {index}")
        if dot not in run.casts:
            return Illegal(NAME, f"{dot}, committed at index {index}, was never cast")
        cast = run.casts[dot][-1]
        if cast.request.strong:
            if problem := _check_extension(run, index, cast, extension, before):
                return problem
            strong.append(dot)
            extension = []
        else:
            extension.append(cast)
        before.add(dot)
    if extension:
        weak = extension[0]
        message = f"{weak.request.id} is committed, but no strong request follows it"
        return _illegal(message, weak)
    return _check_strong_order(run, strong) or Ok(NAME)


def _check_extension(
    run: RunIndex, index: int, strong: LoggedCast, extension: list[LoggedCast], before: IdSet
) -> Illegal | None:
    context = strong.request.context
    if context is None:
        return _illegal(f"{strong.request.id} was committed without a causal context", strong)
    for weak in extension:
        if weak.request.id not in context:
            message = (
                f"{weak.request.id} was committed with {strong.request.id}, "
                "whose causal context lacks it"
            )
            return _illegal(message, weak, strong)
    for weak, next_weak in pairwise(extension):
        if weak.request.key > next_weak.request.key:
            message = (
                f"{weak.request.id} was committed before {next_weak.request.id}, both "
                f"with {strong.request.id}, against the order of their timestamps"
            )
            return _illegal(message, weak, next_weak, strong)
    missing = before.first_missing(context)
    if missing is not None:
        message = (
            f"{strong.request.id} was committed at {index} without {missing} of its causal context"
        )
        return _illegal(message, *run.casts.get(missing, ())[-1:], strong)
    return None


def _check_strong_order(run: RunIndex, committed: list[Dot]) -> Illegal | None:
    for (instance, delivered), dot in zip(run.cab_order, committed, strict=False):
        if delivered != dot:
            message = (
                f"the next strong request on committed is {dot}, but CAB delivered {delivered} "
                f"(instance {instance}) next"
            )
            return _illegal(message, *run.casts[dot][-1:], *run.casts.get(delivered, ())[-1:])
    if run.history.quiescent and len(committed) != len(run.cab_order):
        counts = f"{len(committed)} are committed, {len(run.cab_order)} were CAB-delivered"
        return Illegal(NAME, f"committed and CAB contain different strong requests: {counts}")
    return None


def _illegal(message: str, *casts: LoggedCast) -> Illegal:
    return Illegal(NAME, message, tuple(event_witness(each.log, each.logged) for each in casts))
