"""Committed orders are prefixes of one another.

Section 4.1: "The order of operations on the committed list is determined by the synchronization of
replicas using CAB. Hence the order is the same across all replicas." It must also be the same
across all incarnations. A recovered incarnation may have fewer requests than its predecessor, but
in the same order. A checkpoint represents exactly the requests at the indices that it covers.
"""

from itertools import chain

from creekdb.checkers.run_index import IdSet, RunIndex
from creekdb.checkers.verdict import Evidence, Violation, checker
from creekdb.history import CheckpointInstalled, Committed, Dot


@checker("prefix_order")
def check(run: RunIndex) -> None:
    _check_logs(run)
    _check_duplicates(run)
    _check_checkpoints(run)
    _check_final_states(run)
    for index in range(len(run.committed)):
        run.committed_id(index)


def _check_logs(run: RunIndex) -> None:
    for log in run.logs:
        length = 0
        for logged in log.visible_events:
            match logged.event:
                case Committed(id=dot, index=index):
                    if index != length:
                        message = f"the request after {length} committed ones has index {index}"
                        raise Violation(message, (log, logged))
                    if run.committed[index] != dot:
                        message = f"two requests are committed at index {index}"
                        raise Violation(message, *_first_commit(run, index), (log, logged))
                    length += 1
                case CheckpointInstalled(length=claimed):
                    length = max(length, claimed)
                case _:
                    pass


def _check_duplicates(run: RunIndex) -> None:
    for index, dot in enumerate(run.committed):
        if dot is not None and run.positions[dot] != index:
            message = f"{dot} is committed twice, at {run.positions[dot]} and at {index}"
            first = _first_commit(run, run.positions[dot])
            raise Violation(message, *first, *_first_commit(run, index))


def _check_checkpoints(run: RunIndex) -> None:
    """Check checkpoints by length, so that they share one growing prefix."""
    checkpoints = [
        (logged.event.length, logged.event.ids, log, logged)
        for log, logged in run.events()
        if isinstance(logged.event, CheckpointInstalled)
    ]
    prefix, at = IdSet(), 0
    for length, dots, log, logged in sorted(checkpoints, key=lambda each: each[0]):
        if len(dots) != length:
            message = f"a checkpoint of {length} requests contains {len(dots)} identifiers"
            raise Violation(message, (log, logged))
        for dot in run.committed[at:length]:
            if dot is not None:
                prefix.add(dot)
        at = max(at, length)
        problems = ((dot, f"lacks {dot}") for dot in IdSet(dots).missing(prefix))
        surplus = (  # at most as many as there are unrecorded indices
            (dot, f"contains {dot}, which is committed later")
            for dot in prefix.missing(dots)
            if dot in run.positions
        )
        for dot, problem in chain(problems, surplus):
            commit = _first_commit(run, run.positions[dot])
            message = f"a checkpoint of {length} requests {problem}"
            raise Violation(message, *commit, (log, logged))


def _check_final_states(run: RunIndex) -> None:
    for final in run.history.final_states:
        for index, dot in enumerate(final.committed, start=final.first):
            expected = run.committed[index] if index < len(run.committed) else None
            if expected is not None and expected != dot:
                message = f"two requests are committed at index {index}"
                final_evidence = (final, f"has {dot} at index {index}")
                raise Violation(message, *_first_commit(run, index), final_evidence)


def _first_commit(run: RunIndex, index: int) -> tuple[Evidence, ...]:
    """Return the first commit event at an index that agrees with the merged order."""
    dot: Dot | None = run.committed[index]
    for log, logged in run.events():
        event = logged.event
        if isinstance(event, Committed) and event.index == index and event.id == dot:
            return ((log, logged),)
    return ()
