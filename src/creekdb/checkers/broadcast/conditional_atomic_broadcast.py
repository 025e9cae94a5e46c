"""Conditional atomic broadcast keeps its word (Section 3.3), with `checkDep` as its predicate.

"validity: if a correct process CAB-casts a message m with predicate q, and eventual stable
evaluation holds for q, then [it] eventually CAB-delivers m; uniform integrity: [...] every process
CAB-delivers m at most once, and only if (m, q) was previously CAB-cast and q(m) = true at p_i;
uniform agreement: if a process (correct or faulty) CAB-delivers m [...] then all correct processes
eventually CAB-deliver m; uniform total order: if some process (correct or faulty) CAB-delivers m
before m', then every process CAB-delivers m' only after it has CAB-delivered m."

The predicate (lines 10-14) is about the causal context that the request was cast with, so that is
checked too: line 19 to the letter, "causalCtx \\ {x.id | x ∈ tentative ∧ r < x}", with `causalCtx`
as lines 22, 30 and 34 build it. Where the terms of a run say that every request is ordered for
itself, all are strong and all contexts empty. A checkpoint delivers what it covers. What others
could know to be delivered is delivered for ever: a replica that restarts finds it on its disk.
"""

from bisect import bisect_left, bisect_right, insort
from itertools import pairwise

from creekdb.checkers.run_index import Ids, Run
from creekdb.checkers.verdict import Illegal, Ok, Verdict, Witness, saw_event, saw_final
from creekdb.history import (
    CabDelivered,
    Cast,
    Committed,
    Dot,
    Installed,
    LoggedEvent,
    RbDelivered,
    ReplicaLog,
    Request,
)

NAME = "conditional_atomic_broadcast"


def check(run: Run) -> Verdict:
    for log in run.logs:
        if problem := _Walk(run, log).check():
            return problem
    return (
        _unique(run)
        or _total_order(run)
        or _recovered(run)
        or _validity(run)
        or _agreement(run)
        or Ok(NAME)
    )


class _Walk:
    """One incarnation, event by event, with what Algorithm 1 knows at each."""

    def __init__(self, run: Run, log: ReplicaLog) -> None:
        self.run = run
        self.log = log
        self.received = Ids()
        self.delivered = Ids()
        self.committed = Ids()
        self.context = Ids()
        self.weak: list[tuple[int, Dot]] = []

    def check(self) -> Illegal | None:
        for logged in self.log.events:
            event = logged.event
            problem: Illegal | None = None
            match event:
                case Cast(request=request):
                    problem = self._cast(logged, request)
                case RbDelivered(id=dot):
                    self._receive(dot, self.run.request_at(dot, logged.at_us))
                case CabDelivered(id=dot):
                    problem = self._delivery(logged, dot)
                    self.delivered.add(dot)
                    self.context.add(dot)
                case Committed(id=dot):
                    problem = self._commit(logged, dot)
                    self.committed.add(dot)
                    self.context.add(dot)
                case Installed(ids=dots):
                    for mine in (self.received, self.delivered, self.committed, self.context):
                        mine.update(dots)
                case _:
                    pass
            if problem is not None:
                return problem
        return None

    def _receive(self, dot: Dot, request: Request | None) -> None:
        self.received.add(dot)
        if request is not None and not request.strong:
            self.context.add(dot)
            insort(self.weak, request.key)  # nearly always at the end

    def _cast(self, logged: LoggedEvent, request: Request) -> Illegal | None:
        problem: Illegal | None = None
        if not self.run.history.terms.contexts:
            problem = self._alone(logged, request)
        elif request.strong:
            problem = self._line_19(logged, request)
        self._receive(request.id, request)
        return problem

    def _alone(self, logged: LoggedEvent, request: Request) -> Illegal | None:
        if not request.strong or request.context is None:
            return self._illegal(f"{request.id} was cast, but not to be ordered", logged)
        for dot in Ids(request.context):
            message = f"{request.id}, which is ordered for itself, has {dot} in its causal context"
            return self._illegal(message, logged, dot)
        return None

    def _line_19(self, logged: LoggedEvent, request: Request) -> Illegal | None:
        if request.context is None:
            return self._illegal(f"strong {request.id} was cast without a causal context", logged)
        unknown = self.context.first_missing(request.context)
        if unknown is not None:
            known = self.run.request_at(unknown, logged.at_us)
            kind = "a strong request not committed" if known and known.strong else "not delivered"
            message = f"the causal context of {request.id} has {unknown}, {kind} where it was cast"
            return self._illegal(message, logged, unknown)
        cast = Ids(request.context)
        later = self.weak[bisect_right(self.weak, request.key) :]
        tentative = {dot for _, dot in later if dot not in self.committed}
        for dot in cast.missing(self.context):
            if dot not in tentative:
                message = f"the causal context of {request.id} lacks {dot}, which comes before it"
                return self._illegal(message, logged, dot)
        for dot in sorted(tentative):
            if dot in cast:
                message = f"the causal context of {request.id} has {dot}, which comes after it"
                return self._illegal(message, logged, dot)
        return None

    def _delivery(self, logged: LoggedEvent, dot: Dot) -> Illegal | None:
        request = self.run.request_at(dot, logged.at_us)
        if dot in self.delivered:
            message = f"{dot} was CAB-delivered twice, or after a checkpoint that covers it"
            return self._illegal(message, logged, dot)
        if request is None or not request.strong or request.context is None:
            return self._illegal(f"{dot} was CAB-delivered, but nobody had CAB-cast it", logged)
        if dot not in self.received:
            message = f"{dot} was CAB-delivered before it was RB-delivered: predicate false"
            return self._illegal(message, logged)
        missing = self.context.first_missing(request.context)
        if missing is not None:
            message = f"{dot} was CAB-delivered without {missing} of its context: predicate false"
            return self._illegal(message, logged, missing)
        return None

    def _commit(self, logged: LoggedEvent, dot: Dot) -> Illegal | None:
        request = self.run.request_at(dot, logged.at_us)
        if request is not None and request.strong and dot not in self.delivered:
            return self._illegal(f"strong {dot} was committed, but not CAB-delivered", logged)
        return None

    def _illegal(self, message: str, logged: LoggedEvent, about: Dot | None = None) -> Illegal:
        seen: list[Witness] = []
        if about is not None:
            casts = self.run.casts.get(about, ())
            seen += [saw_event(cast.log, cast.logged) for cast in casts]
            seen += [saw_event(self.log, each) for each in self.log.events if _names(each, about)]
        last = saw_event(self.log, logged)
        return Illegal(NAME, message, (*[each for each in seen if each != last][:3], last))


def _names(logged: LoggedEvent, dot: Dot) -> bool:
    match logged.event:
        case RbDelivered(id=named) | CabDelivered(id=named) | Committed(id=named):
            return named == dot
        case _:
            return False


def _unique(run: Run) -> Illegal | None:
    instances: dict[Dot, int] = {}
    for instance, dot in run.delivered:
        first = instances.setdefault(dot, instance)
        if first != instance:
            message = f"{dot} was CAB-delivered in two instances, {first} and {instance}"
            return Illegal(NAME, message, _deliveries(run, dot))
    return None


def _total_order(run: Run) -> Illegal | None:
    """Each log is one stretch of the merged order, but for jumps over checkpoints."""
    for log in run.logs:
        at = 0
        for logged in log.known_events:
            match logged.event:
                case Installed(instance=instance):
                    at = max(at, _start(run, instance))
                case CabDelivered(id=dot, instance=instance):
                    expected = run.delivered[at] if at < len(run.delivered) else None
                    if (instance, dot) != expected:
                        return _disorder(run, log, logged, expected)
                    at += 1
                case _:
                    pass
    return None


def _disorder(
    run: Run, log: ReplicaLog, logged: LoggedEvent, expected: tuple[int, Dot] | None
) -> Illegal:
    if expected is None:
        return Illegal(NAME, "CAB deliveries out of order", (saw_event(log, logged),))
    message = f"CAB deliveries out of order: {expected[1]} of instance {expected[0]} comes next"
    return Illegal(NAME, message, (*_deliveries(run, expected[1])[:2], saw_event(log, logged)))


def _recovered(run: Run) -> Illegal | None:
    for old, new in pairwise(run.logs):
        if old.replica == new.replica and not new.anew:
            had = _reached(run, old.known_events)
            found = tuple(each for each in new.events if each.at_us == new.started_us)
            at = _reached(run, found)
            if at < had:
                instance, dot = run.delivered[at]
                message = f"replica {new.replica} restarted without {dot} of instance {instance}"
                seen = _deliveries(run, dot)
                mine = [each for each in seen if each.who.startswith(f"replica {new.replica} ")]
                return Illegal(NAME, message, tuple(mine[:1] or seen[:1]))
    return None


def _reached(run: Run, events: tuple[LoggedEvent, ...]) -> int:
    """How far in the merged order."""
    at = 0
    for logged in events:
        match logged.event:
            case Installed(instance=instance):
                at = max(at, _start(run, instance))
            case CabDelivered():
                at += 1
            case _:
                pass
    return at


def _validity(run: Run) -> Illegal | None:
    """A strong request survived when a replica that is up at the end has it."""
    if not run.history.quiescent:
        return None
    delivered = {dot for _, dot in run.delivered}
    for dot, casts in run.casts.items():
        cast = casts[-1]
        waiting = cast.request.strong and dot not in delivered and dot not in run.index
        if waiting and any(dot in known for known in run.known.values()):
            message = f"strong {dot} was CAB-cast and never CAB-delivered"
            return Illegal(NAME, message, (saw_event(cast.log, cast.logged),))
    return None


def _agreement(run: Run) -> Illegal | None:
    if not run.history.quiescent:
        return None
    for final in run.history.finals:
        log = run.last_logs.get(final.replica)
        at = _reached(run, log.events if log is not None else ())
        if at < len(run.delivered):
            instance, dot = run.delivered[at]
            message = f"replica {final.replica} never CAB-delivered {dot} of instance {instance}"
            witness = saw_final(final, f"ends before instance {instance}")
            return Illegal(NAME, message, (*_deliveries(run, dot)[:2], witness))
    return None


def _start(run: Run, instance: int) -> int:
    """The first place of the merged order that does not come before `instance`."""
    return bisect_left(run.delivered, instance, key=lambda each: each[0])


def _deliveries(run: Run, dot: Dot) -> tuple[Witness, ...]:
    return tuple(
        saw_event(log, logged)
        for log, logged in run.events()
        if isinstance(logged.event, CabDelivered) and logged.event.id == dot
    )[:5]
