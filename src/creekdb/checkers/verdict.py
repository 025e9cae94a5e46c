"""Verdicts of checkers: Ok, Illegal with a small counterexample, or Inconclusive.

A counterexample consists of a few witnesses, each of which describes one event in plain words. It
suffices to locate the violation in the run, and can be stored as JSON.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, assert_never

import msgspec

from creekdb.checkers.run_index import MissingRecords, RunIndex
from creekdb.history import (
    BallotPromised,
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Dot,
    Event,
    FinalState,
    FirstVoted,
    LoggedEvent,
    Operation,
    OperationRecord,
    Outcome,
    RbCast,
    RbDelivered,
    ReplicaLog,
    ResponseRecord,
    SpeculativelyExecuted,
    Voted,
)

TEXT_LIMIT = 100
"""Upper bound for the characters of one rendered value."""


class Witness(msgspec.Struct, frozen=True):
    """One event or state, and the client or replica that observed it."""

    actor: str = msgspec.field(name="who")
    observation: str = msgspec.field(name="what")
    at_us: int | None = None
    id: Dot | None = None

    def describe(self) -> str:
        when = "at the end" if self.at_us is None else f"{self.at_us / 1000:.3f} ms"
        return f"{when:>14}  {self.actor}: {self.observation}"


class Ok(msgspec.Struct, frozen=True, tag="ok", tag_field="verdict"):
    checker: str

    def describe(self) -> str:
        return f"ok       {self.checker}"


class Illegal(msgspec.Struct, frozen=True, tag="illegal", tag_field="verdict"):
    checker: str
    message: str
    counterexample: tuple[Witness, ...] = ()

    def describe(self) -> str:
        lines = [f"ILLEGAL  {self.checker}: {self.message}"]
        return "\n".join([*lines, *(each.describe() for each in self.counterexample)])


class Inconclusive(msgspec.Struct, frozen=True, tag="unknown", tag_field="verdict"):
    """Verdict on a run without the records that the property requires."""

    checker: str
    reason: str

    def describe(self) -> str:
        return f"unknown  {self.checker}: {self.reason}"


Verdict: TypeAlias = Ok | Illegal | Inconclusive

Evidence: TypeAlias = (
    OperationRecord
    | tuple[OperationRecord, ResponseRecord]
    | tuple[FinalState, str]
    | tuple[ReplicaLog, LoggedEvent, *tuple[Any, ...]]
)
"""An invocation, a response, an observation in a final state, or an event of a log."""


class Violation(Exception):
    """The run violates the property of a checker."""

    def __init__(self, message: str, *evidence: Evidence) -> None:
        super().__init__(message)
        self.counterexample = tuple(map(_witness, evidence))


class Checker(msgspec.Struct, frozen=True):
    """A named property of runs."""

    name: str
    verify: Callable[[RunIndex], None]
    """Raises `Violation` or `MissingRecords` unless a run has the property."""

    def __call__(self, run: RunIndex) -> Verdict:
        try:
            self.verify(run)
        except Violation as violation:
            return Illegal(self.name, str(violation), violation.counterexample)
        except MissingRecords as missing:
            return Inconclusive(self.name, str(missing))
        return Ok(self.name)


def checker(name: str) -> Callable[[Callable[[RunIndex], None]], Checker]:
    """Return a decorator for the function that verifies the property."""
    return partial(Checker, name)


def verdict_rows(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return the verdicts as plain data, for `verdicts.json`."""
    return [msgspec.to_builtins(each) for each in verdicts]


# --- witnesses --------------------------------------------------------------------------------


def _witness(evidence: object) -> Witness:
    match evidence:
        case OperationRecord() as record:
            strength = "strong" if record.strong else "weak"
            observation = f"invoked {strength} {_call_text(record.operation)} as {record.id}"
            return Witness(_client_text(record), observation, record.invoked_us, record.id)
        case OperationRecord() as record, ResponseRecord() as response:
            outcome = outcome_text(response.outcome)
            observation = f"got the {response.kind.value} response {outcome} to {record.id}"
            return Witness(_client_text(record), observation, response.at_us, record.id)
        case FinalState() as final, str() as observation:
            return Witness(f"replica {final.replica}", observation)
        case ReplicaLog() as log, LoggedEvent() as logged, *_:
            observation, dot = _event_text(logged.event)
            actor = f"replica {log.replica} (incarnation {log.incarnation})"
            return Witness(actor, observation, logged.at_us, dot)
        case _:
            raise AssertionError(f"not evidence: {evidence}")


def outcome_text(outcome: Outcome) -> str:
    if outcome.error is None:
        return short_text(outcome.value)
    return f"error {short_text(outcome.error)}"


def short_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT - 1]}…"


def _client_text(record: OperationRecord) -> str:
    replica = f"replica {record.replica} (incarnation {record.incarnation})"
    return f"session {record.session} at {replica}"


def _call_text(operation: Operation) -> str:
    return f"{operation.name}({', '.join(short_text(each) for each in operation.arguments)})"


def _event_text(event: Event) -> tuple[str, Dot | None]:
    match event:
        case RbCast(request=request):
            strength = "strong" if request.strong else "weak"
            call, stamp = _call_text(request.operation), f"with timestamp {request.timestamp}"
            return f"cast {strength} {call} as {request.id} {stamp}", request.id
        case RbDelivered(id=dot):
            return f"RB-delivered {dot}", dot
        case CabDelivered(id=dot, instance=instance):
            return f"CAB-delivered {dot} in instance {instance}", dot
        case Committed(id=dot, index=index):
            return f"committed {dot} at index {index}", dot
        case CheckpointInstalled(instance=instance, length=length):
            return f"installed a checkpoint of {length} requests, up to instance {instance}", None
        case BallotPromised(ballot=ballot, decided=decided, accepted=accepted):
            votes = short_text([(each.instance, str(each.ballot)) for each in accepted])
            return f"promised ballot {ballot}, decided below {decided}, accepted {votes}", None
        case Voted(ballot=ballot, instance=instance, batch=batch):
            ids = short_text([str(id) for id in batch])
            return f"voted in ballot {ballot} of instance {instance} for {ids}", None
        case FirstVoted(ballot=ballot, instance=instance, batch=batch):
            ids = short_text([str(id) for id in batch])
            return f"cast a first vote in ballot {ballot} of instance {instance} for {ids}", None
        case SpeculativelyExecuted(id=dot, outcome=result):
            return f"executed {dot} before it was decided: {outcome_text(result)}", dot
        case _:
            assert_never(event)
