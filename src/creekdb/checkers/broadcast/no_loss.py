"""Whoever votes for a request has it and its causal context; so what is delivered is never lost.

Section 5: "no loss: if a process decides v at time t, then for one correct process rcv(v) = true at
time t"; "in CAB, instead of rcv(v), we use a conjunction of rcv(v) and test predicates q(m) for
each CAB-cast message m, whose identifier is in v". Since a majority decides, and any minority may
be faulty, rcv(v) ∧ q(m) must hold at a majority when a request is first CAB-delivered anywhere: it
has the request, every weak request of its context, and has committed every strong one. A majority
is one of those who have a vote: where a primary decides alone, the primary has it; where the
members were changed, one of those who had it at some time.

What counts is what others could learn of: by then it is on disk, and outlives a crash.
"""

from collections.abc import Iterable

from creekdb.checkers.run_index import IdSet, RunIndex
from creekdb.checkers.verdict import Illegal, Ok, Verdict, Witness, event_witness
from creekdb.history import (
    Batch,
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Dot,
    LoggedEvent,
    RbCast,
    RbDelivered,
    ReplicaLog,
    Request,
    Voted,
)

NAME = "no_loss"


def check(run: RunIndex) -> Verdict:
    for log in run.logs:
        if problem := _check_votes(run, log):
            return problem
    return _check_deliveries(run) or Ok(NAME)


class _ReceivedRequests:
    """What a replica has, as far as predicates ask for it."""

    def __init__(self) -> None:
        self.received = IdSet()
        self.context = IdSet()
        """As `causalCtx`: weak requests that were received, and strong ones that are committed."""

    def apply(self, run: RunIndex, logged: LoggedEvent) -> None:
        match logged.event:
            case RbCast(request=request):
                self._add_received(request.id, request)
            case RbDelivered(id=dot):
                self._add_received(dot, run.request_at(dot, logged.at_us))
            case CabDelivered(id=dot) | Committed(id=dot):
                self.context.add(dot)
            case CheckpointInstalled(ids=dots):
                self.received.update(dots)
                self.context.update(dots)
            case _:
                pass

    def _add_received(self, dot: Dot, request: Request | None) -> None:
        self.received.add(dot)
        if request is not None and not request.strong:
            self.context.add(dot)

    def first_missing(self, dot: Dot, request: Request | None) -> Dot | None:
        """What the predicate of a request waits for."""
        if dot not in self.received or request is None or request.context is None:
            return dot
        return self.context.first_missing(request.context)


def _check_votes(run: RunIndex, log: ReplicaLog) -> Illegal | None:
    """`rcv(v) ∧ q(m)` at the one who votes, for all that it votes for."""
    mine = _ReceivedRequests()
    for logged in log.visible_events:
        if isinstance(logged.event, Voted):
            if problem := _check_vote(run, log, logged, logged.event.batch, mine):
                return problem
        else:
            mine.apply(run, logged)
    return None


def _check_vote(
    run: RunIndex, log: ReplicaLog, logged: LoggedEvent, batch: Batch, mine: _ReceivedRequests
) -> Illegal | None:
    for dot in batch:
        missing = mine.first_missing(dot, run.request_at(dot, logged.at_us))
        if missing is not None:
            what = "it" if missing == dot else f"{missing} of its causal context"
            message = f"replica {log.replica} voted for {dot} without {what}"
            return Illegal(
                NAME, message, (*_cast_witnesses(run, missing), event_witness(log, logged))
            )
    return None


def _check_deliveries(run: RunIndex) -> Illegal | None:
    """In the order of time; what happens at one moment is all there when that moment is judged."""
    holdings = {voter: _ReceivedRequests() for voters in run.electorates for voter in voters}
    first: list[tuple[ReplicaLog, LoggedEvent, Dot]] = []
    seen: set[Dot] = set()
    now_us = 0
    for log, logged in _events_by_time(run):
        if logged.at_us > now_us:
            if problem := _check_held_by_majority(run, holdings, first):
                return problem
            first, now_us = [], logged.at_us
        if isinstance(logged.event, CabDelivered) and logged.event.id not in seen:
            seen.add(logged.event.id)
            first.append((log, logged, logged.event.id))
        if log.replica in holdings:
            holdings[log.replica].apply(run, logged)
    return _check_held_by_majority(run, holdings, first)


def _events_by_time(run: RunIndex) -> list[tuple[ReplicaLog, LoggedEvent]]:
    return sorted(run.events(), key=lambda each: each[1].at_us)


def _check_held_by_majority(
    run: RunIndex,
    holdings: dict[int, _ReceivedRequests],
    delivered: Iterable[tuple[ReplicaLog, LoggedEvent, Dot]],
) -> Illegal | None:
    for log, logged, dot in delivered:
        request = run.request_at(dot, logged.at_us)
        missing = {each: mine.first_missing(dot, request) for each, mine in holdings.items()}
        holders = [each for each, lacks in missing.items() if lacks is None]
        if all(
            len([each for each in voters if each in holders]) <= len(voters) // 2
            for voters in run.electorates
        ):
            message = (
                f"{dot} was CAB-delivered when {len(holders)} of {len(holdings)} replicas had it "
                f"and its causal context: {', '.join(map(str, holders)) or 'none'}"
            )
            return Illegal(NAME, message, (*_cast_witnesses(run, dot), event_witness(log, logged)))
    return None


def _cast_witnesses(run: RunIndex, dot: Dot) -> tuple[Witness, ...]:
    return tuple(event_witness(cast.log, cast.logged) for cast in run.casts.get(dot, ()))[:2]
