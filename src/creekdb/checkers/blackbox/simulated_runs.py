"""Recorded histories as their clients observed them, without any record of a replica.

The black-box checkers can thus judge simulated runs, beside the checkers of records.
"""

from typing import Any, Final

from creekdb.checkers.blackbox.exactly_once import check_exactly_once
from creekdb.checkers.blackbox.linearizability.plain_models import MODELS
from creekdb.checkers.blackbox.observations import (
    CallStatus,
    FinalObservation,
    ObservedCall,
    ObservedRun,
)
from creekdb.checkers.blackbox.registry import judge_by_datatype, judge_linearizability
from creekdb.checkers.verdict import Illegal, Ok, Verdict
from creekdb.history import MEMBERSHIP_OPERATION, History, OperationRecord, Outcome

STEPS_MAX: Final = 2_000
"""Upper bound for the steps of the search on one object, so that it is fast in every run."""


def observe(history: History) -> ObservedRun:
    """Return the calls of a history as their clients observed them.

    A session ends when its replica restarts, since an injected fault may have erased the disk.
    """
    tentative = history.guarantees.tentative
    calls = [
        _observed_call(each, tentative)
        for each in history.operations
        if each.operation.name != MEMBERSHIP_OPERATION
    ]
    calls.sort(key=lambda call: call.invoked_us)
    return ObservedRun(datatype=history.datatype, calls=tuple(calls))


def judge_history(history: History, steps_max: int = STEPS_MAX) -> list[Verdict]:
    """Return the verdicts of the checkers that need only the observations.

    Without final states, and with few steps, some runs remain undecided.
    """
    run = observe(history)
    judgements = judge_by_datatype(run)
    if run.datatype in MODELS and run.datatype != "transactions":
        judgements.append(judge_linearizability(run, MODELS[run.datatype], steps_max))
    verdicts = [check_exactly_once(run), *(verdict for verdict, _ in judgements)]
    return [each for each in verdicts if isinstance(each, Ok | Illegal)]


def _observed_call(record: OperationRecord, tentative: bool) -> ObservedCall:
    is_strong = record.strong or not tentative
    response = record.stable if is_strong else record.tentative
    final = None
    if record.final is not None:
        status, value = _status_of(record.final.outcome)
        final = FinalObservation(record.final.at_us, status, value, record.final.changed)
    status, value = _status_of(response.outcome) if response else (CallStatus.UNKNOWN, None)
    return ObservedCall(
        client=f"session {record.session} at {record.replica}.{record.incarnation}",
        operation=record.operation.name,
        arguments=record.operation.arguments,
        strong=is_strong,
        invoked_us=record.invoked_us,
        responded_us=response.at_us if response else None,
        status=status,
        value=value,
        final=final,
    )


def _status_of(outcome: Outcome) -> tuple[CallStatus, Any]:
    if outcome.error is None:
        return CallStatus.OK, outcome.value
    return CallStatus.ERROR, outcome.error
