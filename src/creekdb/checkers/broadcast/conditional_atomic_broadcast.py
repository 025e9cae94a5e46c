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

from creekdb.checkers.run_index import IdSet, RunIndex
from creekdb.checkers.verdict import (
    Illegal,
    Ok,
    Verdict,
    Witness,
    event_witness,
    final_state_witness,
)
from creekdb.history import (
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Dot,
    LoggedEvent,
    RbCast,
    RbDelivered,
    ReplicaLog,
    Request,
)

NAME = "conditional_atomic_broadcast"


def check(run: RunIndex) -> Verdict:
    for log in run.logs:
        if problem := _LogChecker(run, log).check():
            return problem
    return (
        _check_unique_instance(run)
        or _check_total_order(run)
        or _check_recovery(run)
        or _check_validity(run)
        or _check_agreement(run)
        or Ok(NAME)
    )


class _LogChecker:
    """One incarnation, event by event, with what Algorithm 1 knows at each."""

    def __init__(self, run: RunIndex, log: ReplicaLog) -> None:
        self.run = run
        self.log = log
        self.received = IdSet()
        self.delivered = IdSet()
        self.committed = IdSet()
        self.context = IdSet()
        self.weak_keys: list[tuple[int, Dot]] = []

    def check(self) -> Illegal | None:
        for logged in self.log.events:
            event = logged.event
            problem: Illegal | None = None
            match event:
                case RbCast(request=request):
                    problem = self._check_cast(logged, request)
                case RbDelivered(id=dot):
                    self._add_received(dot, self.run.request_at(dot, logged.at_us))
                case CabDelivered(id=dot):
                    problem = self._check_delivery(logged, dot)
                    self.delivered.add(dot)
                    self.context.add(dot)
                case Committed(id=dot):
                    problem = self._check_commit(logged, dot)
                    self.committed.add(dot)
                    self.context.add(dot)
                case CheckpointInstalled(ids=dots):
                    for mine in (self.received, self.delivered, self.committed, self.context):
                        mine.update(dots)
                case _:
                    pass
            if problem is not None:
                return problem
        return None

    def _add_received(self, dot: Dot, request: Request | None) -> None:
        self.received.add(dot)
        if request is not None and not request.strong:
            self.context.add(dot)
            insort(self.weak_keys, request.key)  # nearly always at the end

    def _check_cast(self, logged: LoggedEvent, request: Request) -> Illegal | None:
        problem: Illegal | None = None
        if not self.run.history.guarantees.contexts:
            problem = self._check_empty_context(logged, request)
        elif request.strong:
            problem = self._check_causal_context(logged, request)
        self._add_received(request.id, request)
        return problem

    def _check_empty_context(self, logged: LoggedEvent, request: Request) -> Illegal | None:
        if not request.strong or request.context is None:
            return self._illegal(f"{request.id} was cast, but not to be ordered", logged)
        for dot in IdSet(request.context):
            message = f"{request.id}, which is ordered for itself, has {dot} in its causal context"
            return self._illegal(message, logged, dot)
        return None

    def _check_causal_context(self, logged: LoggedEvent, request: Request) -> Illegal | None:
        if request.context is None:
            return self._illegal(f"strong {request.id} was cast without a causal context", logged)
        unknown = self.context.first_missing(request.context)
        if unknown is not None:
            known = self.run.request_at(unknown, logged.at_us)
            kind = "a strong request not committed" if known and known.strong else "not delivered"
            message = f"the causal context of {request.id} has {unknown}, {kind} where it was cast"
            return self._illegal(message, logged, unknown)
        cast = IdSet(request.context)
        later = self.weak_keys[bisect_right(self.weak_keys, request.key) :]
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

    def _check_delivery(self, logged: LoggedEvent, dot: Dot) -> Illegal | None:
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

    def _check_commit(self, logged: LoggedEvent, dot: Dot) -> Illegal | None:
        request = self.run.request_at(dot, logged.at_us)
        if request is not None and request.strong and dot not in self.delivered:
            return self._illegal(f"strong {dot} was committed, but not CAB-delivered", logged)
        return None

    def _illegal(self, message: str, logged: LoggedEvent, about: Dot | None = None) -> Illegal:
        seen: list[Witness] = []
        if about is not None:
            casts = self.run.casts.get(about, ())
            seen += [event_witness(cast.log, cast.logged) for cast in casts]
            seen += [
                event_witness(self.log, each)
                for each in self.log.events
                if _is_event_of(each, about)
            ]
        last = event_witness(self.log, logged)
        return Illegal(NAME, message, (*[each for each in seen if each != last][:3], last))


def _is_event_of(logged: LoggedEvent, dot: Dot) -> bool:
    match logged.event:
        case RbDelivered(id=named) | CabDelivered(id=named) | Committed(id=named):
            return named == dot
        case _:
            return False


def _check_unique_instance(run: RunIndex) -> Illegal | None:
    instances: dict[Dot, int] = {}
    for instance, dot in run.cab_order:
        first = instances.setdefault(dot, instance)
        if first != instance:
            message = f"{dot} was CAB-delivered in two instances, {first} and {instance}"
            return Illegal(NAME, message, _delivery_witnesses(run, dot))
    return None


def _check_total_order(run: RunIndex) -> Illegal | None:
    """Each log is one stretch of the merged order, but for jumps over checkpoints."""
    for log in run.logs:
        at = 0
        for logged in log.visible_events:
            match logged.event:
                case CheckpointInstalled(instance=instance):
                    at = max(at, _first_position_of(run, instance))
                case CabDelivered(id=dot, instance=instance):
                    expected = run.cab_order[at] if at < len(run.cab_order) else None
                    if (instance, dot) != expected:
                        return _order_violation(run, log, logged, expected)
                    at += 1
                case _:
                    pass
    return None


def _order_violation(
    run: RunIndex, log: ReplicaLog, logged: LoggedEvent, expected: tuple[int, Dot] | None
) -> Illegal:
    if expected is None:
        return Illegal(NAME, "CAB deliveries out of order", (event_witness(log, logged),))
    message = f"CAB deliveries out of order: {expected[1]} of instance {expected[0]} comes next"
    return Illegal(
        NAME, message, (*_delivery_witnesses(run, expected[1])[:2], event_witness(log, logged))
    )


def _check_recovery(run: RunIndex) -> Illegal | None:
    for old, new in pairwise(run.logs):
        if old.replica == new.replica and not new.has_empty_disk:
            had = _order_position_after(run, old.visible_events)
            found = tuple(each for each in new.events if each.at_us == new.started_us)
            at = _order_position_after(run, found)
            if at < had:
                instance, dot = run.cab_order[at]
                message = f"replica {new.replica} restarted without {dot} of instance {instance}"
                seen = _delivery_witnesses(run, dot)
                mine = [each for each in seen if each.who.startswith(f"replica {new.replica} ")]
                return Illegal(NAME, message, tuple(mine[:1] or seen[:1]))
    return None


def _order_position_after(run: RunIndex, events: tuple[LoggedEvent, ...]) -> int:
    """How far in the merged order."""
    at = 0
    for logged in events:
        match logged.event:
            case CheckpointInstalled(instance=instance):
                at = max(at, _first_position_of(run, instance))
            case CabDelivered():
                at += 1
            case _:
                pass
    return at


def _check_validity(run: RunIndex) -> Illegal | None:
    """A strong request survived when a replica that is up at the end has it."""
    if not run.history.quiescent:
        return None
    delivered = {dot for _, dot in run.cab_order}
    for dot, casts in run.casts.items():
        cast = casts[-1]
        waiting = cast.request.strong and dot not in delivered and dot not in run.positions
        if waiting and any(dot in known for known in run.known_ids.values()):
            message = f"strong {dot} was CAB-cast and never CAB-delivered"
            return Illegal(NAME, message, (event_witness(cast.log, cast.logged),))
    return None


def _check_agreement(run: RunIndex) -> Illegal | None:
    if not run.history.quiescent:
        return None
    for final in run.history.final_states:
        log = run.last_logs.get(final.replica)
        at = _order_position_after(run, log.events if log is not None else ())
        if at < len(run.cab_order):
            instance, dot = run.cab_order[at]
            message = f"replica {final.replica} never CAB-delivered {dot} of instance {instance}"
            witness = final_state_witness(final, f"ends before instance {instance}")
            return Illegal(NAME, message, (*_delivery_witnesses(run, dot)[:2], witness))
    return None


def _first_position_of(run: RunIndex, instance: int) -> int:
    """The first place of the merged order that does not come before `instance`."""
    return bisect_left(run.cab_order, instance, key=lambda each: each[0])


def _delivery_witnesses(run: RunIndex, dot: Dot) -> tuple[Witness, ...]:
    return tuple(
        event_witness(log, logged)
        for log, logged in run.events()
        if isinstance(logged.event, CabDelivered) and logged.event.id == dot
    )[:5]
