"""Recorder: records the observations of clients and replicas as a `History`.

The recorder never influences a run. Replica events are logged when they are taken from the replica.
They become visible when all records written before them are durable. Responses are recorded when
they reach the client. A run that is only measured may omit the events, which are most of a history,
except for commits.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

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
from creekdb.protocol.values import is_same_state
from creekdb.schemes.core.view import ReplicaView
from creekdb.simulation.kernel.simulated_time import EventHeap

_StateItems: TypeAlias = tuple[tuple[Key, object], ...]
Invocation: TypeAlias = tuple[OperationRecord, list[ResponseRecord]]
"""Operation as its client invoked it, and the responses so far."""


class Speculation(NamedTuple):
    """Time and outcome of the first execution of a request before its order was decided."""

    at_us: int
    outcome: Outcome


class _OpenLog:
    def __init__(
        self, replica: int, incarnation: int, started_us: int, has_lost_disk: bool
    ) -> None:
        self.replica = replica
        self.incarnation = incarnation
        self.started_us = started_us
        self.has_lost_disk = has_lost_disk
        self.crashed_us: int | None = None
        self.is_removed = False
        self.events: list[LoggedEvent] = []
        self.durable_events = 0
        self.operations: dict[Dot, Invocation] = {}
        """Operations without their responses, and their responses so far."""


class HistoryRecorder:
    def __init__(
        self, heap: EventHeap, replicas: int, with_events: bool = True, members: int | None = None
    ) -> None:
        """Record `replicas` replicas, of which the first `members` (default: all) are members."""
        self._heap = heap
        self._has_events = with_events
        self._members = tuple(range(replicas if members is None else members))
        self._logs: list[_OpenLog] = []
        self._current: list[_OpenLog | None] = [None] * replicas
        self._invocations: list[Invocation] = []
        self._commit_orders: list[list[tuple[int, Dot]]] = [[] for _ in range(replicas)]
        self._pending_commits: list[list[tuple[int, Dot]]] = [[] for _ in range(replicas)]
        """By replica: commits that are not durable yet."""
        self._lost_commits: list[list[tuple[int, Dot]]] = [[] for _ in range(replicas)]
        self._guarantees = SchemeGuarantees()
        self.speculations: dict[Dot, Speculation] = {}
        """By request, at its origin: the response that the scheme withheld."""
        self.unmatched_responses = 0
        """Number of responses to requests that the responding incarnation did not issue."""

    def record_start(
        self,
        replica: int,
        incarnation: int,
        guarantees: SchemeGuarantees,
        has_lost_disk: bool = False,
    ) -> None:
        """Record a start; `has_lost_disk` if the disk is empty after a disk loss."""
        self._guarantees = guarantees
        log = _OpenLog(replica, incarnation, self._heap.now_us, has_lost_disk)
        self._logs.append(log)
        self._current[replica] = log

    def record_removal(self, replica: int) -> None:
        """Record that the replica was removed from the members and will be stopped permanently."""
        self._current_log(replica).is_removed = True

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
        """Return, by replica, the position of every request committed in any incarnation.

        A commit that was never durable is used only for an index that no durable commit has. It may
        have survived in a checkpoint.
        """
        durable_indices = {index for order in self._commit_orders for index, _ in order}
        undurable = (
            [each for each in (*lost, *pending) if each[0] not in durable_indices]
            for lost, pending in zip(self._lost_commits, self._pending_commits, strict=True)
        )
        return tuple(
            (*order, *fillers)
            for order, fillers in zip(self._commit_orders, undurable, strict=True)
        )

    def record_durable(self, replica: int, events: Sequence[Event]) -> None:
        """Record that the next `events` of the log are durable."""
        commits = sum(type(event) is Committed for event in events)
        if commits:
            pending = self._pending_commits[replica]
            self._commit_orders[replica] += pending[:commits]
            del pending[:commits]
        if self._has_events:
            self._current_log(replica).durable_events += len(events)

    def record_invocation(
        self, replica: int, session: int, id: Dot, operation: Operation, strong: bool
    ) -> None:
        log = self._current_log(replica)
        assert id not in log.operations, "an incarnation issues an identifier only once"
        record = OperationRecord(
            session=session,
            replica=replica,
            incarnation=log.incarnation,
            id=id,
            operation=operation,
            strong=strong,
            invoked_us=self._heap.now_us,
        )
        log.operations[id] = record, []
        self._invocations.append(log.operations[id])

    def last_invocation(self) -> Invocation:
        """Return the last invocation and its responses so far. The list grows with later ones."""
        return self._invocations[-1]

    def record_response(self, replica: int, response: Response) -> None:
        entry = self._current_log(replica).operations.get(response.id)
        if entry is None or entry[0].session != response.session:
            self.unmatched_responses += 1
            return
        entry[1].append(
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
        replicas: Iterable[ReplicaView],
    ) -> History:
        """Return the history of the run; `replicas` are the replicas that are up at its end."""
        return History(
            config=config,
            datatype=datatype,
            members=self._members,
            guarantees=self._guarantees,
            quiescent=quiescent,
            operations=tuple(
                [
                    msgspec.structs.replace(record, responses=tuple(responses))
                    for record, responses in self._invocations
                ]
            ),
            logs=tuple(
                ReplicaLog(
                    replica=log.replica,
                    incarnation=log.incarnation,
                    started_us=log.started_us,
                    crashed_us=log.crashed_us,
                    events=tuple(log.events),
                    visible_count=log.durable_events,
                    has_empty_disk=log.has_lost_disk,
                    is_removed=log.is_removed,
                )
                for log in self._logs
            ),
            final_states=_final_states(replicas, self._has_events),
        )

    def _current_log(self, replica: int) -> _OpenLog:
        log = self._current[replica]
        assert log is not None, "a replica that is down produces no events"
        return log


def _final_states(replicas: Iterable[ReplicaView], sort_items: bool) -> tuple[FinalState, ...]:
    """Return the final states. Replicas with equal states share one tuple of items."""
    finals: list[FinalState] = []
    distinct: list[tuple[dict[Key, object], _StateItems]] = []
    for replica in replicas:
        state = replica.state()
        shared = next((items for other, items in distinct if is_same_state(other, state)), None)
        if shared is None:
            shared = _state_items(state, sort_items)
            distinct.append((state, shared))
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


def _state_items(state: dict[Key, object], sort_items: bool) -> _StateItems:
    items: Iterable[tuple[Key, object]] = state.items()
    return tuple(sorted(items, key=lambda item: collation_key(item[0])) if sort_items else items)
