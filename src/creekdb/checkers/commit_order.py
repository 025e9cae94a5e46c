"""Committed is extended as procedure `commit` specifies (lines 48-52).

"committedExt = [x | x ∈ tentative ∧ x.id ∈ r.causalCtx]"; "committed = committed · committedExt ·
[r]". Each strong request is preceded by the uncommitted weak requests of its causal context, in
the order of their timestamps, and by no others. Strong requests are in the order of CAB delivery.
No other checker detects a wrong order on which all replicas agree.

A decision may extend the context by a cut: by the weak requests of an origin up to an event. Only
the cut of the decided batch counts, not that of another batch that was voted for. It has no request
later than the strong one. Weak requests of context and cut are in one order of timestamps.
"""

from itertools import pairwise

from creekdb.checkers.run_index import IdSet, LoggedCast, RunIndex
from creekdb.checkers.verdict import Violation, checker
from creekdb.history import Dot, Dots


@checker("commit_order")
def check(run: RunIndex) -> None:
    before = IdSet()
    extension: list[LoggedCast] = []
    strong: list[Dot] = []
    for index in range(len(run.committed)):
        dot = run.committed_id(index)
        if dot not in run.casts:
            raise Violation(f"{dot}, committed at index {index}, was never cast")
        cast = run.casts[dot][-1]
        if cast.request.strong:
            _check_extension(run, index, cast, extension, before)
            strong.append(dot)
            extension = []
        else:
            extension.append(cast)
        before.add(dot)
    if extension:
        message = f"{extension[0].request.id} is committed, but no strong request follows it"
        raise Violation(message, extension[0])
    _check_strong_order(run, strong)


def _check_extension(
    run: RunIndex, index: int, strong: LoggedCast, extension: list[LoggedCast], before: IdSet
) -> None:
    context = strong.request.context
    if context is None:
        raise Violation(f"{strong.request.id} was committed without a causal context", strong)
    cut = run.cuts.get(strong.request.id, {})
    for weak in extension:
        id = weak.request.id
        if id in context:
            continue
        if id.event <= cut.get(id.replica, 0):
            if weak.request.key > strong.request.key:
                message = f"{id} was committed with {strong.request.id}, which precedes it"
                raise Violation(message, weak, strong)
        else:
            message = (
                f"{weak.request.id} was committed with {strong.request.id}, "
                f"whose causal context {'and decided cut lack' if cut else 'lacks'} it"
            )
            raise Violation(message, weak, strong)
    for weak, next_weak in pairwise(extension):
        if weak.request.key > next_weak.request.key:
            message = (
                f"{weak.request.id} was committed before {next_weak.request.id}, both "
                f"with {strong.request.id}, against the order of their timestamps"
            )
            raise Violation(message, weak, next_weak, strong)
    missing = before.first_missing(context)
    if missing is not None:
        message = (
            f"{strong.request.id} was committed at {index} without {missing} of its causal context"
        )
        raise Violation(message, *run.casts.get(missing, ())[-1:], strong)
    for missing in before.missing(Dots({each: (1, cut[each] + 1) for each in cut})):
        request = run.request(missing)
        if request is None or not request.strong:
            message = f"{strong.request.id} was committed at {index} without {missing} of its cut"
            raise Violation(message, *run.casts.get(missing, ())[-1:], strong)


def _check_strong_order(run: RunIndex, committed: list[Dot]) -> None:
    for (instance, delivered), dot in zip(run.cab_order, committed, strict=False):
        if delivered != dot:
            message = (
                f"the next strong request on committed is {dot}, but CAB delivered {delivered} "
                f"(instance {instance}) next"
            )
            raise Violation(message, *run.casts[dot][-1:], *run.casts.get(delivered, ())[-1:])
    if run.history.quiescent and len(committed) != len(run.cab_order):
        counts = f"{len(committed)} are committed, {len(run.cab_order)} were CAB-delivered"
        raise Violation(f"committed and CAB contain different strong requests: {counts}")
