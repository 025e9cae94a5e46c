"""Fluctuating eventual consistency: each response results from one serialisation of requests.

Section 4.3: weak operations "observe" an order that may change from one response to the next. Each
response still results from a sequential execution of operations that were already cast. If a run
recorded these observed orders, the checker compares each response with its own order:

- The response is the outcome of executing exactly the requests of the order, sequentially.
- The replica had delivered all requests of the order, each of which occurs once. It had committed
  the stable prefix of the order.
- The order, followed by the operation itself, is one of "committed · tentative": committed
  requests in their order, then others by timestamp.
- A session reads its own writes. The order contains each updating operation that the session
  invoked earlier at the same incarnation. A strong operation is exempt if it was not stable when
  this one was invoked. It may be committed later, even after a tentative response.

If the scheme executes requests sequentially (line 62), there is one more rule. The order contains
all requests that the replica delivered before it cast the operation, except for those that
committed puts after the operation.

A response from a checkpoint has no order, and must be the final one. Operations that only their
replica executed follow the same rules.
"""

from typing import Any, NamedTuple

from creekdb.checkers.replay import equal_outcomes
from creekdb.checkers.run_index import (
    IdSet,
    MissingRecords,
    RunIndex,
    add_rb_delivered,
    committed_length_after,
)
from creekdb.checkers.verdict import Violation, checker, outcome_text
from creekdb.datatypes import DataType
from creekdb.history import (
    Dot,
    Key,
    ObservedOrder,
    OperationRecord,
    RbCast,
    Request,
    ResponseKind,
    ResponseRecord,
)


class _ObservedResponse(NamedTuple):
    """A response, with the order on which it was computed."""

    record: OperationRecord
    response: ResponseRecord
    order: ObservedOrder

    def violation(self, message: str) -> Violation:
        return Violation(message, self.record, (self.record, self.response))


@checker("fluctuating")
def check(run: RunIndex) -> None:
    datatype = run.required_datatype()
    responses = [
        _ObservedResponse(record, response, response.observed)
        for record in run.history.operations
        for response in record.responses
        if response.observed is not None and not _rests_on_lost_commits(run, record, response)
    ]
    responses.sort(key=lambda each: each.order.settled)
    tentative = any(record.tentative is not None for record in run.history.operations)
    if tentative and not responses:
        raise MissingRecords("the run recorded no observed orders; runs of the fuzzer record them")
    _check_read_your_writes(run)
    _check_replay(run, datatype, responses)
    if run.history.guarantees.sequential:
        _check_observed_completeness(run, responses)


def _rests_on_lost_commits(
    run: RunIndex, record: OperationRecord, response: ResponseRecord
) -> bool:
    """True if a crash may have lost commits that the response counts as stable.

    That requires a tentative response that did not wait for the disk. Local reads do not wait for
    a disk that fails.
    """
    durable_length = run.durable_lengths.get((record.replica, record.incarnation), 0)
    return (
        (run.responds_before_durable or record.is_local)
        and response.observed is not None
        and response.observed.settled > durable_length
    )


# --- values of responses ------------------------------------------------------------------------


def _check_replay(run: RunIndex, datatype: DataType, responses: list[_ObservedResponse]) -> None:
    """Check the responses by the length of their stable prefix, so that they share one state."""
    stable = datatype.sequential()
    length = 0
    for each in responses:
        if each.order.settled > len(run.committed):
            message = f"a response to {each.record.id} has a stable prefix longer than committed"
            raise each.violation(message)
        while length < each.order.settled:
            stable.apply(run.committed_request(length))
            length += 1
        _check_observed_ids(run, each)
        _check_observed_order(run, each)
        _check_outcome(run, datatype, each, stable.state)
    _check_delivered_locally(run, responses)
    _check_checkpoint_responses(run, datatype)


def _check_observed_ids(run: RunIndex, observed: _ObservedResponse) -> None:
    seen: set[Dot] = set()
    for dot in observed.order.ids:
        index = run.position_at(dot, observed.response.at_us)
        if dot in seen or (index is not None and index < observed.order.settled):
            raise observed.violation(f"a response to {observed.record.id} counts {dot} twice")
        if dot == observed.record.id or run.request_at(dot, observed.response.at_us) is None:
            message = f"a response to {observed.record.id} counts {dot}, which had not been cast"
            raise observed.violation(message)
        seen.add(dot)


def _check_observed_order(run: RunIndex, observed: _ObservedResponse) -> None:
    """Check that the order is a prefix of committed followed by others by timestamp.

    Requests that are committed later must also be in the order of committed.
    """
    at_us = observed.response.at_us
    own = () if observed.record.is_local else (_own_request(run, observed),)
    counted = (run.request_at(dot, at_us) for dot in observed.order.ids)
    requests = [*(each for each in counted if each is not None), *own]
    indices = [run.position_at(each.id, at_us) for each in requests]
    positions = [len(run.committed) if index is None else index for index in indices]
    tentative = len(requests)
    """Index from which on the requests are ordered by timestamp."""
    while tentative and (
        tentative == len(requests) or requests[tentative - 1].key < requests[tentative].key
    ):
        tentative -= 1
    for at in range(1, len(requests)):
        before = positions[min(at, tentative) - 1] if tentative else -1
        if before >= positions[at]:
            message = (
                f"a response to {observed.record.id} executes {requests[at].id} after "
                f"{requests[at - 1].id}, against committed and against their timestamps"
            )
            raise observed.violation(message)


def _check_delivered_locally(run: RunIndex, responses: list[_ObservedResponse]) -> None:
    """Check that the replica had delivered each order by the time of the response."""
    by_log: dict[tuple[int, int], list[_ObservedResponse]] = {}
    for each in sorted(responses, key=lambda each: each.response.at_us):
        by_log.setdefault((each.record.replica, each.record.incarnation), []).append(each)
    for log in run.logs:
        delivered, length, at = IdSet(), 0, 0
        for each in by_log.pop((log.replica, log.incarnation), ()):
            while at < len(log.events) and log.events[at].at_us <= each.response.at_us:
                event = log.events[at].event
                add_rb_delivered(delivered, event)
                length = max(length, committed_length_after(event))
                at += 1
            if each.order.settled > length:
                message = (
                    f"a response to {each.record.id} has a stable prefix of "
                    f"{each.order.settled} requests, but its replica had committed {length}"
                )
                raise each.violation(message)
            for dot in each.order.ids:
                if dot not in delivered:
                    message = (
                        f"a response to {each.record.id} counts {dot}, "
                        "which its replica had not delivered"
                    )
                    raise each.violation(message)


def _check_outcome(
    run: RunIndex, datatype: DataType, observed: _ObservedResponse, stable_state: dict[Key, Any]
) -> None:
    machine = datatype.sequential()
    machine.state = dict(stable_state)
    for dot in observed.order.ids:
        request = run.request_at(dot, observed.response.at_us)
        assert request is not None, "the request had been cast"
        machine.apply(request)
    expected = machine.apply(_own_request(run, observed))
    actual = observed.response.outcome
    if not equal_outcomes(actual, expected):
        message = (
            f"a response to {observed.record.id} is {outcome_text(actual)}, but its observed order "
            f"gives {outcome_text(expected)}"
        )
        raise observed.violation(message)


def _own_request(run: RunIndex, observed: _ObservedResponse) -> Request:
    record = observed.record
    for cast in run.casts.get(record.id, ()):
        if cast.log.incarnation == record.incarnation:
            return cast.request
    timestamp = observed.order.timestamp
    if timestamp is None:
        timestamp = record.invoked_us
    return Request(timestamp, record.id, record.operation, record.strong)


def _check_checkpoint_responses(run: RunIndex, datatype: DataType) -> None:
    """Check the tentative responses without an observed order."""
    unobserved: dict[int, list[tuple[OperationRecord, ResponseRecord]]] = {}
    for record in run.history.operations:
        position = run.position_of(record)
        for response in record.responses:
            if response.kind is not ResponseKind.TENTATIVE or response.observed is not None:
                continue
            if position is None:
                message = f"{record.id} got a response from a checkpoint, but is not committed"
                raise Violation(message, record, (record, response))
            unobserved.setdefault(position, []).append((record, response))
    machine = datatype.sequential()
    for index in range(max(unobserved, default=-1) + 1):
        expected = machine.apply(run.committed_request(index))
        for record, response in unobserved.get(index, ()):
            actual = response.outcome
            if not equal_outcomes(actual, expected):
                message = (
                    f"a response to {record.id} from a checkpoint is {outcome_text(actual)}, but "
                    f"committed gives {outcome_text(expected)}"
                )
                raise Violation(message, record, (record, response))


# --- read your writes ---------------------------------------------------------------------------


def _check_read_your_writes(run: RunIndex) -> None:
    for records in run.connections():
        earlier: list[OperationRecord] = []
        for record in records:
            for response in record.responses:
                if response.observed is None or _rests_on_lost_commits(run, record, response):
                    continue
                missing = _first_unobserved_write(run, earlier, record, response.observed)
                if missing is not None:
                    message = (
                        f"a response to {record.id} does not count {missing.id}, "
                        "which its session invoked earlier"
                    )
                    raise Violation(message, missing, record, (record, response))
            if not record.is_local:
                earlier.append(record)


def _first_unobserved_write(
    run: RunIndex, earlier: list[OperationRecord], record: OperationRecord, order: ObservedOrder
) -> OperationRecord | None:
    ids = set(order.ids)
    for each in earlier:
        if each.strong and (each.stable is None or each.stable.at_us > record.invoked_us):
            continue
        index = run.position_of(each)
        is_stable = index is not None and index < order.settled
        if each.id not in ids and not is_stable:
            return each
    return None


# --- completeness -------------------------------------------------------------------------------


def _check_observed_completeness(run: RunIndex, responses: list[_ObservedResponse]) -> None:
    """Check that no order lacks a request that the replica had delivered before the cast.

    The responses are sorted by the length of their stable prefix, and share one growing set.
    """
    delivered_before = _delivered_before_cast(run)
    stable, length = IdSet(), 0
    for each in responses:
        for dot in run.committed[length : each.order.settled]:
            if dot is not None:
                stable.add(dot)
        length = max(length, each.order.settled)
        position = run.position_of(each.record)
        ids = set(each.order.ids)
        delivered = delivered_before.get((each.record.id, each.record.incarnation), IdSet())
        for dot in stable.missing(delivered):
            index = run.positions.get(dot)
            if dot in ids or index is None or position is None or position < index:
                continue
            message = f"a response to {each.record.id} does not count {dot}, which precedes it"
            raise each.violation(message)


def _delivered_before_cast(run: RunIndex) -> dict[tuple[Dot, int], IdSet]:
    """Return the requests that each incarnation had delivered when it cast one of its own."""
    delivered_before: dict[tuple[Dot, int], IdSet] = {}
    for log in run.logs:
        delivered = IdSet()
        for logged in log.events:
            if isinstance(logged.event, RbCast):
                delivered_before[logged.event.request.id, log.incarnation] = delivered.copy()
            add_rb_delivered(delivered, logged.event)
    return delivered_before
