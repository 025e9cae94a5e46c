"""Replicas converge once faults heal and clients stop. No operation with a response is lost.

Section 3.4: "the replicas' states in each subgroup converge once the stream of operations submitted
by clients ceases". Section 4.3: committed is the "ever growing single serialization to which all
serializations observed [...] gravitate". A run that does not become quiescent is illegal.
"""

from creekdb.checkers.replay import equal_exactly, first_different_key
from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import Violation, checker, short_text
from creekdb.history import NOOP, Dot, FinalState


@checker("convergence")
def check(run: RunIndex) -> None:
    if not run.history.quiescent or not run.history.final_states:
        message = "liveness: the run did not become quiescent"
        evidence = (
            (each, f"has {_committed_length(each)} committed, {len(each.tentative)} tentative")
            for each in run.history.final_states[:5]
        )
        raise Violation(message, *evidence)
    _check_nothing_tentative(run)
    _check_lengths(run)
    _check_orders(run)
    _check_states(run)
    _check_lost_responses(run)
    _check_lost_observations(run)
    _check_lost_requests(run)


def _check_nothing_tentative(run: RunIndex) -> None:
    for final in run.history.final_states:
        if final.tentative:
            first = ", ".join(str(dot) for dot in final.tentative[:5])
            message = f"liveness: {len(final.tentative)} requests never stabilised"
            raise Violation(message, (final, f"has {first} on tentative"))


def _check_lengths(run: RunIndex) -> None:
    finals = run.history.final_states
    for final in finals:
        if _committed_length(final) != len(run.committed):
            message = f"{len(run.committed)} requests are committed, but not at every replica"
            evidence = (
                (each, f"has {_committed_length(each)} on committed") for each in finals[:5]
            )
            raise Violation(message, *evidence)


def _check_orders(run: RunIndex) -> None:
    for final in run.history.final_states:
        for index, dot in enumerate(final.committed, start=final.first):
            if run.committed[index] not in (dot, None):
                message = f"the committed orders differ at index {index}"
                observation = f"has {dot}, where other replicas have {run.committed[index]}"
                raise Violation(message, (final, observation))


def _check_states(run: RunIndex) -> None:
    reference = run.history.final_states[0]
    expected = dict(reference.state)
    for final in run.history.final_states[1:]:
        state = dict(final.state)
        if not equal_exactly(state, expected):
            key = first_different_key(state, expected)
            values = [short_text(each.get(key, "no value")) for each in (expected, state)]
            evidence = ((reference, f"has {values[0]}"), (final, f"has {values[1]}"))
            raise Violation(f"the states differ under {short_text(key)}", *evidence)


def _check_lost_responses(run: RunIndex) -> None:
    """Check that every operation with a response is committed.

    Responses are sent after the request is durable. Only a replica that never restarts may lose
    requests that no other replica has, and none with a stable response. A removed replica hands
    over all its requests. If responses did not wait for the disk, a crash may lose a request that
    has only tentative ones.
    """
    durable = _durable_replicas(run)
    for record in run.history.operations:
        is_durable = record.replica in durable or record.stable is not None
        is_lost = not record.is_local and run.position_of(record) is None
        if record.responses and is_durable and is_lost and not run.may_be_lost(record):
            message = f"{record.id} got a response and was then lost: it is not on committed"
            raise Violation(message, record, (record, record.responses[0]))


def _check_lost_observations(run: RunIndex) -> None:
    """Check that every request that a response counts is committed.

    A read may be executed before the requests that it counts are durable. Its response is not sent
    before. A no-op has no effect that a client could have seen.
    """
    durable = _durable_replicas(run)
    for record in run.history.operations:
        for response in record.responses:
            for dot in response.observed.ids if response.observed is not None else ():
                if dot.replica not in durable or run.position_at(dot, response.at_us) is not None:
                    continue
                request = run.request_at(dot, response.at_us)
                if request is not None and request.operation == NOOP:
                    continue
                if not (run.responds_before_durable and _is_volatile(run, dot)):
                    message = f"a response to {record.id} counts {dot}, which was then lost"
                    raise Violation(message, record, (record, response))


def _is_volatile(run: RunIndex, dot: Dot) -> bool:
    return any((dot, cast.log.incarnation) in run.volatile_casts for cast in run.casts.get(dot, ()))


def _durable_replicas(run: RunIndex) -> set[int]:
    """Return the replicas that lose no durable request."""
    return {*run.last_logs, *(log.replica for log in run.logs if log.is_removed)}


def _check_lost_requests(run: RunIndex) -> None:
    for final in run.history.final_states:
        for dot in run.rb_delivered_ids.get(final.replica, ()):
            if dot not in run.positions and None not in run.committed:
                message = f"{dot} was delivered and then lost: it is not on committed"
                raise Violation(message, (final, f"had delivered {dot}"))


def _committed_length(final: FinalState) -> int:
    return final.first + len(final.committed)
