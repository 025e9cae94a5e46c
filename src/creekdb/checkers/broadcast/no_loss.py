"""A voter has received the request and its causal context, so no delivered request is lost.

Section 5: "no loss: if a process decides v at time t, then for one correct process rcv(v) = true at
time t". "In CAB, instead of rcv(v), we use a conjunction of rcv(v) and test predicates q(m) for
each CAB-cast message m, whose identifier is in v". A majority decides, and any minority may be
faulty. Therefore rcv(v) ∧ q(m) must hold at a majority when a request is first CAB-delivered
anywhere. Such a replica has received the request and every weak request of its context, and has
committed every strong one. It has also received the weak requests of the cut that extends the
context, if the batch has one.

The majority is one of the voters. If a primary decides alone, the primary must have received the
request. If the membership changed, a majority of the voters of any epoch suffices.

Only events that other processes could observe count. They are on disk, and survive a crash.
"""

from collections.abc import Iterable

from creekdb.checkers.run_index import ReceivedRequests, RunIndex
from creekdb.checkers.verdict import Violation, checker
from creekdb.history import CabDelivered, Dot, FirstVoted, LoggedEvent, ReplicaLog, Voted


@checker("no_loss")
def check(run: RunIndex) -> None:
    for log in run.logs:
        _check_votes(run, log)
    _check_deliveries(run)


def _check_votes(run: RunIndex, log: ReplicaLog) -> None:
    """Check that `rcv(v) ∧ q(m)` holds at a voter for every request of the batch."""
    received = ReceivedRequests(run)
    for logged in log.visible_events:
        received.apply(logged)
        for dot in logged.event.batch if isinstance(logged.event, Voted | FirstVoted) else ():
            request = run.request_at(dot, logged.at_us)
            is_weak = request is not None and not request.strong
            missing = (
                received.first_missing_up_to(dot.replica, dot.event)
                if is_weak
                else received.first_missing(dot, request)
            )
            if missing is not None:
                part = "cut" if is_weak else "causal context"
                dependency = "it" if missing == dot else f"{missing} of its {part}"
                message = (
                    f"replica {log.replica} voted for {dot}, but had not received {dependency}"
                )
                raise Violation(message, *run.casts.get(missing, ())[:2], (log, logged))


def _check_deliveries(run: RunIndex) -> None:
    """Check each first delivery, after all events of the same microsecond."""
    received = {voter: ReceivedRequests(run) for voters in run.electorates for voter in voters}
    first: list[tuple[ReplicaLog, LoggedEvent, Dot]] = []
    seen: set[Dot] = set()
    now_us = 0
    for log, logged in sorted(run.events(), key=lambda each: each[1].at_us):
        if logged.at_us > now_us:
            _check_received_by_majority(run, received, first)
            first, now_us = [], logged.at_us
        if isinstance(logged.event, CabDelivered) and logged.event.id not in seen:
            seen.add(logged.event.id)
            first.append((log, logged, logged.event.id))
        if log.replica in received:
            received[log.replica].apply(logged)
    _check_received_by_majority(run, received, first)


def _check_received_by_majority(
    run: RunIndex,
    received: dict[int, ReceivedRequests],
    delivered: Iterable[tuple[ReplicaLog, LoggedEvent, Dot]],
) -> None:
    for log, logged, dot in delivered:
        request = run.request_at(dot, logged.at_us)
        cut = run.cuts.get(dot, {})
        missing = {
            each: requests.first_missing(dot, request) or requests.first_missing_of_cut(cut)
            for each, requests in received.items()
        }
        holders = [each for each, dependency in missing.items() if dependency is None]
        if all(
            len([each for each in voters if each in holders]) <= len(voters) // 2
            for voters in run.electorates
        ):
            message = (
                f"{dot} was CAB-delivered when {len(holders)} of {len(received)} replicas had "
                f"received it and its causal context: {', '.join(map(str, holders)) or 'none'}"
            )
            raise Violation(message, *run.casts.get(dot, ())[:2], (log, logged))
