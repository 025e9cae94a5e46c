"""The recorder: writes down what clients and replicas saw, as a `History`.

It only listens. Replica events are logged at the moment they are taken from the replica, and become
known when everything it had to write before them is durable; answers are recorded at the moment
they reach the client. A run that is only measured can do without the events, which are most of it,
but for what was committed: that is noted of every run.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from creekdb.execution.keys import place
from creekdb.history.records import (
    Answer,
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
    Speculated,
    Terms,
)
from creekdb.protocol.effects import Response
from creekdb.protocol.values import same
from creekdb.schemes.core.replica import Replica
from creekdb.simulation.kernel.simulated_time import EventHeap

_State: TypeAlias = tuple[tuple[Key, object], ...]


class Speculation(NamedTuple):
    """When a request was first executed before its order was decided, and what it gave."""

    at_us: int
    outcome: Outcome


class _OpenOperation:
    __slots__ = ("answers", "invoked_us", "operation", "session", "strong")

    def __init__(self, session: int, operation: Operation, strong: bool, invoked_us: int) -> None:
        self.session = session
        self.operation = operation
        self.strong = strong
        self.invoked_us = invoked_us
        self.answers: list[Answer] = []


class _OpenLog:
    __slots__ = (
        "anew",
        "crashed_us",
        "dismissed",
        "events",
        "incarnation",
        "known",
        "operations",
        "replica",
        "started_us",
    )

    def __init__(self, replica: int, incarnation: int, started_us: int, anew: bool) -> None:
        self.replica = replica
        self.incarnation = incarnation
        self.started_us = started_us
        self.anew = anew
        self.crashed_us: int | None = None
        self.dismissed = False
        self.events: list[LoggedEvent] = []
        self.known = 0
        self.operations: dict[Dot, _OpenOperation] = {}


class Recorder:
    __slots__ = (
        "_current",
        "_heap",
        "_logs",
        "_members",
        "_order",
        "_orders",
        "_terms",
        "_unknown",
        "_vain",
        "_with_events",
        "speculated",
        "strays",
    )

    def __init__(
        self, heap: EventHeap, replicas: int, with_events: bool = True, members: int | None = None
    ) -> None:
        """`members`: how many of the replicas are members at the beginning; all, unless told."""
        self._heap = heap
        self._with_events = with_events
        self._members = tuple(range(replicas if members is None else members))
        self._logs: list[_OpenLog] = []
        self._current: list[_OpenLog | None] = [None] * replicas
        self._order: list[tuple[_OpenLog, Dot]] = []
        self._orders: list[list[tuple[int, Dot]]] = [[] for _ in range(replicas)]
        self._unknown: list[list[tuple[int, Dot]]] = [[] for _ in range(replicas)]
        """Commits that nobody can learn of yet."""
        self._vain: list[list[tuple[int, Dot]]] = [[] for _ in range(replicas)]
        self._terms = Terms()
        self.speculated: dict[Dot, Speculation] = {}
        """By request, where it was issued: what it would have answered, had it not waited."""
        self.strays = 0
        """Answers to requests that the incarnation which answers did not issue."""

    def started(self, replica: int, incarnation: int, terms: Terms, anew: bool = False) -> None:
        """`anew`: with an empty disk, after it had another."""
        self._terms = terms
        log = _OpenLog(replica, incarnation, self._heap.now, anew)
        self._logs.append(log)
        self._current[replica] = log

    def dismissed(self, replica: int) -> None:
        """It is stopped next, and for good: it was removed, and nobody needs it any more."""
        self._log_of(replica).dismissed = True

    def crashed(self, replica: int) -> None:
        self._log_of(replica).crashed_us = self._heap.now
        self._current[replica] = None
        self._vain[replica] += self._unknown[replica]
        self._unknown[replica].clear()

    def logged(self, replica: int, events: Iterable[Event]) -> None:
        self._note(replica, events)
        if self._with_events:
            now = self._heap.now
            self._log_of(replica).events += [LoggedEvent(now, event) for event in events]

    def _note(self, replica: int, events: Iterable[Event]) -> None:
        for event in events:
            if type(event) is Committed:
                self._unknown[replica].append((event.index, event.id))
            elif type(event) is Speculated and event.id.replica == replica:
                self.speculated.setdefault(event.id, Speculation(self._heap.now, event.outcome))

    def orders(self) -> tuple[tuple[tuple[int, Dot], ...], ...]:
        """By replica: every place that it gave to a request, in every incarnation. What it did in
        vain fills holes only: it may have come back inside a checkpoint."""
        known = {index for order in self._orders for index, _ in order}
        vain = (
            [each for each in (*lost, *unknown) if each[0] not in known]
            for lost, unknown in zip(self._vain, self._unknown, strict=True)
        )
        return tuple((*order, *filling) for order, filling in zip(self._orders, vain, strict=True))

    def became_known(self, replica: int, events: Sequence[Event]) -> None:
        """The next events of the log."""
        commits = sum(type(event) is Committed for event in events)
        if commits:
            unknown = self._unknown[replica]
            self._orders[replica] += unknown[:commits]
            del unknown[:commits]
        if self._with_events:
            self._log_of(replica).known += len(events)

    def invoked(
        self, replica: int, session: int, id: Dot, operation: Operation, strong: bool
    ) -> None:
        log = self._log_of(replica)
        assert id not in log.operations, "an incarnation never gives one identifier twice"
        log.operations[id] = _OpenOperation(session, operation, strong, self._heap.now)
        self._order.append((log, id))

    def answered(self, replica: int, response: Response) -> None:
        operation = self._log_of(replica).operations.get(response.id)
        if operation is None or operation.session != response.session:
            self.strays += 1
            return
        operation.answers.append(
            Answer(
                self._heap.now,
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
            terms=self._terms,
            quiescent=quiescent,
            operations=tuple(_record(log, id) for log, id in self._order),
            logs=tuple(
                ReplicaLog(
                    replica=log.replica,
                    incarnation=log.incarnation,
                    started_us=log.started_us,
                    crashed_us=log.crashed_us,
                    events=tuple(log.events),
                    known=log.known,
                    anew=log.anew,
                    dismissed=log.dismissed,
                )
                for log in self._logs
            ),
            finals=_finals(replicas, self._with_events),
        )

    def _log_of(self, replica: int) -> _OpenLog:
        log = self._current[replica]
        assert log is not None, "a replica that is down does nothing"
        return log


def _record(log: _OpenLog, id: Dot) -> OperationRecord:
    operation = log.operations[id]
    return OperationRecord(
        session=operation.session,
        replica=log.replica,
        incarnation=log.incarnation,
        id=id,
        operation=operation.operation,
        strong=operation.strong,
        invoked_us=operation.invoked_us,
        answers=tuple(operation.answers),
    )


def _finals(replicas: Iterable[Replica], in_order: bool) -> tuple[FinalState, ...]:
    """Replicas that end with equal states share one: mostly all do."""
    finals: list[FinalState] = []
    found: list[tuple[dict[Key, object], _State]] = []
    for replica in replicas:
        state = replica.state()
        shared = next((told for other, told in found if _same_state(other, state)), None)
        if shared is None:
            shared = _told(state, in_order)
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


def _same_state(one: dict[Key, object], other: dict[Key, object]) -> bool:
    """Also of equal types, which `==` does not ask for."""
    return one is other or (
        len(one) == len(other)
        and all(key in other and same(value, other[key]) for key, value in one.items())
    )


def _told(state: dict[Key, object], in_order: bool) -> _State:
    items: Iterable[tuple[Key, object]] = state.items()
    return tuple(sorted(items, key=lambda item: place(item[0])) if in_order else items)
