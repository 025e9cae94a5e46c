"""The recorder: writes down what clients and replicas saw, as a `History`.

It only listens. Replica events are logged at the moment they are taken from the replica, and become
known when everything it had to write before them is durable; answers are recorded at the moment
they reach the client. A run that is only measured can do without the events, which are most of it,
but for what was committed: that is noted of every run.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from creekdb.execution.keys import collation_key
from creekdb.history.records import (
    Committed,
    Dot,
    Event,
    FinalState,
    History,
    Key,
    LoggedEvent,
    Operation,
    OperationRecord,
    Outcome,
    ReplicaLog,
    ResponseRecord,
    SchemeGuarantees,
    SpeculativelyExecuted,
)
from creekdb.protocol.effects import Response
from creekdb.protocol.values import is_same_value
from creekdb.schemes.core.replica import Replica
from creekdb.simulation.kernel.simulated_time import EventHeap

_StateItems: TypeAlias = tuple[tuple[Key, object], ...]


class Speculation(NamedTuple):
    """When a request was first executed before its order was decided, and what it gave."""

    at_us: int
    outcome: Outcome


class _OpenOperation:
    __slots__ = ("invoked_us", "operation", "responses", "session", "strong")

    def __init__(self, session: int, operation: Operation, strong: bool, invoked_us: int) -> None:
        self.session = session
        self.operation = operation
        self.strong = strong
        self.invoked_us = invoked_us
        self.responses: list[ResponseRecord] = []


class _OpenLog:
    __slots__ = (
        "crashed_us",
        "durable_events",
        "events",
        "has_lost_disk",
        "incarnation",
        "is_dismissed",
        "operations",
        "replica",
        "started_us",
    )

    def __init__(self, replica: int, incarnation: int, started_us: int, anew: bool) -> None:
        self.replica = replica
        self.incarnation = incarnation
        self.started_us = started_us
        self.has_lost_disk = anew
        self.crashed_us: int | None = None
        self.is_dismissed = False
        self.events: list[LoggedEvent] = []
        self.durable_events = 0
        self.operations: dict[Dot, _OpenOperation] = {}


class HistoryRecorder:
    __slots__ = (
        "_commit_orders",
        "_current",
        "_guarantees",
        "_has_events",
        "_heap",
        "_invocations",
        "_logs",
        "_lost_commits",
        "_members",
        "_pending_commits",
        "speculations",
        "unmatched_responses",
    )

    def __init__(
        self, heap: EventHeap, replicas: int, with_events: bool = True, members: int | None = None
    ) -> None:
        """`members`: how many of the replicas are members at the beginning; all, unless told."""
        self._heap = heap
        self._has_events = with_events
        self._members = tuple(range(replicas if members is None else members))
        self._logs: list[_OpenLog] = []
        self._current: list[_OpenLog | None] = [None] * replicas
        self._invocations: list[tuple[_OpenLog, Dot]] = []
        self._commit_orders: list[list[tuple[int, Dot]]] = [[] for _ in range(replicas)]
        self._pending_commits: list[list[tuple[int, Dot]]] = [[] for _ in range(replicas)]
        """Commits that nobody can learn of yet."""
        self._lost_commits: list[list[tuple[int, Dot]]] = [[] for _ in range(replicas)]
        self._guarantees = SchemeGuarantees()
        self.speculations: dict[Dot, Speculation] = {}
        """By request, where it was issued: what it would have answered, had it not waited."""
        self.unmatched_responses = 0
        """Answers to requests that the incarnation which answers did not issue."""

    def record_start(
        self, replica: int, incarnation: int, terms: SchemeGuarantees, anew: bool = False
    ) -> None:
        """`anew`: with an empty disk, after it had another."""
        self._guarantees = terms
        log = _OpenLog(replica, incarnation, self._heap.now_us, anew)
        self._logs.append(log)
        self._current[replica] = log

    def record_dismissal(self, replica: int) -> None:
        """It is stopped next, and for good: it was removed, and nobody needs it any more."""
        self._current_log(replica).is_dismissed = True

    def record_crash(self, replica: int) -> None:
        self._current_log(replica).crashed_us = self._heap.now_us
        self._current[replica] = None
        self._lost_commits[replica] += self._pending_commits[replica]
        self._pending_commits[replica].clear()

    def record_events(self, replica: int, events: Iterable[Event]) -> None:
        self._record_commits(replica, events)
        if self._has_events:
            now = self._heap.now_us
            self._current_log(replica).events += [LoggedEvent(now, event) for event in events]

    def _record_commits(self, replica: int, events: Iterable[Event]) -> None:
        for event in events:
            if type(event) is Committed:
                self._pending_commits[replica].append((event.index, event.id))
            elif type(event) is SpeculativelyExecuted and event.id.replica == replica:
                self.speculations.setdefault(
                    event.id, Speculation(self._heap.now_us, event.outcome)
                )

    def commit_orders(self) -> tuple[tuple[tuple[int, Dot], ...], ...]:
        """By replica: every place that it gave to a request, in every incarnation. What it did in
        vain fills holes only: it may have come back inside a checkpoint."""
        known = {index for order in self._commit_orders for index, _ in order}
        vain = (
            [each for each in (*lost, *unknown) if each[0] not in known]
            for lost, unknown in zip(self._lost_commits, self._pending_commits, strict=True)
        )
        return tuple(
            (*order, *filling) for order, filling in zip(self._commit_orders, vain, strict=True)
        )

    def record_durable(self, replica: int, events: Sequence[Event]) -> None:
        """The next events of the log."""
        commits = sum(type(event) is Committed for event in events)
        if commits:
            unknown = self._pending_commits[replica]
            self._commit_orders[replica] += unknown[:commits]
            del unknown[:commits]
        if self._has_events:
            self._current_log(replica).durable_events += len(events)

    def record_invocation(
        self, replica: int, session: int, id: Dot, operation: Operation, strong: bool
    ) -> None:
        log = self._current_log(replica)
        assert id not in log.operations, "an incarnation never gives one identifier twice"
        log.operations[id] = _OpenOperation(session, operation, strong, self._heap.now_us)
        self._invocations.append((log, id))

    def record_response(self, replica: int, response: Response) -> None:
        operation = self._current_log(replica).operations.get(response.id)
        if operation is None or operation.session != response.session:
            self.unmatched_responses += 1
            return
        operation.responses.append(
            ResponseRecord(
                self._heap.now_us,
                response.kind,
                response.outcome,
                response.changed,
                response.observed,
            )
        )

    def history(
        self,
        config: dict[str, Any],
        datatype: str,
        quiescent: bool,
        replicas: Iterable[Replica],
    ) -> History:
        """The whole run; `replicas` are those that are up at its end."""
        return History(
            config=config,
            datatype=datatype,
            members=self._members,
            guarantees=self._guarantees,
            quiescent=quiescent,
            operations=tuple(_operation_record(log, id) for log, id in self._invocations),
            logs=tuple(
                ReplicaLog(
                    replica=log.replica,
                    incarnation=log.incarnation,
                    started_us=log.started_us,
                    crashed_us=log.crashed_us,
                    events=tuple(log.events),
                    visible_count=log.durable_events,
                    has_empty_disk=log.has_lost_disk,
                    is_removed=log.is_dismissed,
                )
                for log in self._logs
            ),
            final_states=_final_states(replicas, self._has_events),
        )

    def _current_log(self, replica: int) -> _OpenLog:
        log = self._current[replica]
        assert log is not None, "a replica that is down does nothing"
        return log


def _operation_record(log: _OpenLog, id: Dot) -> OperationRecord:
    operation = log.operations[id]
    return OperationRecord(
        session=operation.session,
        replica=log.replica,
        incarnation=log.incarnation,
        id=id,
        operation=operation.operation,
        strong=operation.strong,
        invoked_us=operation.invoked_us,
        answers=tuple(operation.responses),
    )


def _final_states(replicas: Iterable[Replica], in_order: bool) -> tuple[FinalState, ...]:
    """Replicas that end with equal states share one: mostly all do."""
    finals: list[FinalState] = []
    found: list[tuple[dict[Key, object], _StateItems]] = []
    for replica in replicas:
        state = replica.state()
        shared = next((told for other, told in found if _equal_states(other, state)), None)
        if shared is None:
            shared = _state_items(state, in_order)
            found.append((state, shared))
        committed = replica.committed_ids()
        finals.append(
            FinalState(
                replica=replica.index,
                first=replica.committed_length() - len(committed),
                committed=committed,
                tentative=replica.tentative_ids(),
                state=shared,
            )
        )
    return tuple(finals)


def _equal_states(one: dict[Key, object], other: dict[Key, object]) -> bool:
    """Also of equal types, which `==` does not ask for."""
    return one is other or (
        len(one) == len(other)
        and all(key in other and is_same_value(value, other[key]) for key, value in one.items())
    )


def _state_items(state: dict[Key, object], in_order: bool) -> _StateItems:
    items: Iterable[tuple[Key, object]] = state.items()
    return tuple(sorted(items, key=lambda item: collation_key(item[0])) if in_order else items)
