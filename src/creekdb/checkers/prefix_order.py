"""Committed orders are prefixes of one another.

Section 4.1: "The order of operations on the committed list is determined by the synchronization of
replicas using CAB. Hence the order is the same across all replicas." Here it must be the same
across all incarnations too: one that recovers may have fewer places than it had, but never other
ones. A checkpoint stands for exactly the requests whose places it takes.
"""

from creekdb.checkers.run_index import Ids, Run
from creekdb.checkers.verdict import Illegal, Ok, Unknown, Verdict, Witness, saw_event, saw_final
from creekdb.history import Committed, Dot, Dots, Installed, LoggedEvent, ReplicaLog

NAME = "prefix_order"


def check(run: Run) -> Verdict:
    illegal = _each_log(run) or _twice(run) or _checkpoints(run) or _finals(run)
    return illegal or _holes(run) or Ok(NAME)


def _each_log(run: Run) -> Illegal | None:
    for log in run.logs:
        length = 0
        for logged in log.known_events:
            match logged.event:
                case Committed(id=dot, index=index):
                    if index != length:
                        message = f"the place after {length} committed requests is not {index}"
                        return Illegal(NAME, message, (saw_event(log, logged),))
                    if run.committed[index] != dot:
                        message = f"two requests are committed at index {index}"
                        return Illegal(NAME, message, (*_first(run, index), saw_event(log, logged)))
                    length += 1
                case Installed(length=claimed):
                    length = max(length, claimed)
                case _:
                    pass
    return None


def _twice(run: Run) -> Illegal | None:
    for index, dot in enumerate(run.committed):
        if dot is not None and run.index[dot] != index:
            message = f"{dot} is committed twice, at {run.index[dot]} and at {index}"
            return Illegal(NAME, message, (*_first(run, run.index[dot]), *_first(run, index)))
    return None


def _checkpoints(run: Run) -> Illegal | None:
    """In the order of their lengths, so that one growing prefix serves them all."""
    found = [
        (logged.event.length, logged.event.ids, log, logged)
        for log, logged in run.events()
        if isinstance(logged.event, Installed)
    ]
    prefix, at = Ids(), 0
    for length, dots, log, logged in sorted(found, key=lambda each: each[0]):
        if len(dots) != length:
            message = f"a checkpoint of {length} requests holds {len(dots)} identifiers"
            return Illegal(NAME, message, (saw_event(log, logged),))
        for dot in run.committed[at:length]:
            if dot is not None:
                prefix.add(dot)
        at = max(at, length)
        if problem := _mismatch(run, length, dots, prefix, log, logged):
            return problem
    return None


def _mismatch(
    run: Run, length: int, dots: Dots, prefix: Ids, log: ReplicaLog, logged: LoggedEvent
) -> Illegal | None:
    missing = Ids(dots).first_missing(prefix)
    if missing is not None:
        message = f"a checkpoint of {length} requests lacks {missing}"
        return Illegal(NAME, message, (*_first(run, run.index[missing]), saw_event(log, logged)))
    for dot in prefix.missing(dots):  # no more of them than places that no log tells of
        index = run.index.get(dot)
        if index is not None:
            message = f"a checkpoint of {length} requests holds {dot}, which comes later"
            return Illegal(NAME, message, (*_first(run, index), saw_event(log, logged)))
    return None


def _finals(run: Run) -> Illegal | None:
    for final in run.history.finals:
        for index, dot in enumerate(final.committed, start=final.first):
            known = run.committed[index] if index < len(run.committed) else None
            if known is not None and known != dot:
                what = f"has {dot} at index {index}"
                message = f"two requests are committed at index {index}"
                return Illegal(NAME, message, (*_first(run, index), saw_final(final, what)))
    return None


def _holes(run: Run) -> Unknown | None:
    for index, dot in enumerate(run.committed):
        if dot is None:
            return Unknown(NAME, f"no log tells which request is committed at index {index}")
    return None


def _first(run: Run, index: int) -> tuple[Witness, ...]:
    """Who said so first, as the merged order has it."""
    dot: Dot | None = run.committed[index]
    for log, logged in run.events():
        event = logged.event
        if isinstance(event, Committed) and event.index == index and event.id == dot:
            return (saw_event(log, logged),)
    return ()
