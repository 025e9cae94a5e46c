"""Simulated clusters are linearizable from outside, whatever faults occur."""

from collections import Counter

import pytest

from creekdb.checkers import Illegal
from creekdb.checkers.blackbox import (
    CallStatus,
    FinalObservation,
    ObservedCall,
    ObservedRun,
    get_model,
    judge,
)
from creekdb.evaluation import build_simulation
from creekdb.history import MEMBERSHIP_OPERATION, History, OperationRecord, Outcome
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed

STEPS_MAX = 20_000
"""Few steps keep the test short. Some histories remain undecided."""


def observed(history: History) -> ObservedRun:
    """Return the history as its clients observed it, without any record of a replica."""
    records = [each for each in history.operations if each.operation.name != MEMBERSHIP_OPERATION]
    calls = sorted(map(observed_call, records), key=lambda call: call.invoked_us)
    return ObservedRun(datatype=history.datatype, calls=tuple(calls))


def observed_call(record: OperationRecord) -> ObservedCall:
    response = record.stable if record.strong else record.tentative
    final = None
    if record.final is not None:
        status, value = status_of(record.final.outcome)
        final = FinalObservation(record.final.at_us, status, value, record.final.changed)
    status, value = status_of(response.outcome) if response else (CallStatus.UNKNOWN, None)
    return ObservedCall(
        client=f"{record.session} at {record.replica}",
        operation=record.operation.name,
        arguments=record.operation.arguments,
        strong=record.strong,
        invoked_us=record.invoked_us,
        responded_us=response.at_us if response else None,
        status=status,
        value=value,
        final=final,
    )


def status_of(outcome: Outcome) -> tuple[CallStatus, object]:
    if outcome.error is None:
        return CallStatus.OK, outcome.value
    return CallStatus.ERROR, outcome.error


@pytest.mark.parametrize("scheme", ["creek", "smr"])
def test_random_clusters_are_linearizable(scheme: str) -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(8):
        history = build_simulation(scenario_from_seed(seed, scheme)).run().history
        judgements = judge(observed(history), get_model(history.datatype), STEPS_MAX)
        for verdict, _ in judgements:
            assert not isinstance(verdict, Illegal), (seed, verdict.describe())
        verdicts[type(judgements[0].verdict).__name__] += 1
    assert verdicts["Ok"] >= 6
