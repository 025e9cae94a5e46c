"""Conditional atomic broadcast has its properties (Section 3.3), with `checkDep` as predicate.

- "validity: if a correct process CAB-casts a message m with predicate q, and eventual stable
  evaluation holds for q, then [it] eventually CAB-delivers m"
- "uniform integrity: [...] every process CAB-delivers m at most once, and only if (m, q) was
  previously CAB-cast and q(m) = true at p_i"
- "uniform agreement: if a process (correct or faulty) CAB-delivers m [...] then all correct
  processes eventually CAB-deliver m"
- "uniform total order: if some process (correct or faulty) CAB-delivers m before m', then every
  process CAB-delivers m' only after it has CAB-delivered m"

The predicate (lines 10-14) depends on the causal context that the request was cast with. The
checker therefore compares the context with line 19, "causalCtx \\ {x.id | x ∈ tentative ∧ r < x}".
Lines 22, 30 and 34 define `causalCtx`. A cut that was decided with the request extends the context
and the predicate: the weak requests of the cut must be received. If the scheme orders every request
individually, all requests are strong and all contexts empty.

A checkpoint delivers the requests that it covers. A delivery that other processes could observe is
permanent: a restarted replica recovers it from disk.
"""

from bisect import bisect_left, bisect_right

from creekdb.checkers.run_index import IdSet, ReceivedRequests, RunIndex
from creekdb.checkers.verdict import Evidence, Violation, checker
from creekdb.history import (
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Dot,
    Event,
    LoggedEvent,
    RbCast,
    RbDelivered,
    ReplicaLog,
    Request,
)


@checker("conditional_atomic_broadcast")
def check(run: RunIndex) -> None:
    for log in run.logs:
        _LogChecker(run, log).check()
    _check_unique_instance(run)
    _check_total_order(run)
    _check_recovery(run)
    if run.history.quiescent:
        _check_validity(run)
        _check_agreement(run)


class _LogChecker:
    """Checks the events of one incarnation, with the variables of Algorithm 1 at each event."""

    def __init__(self, run: RunIndex, log: ReplicaLog) -> None:
        self.run = run
        self.log = log
        self.received = ReceivedRequests(run)
        self.delivered = IdSet()
        self.committed = IdSet()

    def check(self) -> None:
        visible = len(self.log.visible_events)
        for at, logged in enumerate(self.log.events):
            match logged.event:
                case RbCast(request=request):
                    if not self.run.history.guarantees.contexts:
                        self._check_empty_context(logged, request)
                    elif request.strong:
                        self._check_causal_context(logged, request)
                case CabDelivered(id=dot):
                    self._check_delivery(logged, dot)
                    if at < visible:
                        self._check_cut(logged, dot)
                    self.delivered.add(dot)
                case Committed(id=dot):
                    self._check_commit(logged, dot)
                    self.committed.add(dot)
                case CheckpointInstalled(ids=dots):
                    self.delivered.update(dots)
                    self.committed.update(dots)
                case _:
                    pass
            self.received.apply(logged)

    def _check_empty_context(self, logged: LoggedEvent, request: Request) -> None:
        if not request.strong or request.context is None:
            message = f"{request.id} was cast, but not CAB-cast; every request must be ordered"
            raise self._violation(message, logged)
        for dot in IdSet(request.context):
            message = f"{request.id} is ordered individually, but has {dot} in its causal context"
            raise self._violation(message, logged, dot)

    def _check_causal_context(self, logged: LoggedEvent, request: Request) -> None:
        if request.context is None:
            raise self._violation(f"strong {request.id} was cast without a causal context", logged)
        extra = self.received.context.first_missing(request.context)
        if extra is not None:
            extra_request = self.run.request_at(extra, logged.at_us)
            is_strong = extra_request is not None and extra_request.strong
            cause = "strong and not committed" if is_strong else "not delivered"
            message = f"the causal context of {request.id} contains {extra}, {cause} at its origin"
            raise self._violation(message, logged, extra)
        context = IdSet(request.context)
        weak_keys = self.received.weak_keys
        later = weak_keys[bisect_right(weak_keys, request.key) :]
        tentative = {dot for _, dot in later if dot not in self.committed}
        for dot in context.missing(self.received.context):
            if dot not in tentative:
                message = f"the causal context of {request.id} lacks {dot}, which precedes it"
                raise self._violation(message, logged, dot)
        for dot in sorted(tentative):
            if dot in context:
                message = f"the causal context of {request.id} contains {dot}, which follows it"
                raise self._violation(message, logged, dot)

    def _check_delivery(self, logged: LoggedEvent, dot: Dot) -> None:
        request = self.run.request_at(dot, logged.at_us)
        if dot in self.delivered:
            message = f"{dot} was CAB-delivered twice, or after a checkpoint that covers it"
            raise self._violation(message, logged, dot)
        if request is None or not request.strong or request.context is None:
            raise self._violation(f"{dot} was CAB-delivered, but had not been CAB-cast", logged)
        missing = self.received.first_missing(dot, request)
        if missing == dot:
            message = f"{dot} was CAB-delivered before it was RB-delivered: predicate false"
            raise self._violation(message, logged)
        if missing is not None:
            message = (
                f"{dot} was CAB-delivered without {missing} of its causal context: predicate false"
            )
            raise self._violation(message, logged, missing)

    def _check_cut(self, logged: LoggedEvent, dot: Dot) -> None:
        """Check a delivery that no crash lost. After a lost one, another cut may be decided."""
        if self.run.request_at(dot, logged.at_us) is not self.run.request(dot):
            return  # the cut belongs to a later request with this identifier
        missing = self.received.first_missing_of_cut(self.run.cuts.get(dot, {}))
        if missing is not None:
            message = f"{dot} was CAB-delivered without {missing} of its cut: predicate false"
            raise self._violation(message, logged, missing)

    def _check_commit(self, logged: LoggedEvent, dot: Dot) -> None:
        request = self.run.request_at(dot, logged.at_us)
        if request is not None and request.strong and dot not in self.delivered:
            raise self._violation(f"strong {dot} was committed, but not CAB-delivered", logged)

    def _violation(
        self, message: str, logged: LoggedEvent, subject: Dot | None = None
    ) -> Violation:
        evidence: list[Evidence] = []
        if subject is not None:
            evidence += [each[:2] for each in self.run.casts.get(subject, ())]
            evidence += [
                (self.log, each)
                for each in self.log.events
                if isinstance(each.event, RbDelivered | CabDelivered | Committed)
                and each.event.id == subject
            ]
        last = (self.log, logged)
        return Violation(message, *[each for each in evidence if each != last][:3], last)


def _check_unique_instance(run: RunIndex) -> None:
    instances: dict[Dot, int] = {}
    for instance, dot in run.cab_order:
        first = instances.setdefault(dot, instance)
        if first != instance:
            message = f"{dot} was CAB-delivered in two instances, {first} and {instance}"
            raise Violation(message, *_deliveries(run, dot))


def _check_total_order(run: RunIndex) -> None:
    """Check that each log is a contiguous part of the merged order, except at checkpoints."""
    for log in run.logs:
        at = 0
        for logged in log.visible_events:
            event, expected = logged.event, run.cab_order[at : at + 1]
            if isinstance(event, CabDelivered) and [(event.instance, event.id)] != expected:
                message, evidence = "CAB deliveries out of order", [(log, logged)]
                for instance, dot in expected:
                    message += f": {dot} of instance {instance} is next"
                    evidence[:0] = _deliveries(run, dot)[:2]
                raise Violation(message, *evidence)
            at = _position_after(run, at, event)


def _check_recovery(run: RunIndex) -> None:
    for old, new, recovered in run.recoveries():
        position = _order_position_after(run, recovered)
        if position < _order_position_after(run, old.visible_events):
            instance, dot = run.cab_order[position]
            message = f"replica {new.replica} restarted without {dot} of instance {instance}"
            deliveries = _deliveries(run, dot)
            own = [each for each in deliveries if each[0].replica == new.replica]
            raise Violation(message, *own[:1] or deliveries[:1])


def _order_position_after(run: RunIndex, events: tuple[LoggedEvent, ...]) -> int:
    """Return the position in the merged order that a replica has reached after `events`."""
    at = 0
    for logged in events:
        at = _position_after(run, at, logged.event)
    return at


def _position_after(run: RunIndex, at: int, event: Event) -> int:
    match event:
        case CheckpointInstalled(instance=instance):
            return max(at, bisect_left(run.cab_order, instance, key=lambda each: each[0]))
        case CabDelivered():
            return at + 1
        case _:
            return at


def _check_validity(run: RunIndex) -> None:
    """Check that every strong request that a replica has at the end was CAB-delivered."""
    delivered = {dot for _, dot in run.cab_order}
    for dot, casts in run.casts.items():
        cast = casts[-1]
        is_pending = cast.request.strong and dot not in delivered and dot not in run.positions
        if is_pending and any(dot in ids for ids in run.rb_delivered_ids.values()):
            message = f"strong {dot} was CAB-cast and never CAB-delivered"
            raise Violation(message, cast)


def _check_agreement(run: RunIndex) -> None:
    for final in run.history.final_states:
        log = run.last_logs.get(final.replica)
        at = _order_position_after(run, log.events if log is not None else ())
        if at < len(run.cab_order):
            instance, dot = run.cab_order[at]
            message = f"replica {final.replica} never CAB-delivered {dot} of instance {instance}"
            end = (final, f"ends before instance {instance}")
            raise Violation(message, *_deliveries(run, dot)[:2], end)


def _deliveries(run: RunIndex, dot: Dot) -> list[tuple[ReplicaLog, LoggedEvent]]:
    return [
        (log, logged)
        for log, logged in run.events()
        if isinstance(logged.event, CabDelivered) and logged.event.id == dot
    ][:5]
