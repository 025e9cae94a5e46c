"""Index of a history, built once and shared by all checkers.

The index does not judge. Where logs contradict each other, the first one read wins. The checker of
the violated property detects the contradiction, because it compares each log with the merged
order. All times are those of a single clock.

An identifier may have been cast twice. If a crash lost the first request before another process
observed it, its replica reuses the event number for a later request. (`reliable_broadcast` checks
that no process did observe it.) The identifier then refers to the last cast.

`IdSet` represents a set of identifiers as ranges of event numbers per replica. It duplicates
`creekdb.protocol.ids.version_vector` on purpose: a fault there must not affect the checkers.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

from creekdb.checkers.quorums import decides
from creekdb.datatypes import DATATYPES, DataType
from creekdb.errors import BadValue
from creekdb.history import (
    MEMBERSHIP_OPERATION,
    ROUNDS_PER_EPOCH,
    Ballot,
    Batch,
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Configuration,
    Dot,
    Dots,
    Event,
    FirstVoted,
    History,
    LoggedEvent,
    OperationRecord,
    RbCast,
    RbDelivered,
    ReplicaLog,
    Request,
    Voted,
)


class IdSet:
    __slots__ = ("ranges",)

    def __init__(self, dots: Dots | None = None) -> None:
        self.ranges: dict[int, list[int]] = {}
        """Per replica, `start, end, start, end, …`: ascending, half open, never touching."""
        if dots is not None:
            self.update(dots)

    def __contains__(self, dot: Dot) -> bool:
        return bisect_right(self.ranges.get(dot.replica, ()), dot.event) % 2 == 1

    def __iter__(self) -> Iterator[Dot]:
        for replica, start, end in _iter_ranges(self):
            for event in range(start, end):
                yield Dot(replica, event)

    def add(self, dot: Dot) -> None:
        self._add(dot.replica, dot.event, dot.event + 1)

    def update(self, other: "Dots | IdSet") -> None:
        for replica, start, end in _iter_ranges(other):
            self._add(replica, start, end)

    def copy(self) -> "IdSet":
        copied = IdSet()
        copied.ranges = {replica: list(flat) for replica, flat in self.ranges.items()}
        return copied

    def missing(self, other: "Dots | IdSet") -> Iterator[Dot]:
        """Yield the identifiers that are in `other` but not in this set."""
        for replica, start, end in _iter_ranges(other):
            flat = self.ranges.get(replica, [])
            while start < end:
                at = bisect_right(flat, start)
                stop = min(end, flat[at]) if at < len(flat) else end
                if at % 2 == 0:
                    yield from (Dot(replica, event) for event in range(start, stop))
                start = stop

    def first_missing(self, other: "Dots | IdSet") -> Dot | None:
        return next(self.missing(other), None)

    def _add(self, replica: int, start: int, end: int) -> None:
        flat = self.ranges.setdefault(replica, [])
        first, last = bisect_left(flat, start), bisect_right(flat, end)
        flat[first:last] = [start] * (first % 2 == 0) + [end] * (last % 2 == 0)


def _iter_ranges(ids: Dots | IdSet) -> Iterable[tuple[int, int, int]]:
    for replica, flat in ids.ranges.items():
        for at in range(0, len(flat), 2):
            yield replica, flat[at], flat[at + 1]


class LoggedCast(NamedTuple):
    log: ReplicaLog
    logged: LoggedEvent
    request: Request


class Recovery(NamedTuple):
    """Restart of a replica whose disk is not empty."""

    old: ReplicaLog
    new: ReplicaLog
    recovered: tuple[LoggedEvent, ...]
    """Events with which the new log begins: the state on disk."""

    @property
    def checkpoint(self) -> tuple[int, int]:
        """Length and instance of the checkpoint on disk, or zeros without one. Lost events of the
        old log that it covers were not lost after all."""
        events = (each.event for each in self.recovered)
        found = (
            (each.length, each.instance) for each in events if isinstance(each, CheckpointInstalled)
        )
        return next(found, (0, 0))


class MissingRecords(Exception):
    """The run lacks the records that a property requires."""


class RunIndex:
    def __init__(self, history: History, datatype: DataType | None = None) -> None:
        """`datatype` is required if its name in the history is not that of a built-in one."""
        self.history = history
        self.datatype = datatype or DATATYPES.get(history.datatype)
        self.logs = sorted(history.logs, key=lambda log: (log.replica, log.incarnation))

    def required_datatype(self) -> DataType:
        """Return the data type. Raise `MissingRecords` if it is unknown."""
        if self.datatype is None:
            raise MissingRecords(
                f"unknown data type '{self.history.datatype}'; pass it to the checker"
            )
        return self.datatype

    def events(self) -> Iterator[tuple[ReplicaLog, LoggedEvent]]:
        """Yield the events that other processes could observe."""
        for log in self.logs:
            for logged in log.visible_events:
                yield log, logged

    def lost_events(self) -> Iterator[tuple[ReplicaLog, LoggedEvent]]:
        """Yield the events that were lost in crashes, and may have reached the disk."""
        for log in self.logs:
            for logged in log.lost_events:
                yield log, logged

    def recoveries(self) -> Iterator[Recovery]:
        for old, new in pairwise(self.logs):
            if old.replica == new.replica and not new.has_empty_disk:
                recovered = tuple(each for each in new.events if each.at_us == new.started_us)
                yield Recovery(old, new, recovered)

    def connections(self) -> Iterator[list[OperationRecord]]:
        """Yield the operations of each session at one incarnation, in the order of the history."""

        def connection(record: OperationRecord) -> tuple[int, int, int]:
            return record.session, record.replica, record.incarnation

        for _, group in groupby(sorted(self.history.operations, key=connection), key=connection):
            yield list(group)

    # --- requests ------------------------------------------------------------------------------

    @cached_property
    def casts(self) -> dict[Dot, list[LoggedCast]]:
        """Every cast of each identifier, oldest first. Includes lost casts, because a replica may
        recover them from its disk."""
        casts: dict[Dot, list[LoggedCast]] = {}
        for log in self.logs:
            for logged in log.events:
                if isinstance(logged.event, RbCast):
                    cast = LoggedCast(log, logged, logged.event.request)
                    casts.setdefault(cast.request.id, []).append(cast)
        return casts

    def request(self, dot: Dot) -> Request | None:
        casts = self.casts.get(dot)
        return casts[-1].request if casts else None

    def committed_id(self, index: int) -> Dot:
        """Return the identifier at an index on `committed`. Raise `MissingRecords`."""
        dot = self.committed[index]
        if dot is None:
            raise MissingRecords(f"no log records the request committed at index {index}")
        return dot

    def committed_request(self, index: int) -> Request:
        """Return the request at an index on `committed`. Raise `MissingRecords`."""
        request = self.request(self.committed_id(index))
        if request is None:
            raise MissingRecords(f"no log records the request committed at index {index}")
        return request

    def request_at(self, dot: Dot, at_us: int) -> Request | None:
        """Return the request that the identifier referred to at a time; None if not yet cast."""
        for cast in reversed(self.casts.get(dot, ())):
            if cast.logged.at_us <= at_us:
                return cast.request
        return None

    def position_at(self, dot: Dot, at_us: int) -> int | None:
        """Return the index on `committed` of the request that the identifier referred to then."""
        casts = self.casts.get(dot)
        if casts and casts[-1].logged.at_us > at_us:
            return None  # the identifier denotes a later request
        return self.positions.get(dot)

    def position_of(self, record: OperationRecord) -> int | None:
        """Return the index of this operation on `committed`, not of another one with its id."""
        return None if self.has_lost_id(record) else self.positions.get(record.id)

    def has_lost_id(self, record: OperationRecord) -> bool:
        """True if a crash lost the operation, and a later incarnation used its id again."""
        casts = self.casts.get(record.id)
        return casts is not None and casts[-1].log.incarnation != record.incarnation

    @property
    def responds_before_durable(self) -> bool:
        """True if tentative responses did not wait for the disk."""
        return self.history.config.get("durability") == "memory"

    def may_be_lost(self, record: OperationRecord) -> bool:
        """True if a crash may have lost the operation although it has a tentative response."""
        return (
            self.responds_before_durable
            and record.stable is None
            and record.final is None
            and (record.id, record.incarnation) in self.volatile_casts
        )

    @cached_property
    def volatile_casts(self) -> set[tuple[Dot, int]]:
        """Identifier and incarnation of each cast that was not durable at the end of its log."""
        return {
            (logged.event.request.id, log.incarnation)
            for log, logged in self.lost_events()
            if isinstance(logged.event, RbCast)
        }

    @cached_property
    def durable_lengths(self) -> dict[tuple[int, int], int]:
        """Number of durable commits at the end of the log, by replica and incarnation."""
        return {
            (log.replica, log.incarnation): max(
                (committed_length_after(each.event) for each in log.visible_events), default=0
            )
            for log in self.logs
        }

    # --- orders --------------------------------------------------------------------------------

    @cached_property
    def committed(self) -> list[Dot | None]:
        """The committed order, merged from all logs; None where no log has a record.

        Lost events only fill gaps, if the replica recovered a checkpoint that covers them.
        """
        dots: dict[int, Dot] = {}
        length = 0
        for _, logged in self.events():
            match logged.event:
                case Committed(id=dot, index=index) if index >= 0:
                    dots.setdefault(index, dot)
                case CheckpointInstalled(length=claimed):
                    length = max(length, claimed)
                case _:
                    pass
        length = max(length, 1 + max(dots, default=-1))
        for recovery in self.recoveries():
            covered_length, _ = recovery.checkpoint
            for logged in recovery.old.lost_events:
                match logged.event:
                    case Committed(id=dot, index=index) if index < covered_length:
                        dots.setdefault(index, dot)
                    case _:
                        pass
        return [dots.get(index) for index in range(length)]

    @cached_property
    def positions(self) -> dict[Dot, int]:
        indices: dict[Dot, int] = {}
        for index, dot in enumerate(self.committed):
            if dot is not None:
                indices.setdefault(dot, index)
        return indices

    @cached_property
    def cab_order(self) -> list[tuple[int, Dot]]:
        """The order of CAB deliveries, (instance, id), merged from all logs.

        If a log ends within an instance, the log with the longest record of the instance is used.
        As in `committed`, lost deliveries count if the replica recovered a checkpoint that covers
        them, and no visible delivery contradicts them.
        """
        instances: dict[int, list[Dot]] = {}
        for log in self.logs:
            for instance, dots in _cab_deliveries(log.visible_events).items():
                if len(dots) > len(instances.get(instance, ())):
                    instances[instance] = dots
        for recovery in self.recoveries():
            _, covered = recovery.checkpoint
            if recovery.old.lost_events:
                for instance, dots in _cab_deliveries(recovery.old.events).items():
                    visible = instances.get(instance, [])
                    extends = len(dots) > len(visible) and dots[: len(visible)] == visible
                    if instance < covered and extends:
                        instances[instance] = dots
        return [(instance, dot) for instance in sorted(instances) for dot in instances[instance]]

    @cached_property
    def electorates(self) -> tuple[tuple[int, ...], ...]:
        """Voters of each epoch."""
        return self.history.voters, *(voters for _, voters in self._membership_changes)

    def electorate(self, ballot: Ballot) -> tuple[int, ...]:
        """Return the voters of the ballot. An epoch that never began has none."""
        epoch = ballot.round // ROUNDS_PER_EPOCH
        return self.electorates[epoch] if epoch < len(self.electorates) else ()

    def decides(self, ballot: Ballot, second_votes: set[int], first_votes: set[int]) -> bool:
        """True if these votes for one batch, in one ballot of one instance, decide it."""
        return decides(self.electorate(ballot), ballot, second_votes, first_votes)

    @cached_property
    def cuts(self) -> dict[Dot, dict[int, int]]:
        """By strong request, the cut that was decided with it: for an origin, the event up to which
        its weak requests extend the causal context. Without an entry, there is no extension.

        Of several instances with the request, the first decided one counts. In a batch, the weak
        requests before a strong one belong to its cut, even if another strong one is in between.
        """
        cuts: dict[Dot, dict[int, int]] = {}
        for _, batch in sorted(self._decided_batches().items()):
            cut: dict[int, int] = {}
            for dot in batch:
                request = self.request(dot)
                if request is not None and not request.strong:
                    cut = cut | {dot.replica: max(dot.event, cut.get(dot.replica, 0))}
                else:
                    cuts.setdefault(dot, cut)
        return cuts

    def _decided_batches(self) -> dict[int, Batch]:
        """Return the batch of each instance that votes in one ballot decided.

        A lost vote may have reached the disk, and counts if visible votes decide nothing.
        """
        decided: dict[int, Batch] = {}
        voters: dict[tuple[int, Ballot, Batch], tuple[set[int], set[int]]] = {}
        for events in (self.events(), self.lost_events()):
            for log, logged in events:
                vote = logged.event
                if isinstance(vote, Voted | FirstVoted):
                    key = vote.instance, vote.ballot, vote.batch
                    second_votes, first_votes = voters.setdefault(key, (set(), set()))
                    (second_votes if isinstance(vote, Voted) else first_votes).add(log.replica)
            for instance, ballot, batch in sorted(voters):
                if self.decides(ballot, *voters[instance, ballot, batch]):
                    decided.setdefault(instance, batch)
        return decided

    def epoch_of(self, length: int) -> int:
        """Return the epoch of a replica that has committed this number of requests."""
        return bisect_left(self._membership_changes, length, key=lambda each: each[0])

    @cached_property
    def _membership_changes(self) -> list[tuple[int, tuple[int, ...]]]:
        """Index and resulting voters of each committed membership change."""
        members = tuple((each, "") for each in self.history.members)
        configuration = Configuration(0, members)
        changes: list[tuple[int, tuple[int, ...]]] = []
        for index, dot in enumerate(self.committed):
            request = self.request(dot) if dot is not None else None
            if request is not None and request.operation.name == MEMBERSHIP_OPERATION:
                try:
                    configuration = configuration.apply(request.operation)
                except BadValue:
                    continue
                changes.append((index, configuration.replica_ids))
        return changes

    # --- the end -------------------------------------------------------------------------------

    @cached_property
    def last_logs(self) -> dict[int, ReplicaLog]:
        """Last incarnation of each replica that was up at the end."""
        up = {final.replica for final in self.history.final_states}
        return {log.replica: log for log in self.logs if log.replica in up}

    @cached_property
    def rb_delivered_ids(self) -> dict[int, IdSet]:
        """Requests that each replica of `last_logs` had cast, RB-delivered or installed."""
        return {replica: rb_delivered(log.events) for replica, log in self.last_logs.items()}


def committed_length_after(event: Event) -> int:
    """Return a lower bound for the length of `committed` after the event."""
    match event:
        case Committed(index=index):
            return index + 1
        case CheckpointInstalled(length=length):
            return length
        case _:
            return 0


def _cab_deliveries(events: tuple[LoggedEvent, ...]) -> dict[int, list[Dot]]:
    instances: dict[int, list[Dot]] = {}
    for logged in events:
        if isinstance(logged.event, CabDelivered):
            instances.setdefault(logged.event.instance, []).append(logged.event.id)
    return instances


def add_rb_delivered(ids: IdSet, event: Event) -> None:
    """Add the requests that a replica has delivered by this event."""
    match event:
        case RbCast(request=request):
            ids.add(request.id)
        case RbDelivered(id=dot):
            ids.add(dot)
        case CheckpointInstalled(ids=dots):
            ids.update(dots)
        case _:
            pass


def rb_delivered(events: Iterable[LoggedEvent]) -> IdSet:
    delivered = IdSet()
    for logged in events:
        add_rb_delivered(delivered, logged.event)
    return delivered


class ReceivedRequests:
    """Received requests and causal context of one replica: the inputs of its predicates."""

    def __init__(self, run: RunIndex) -> None:
        self._run = run
        self._ids = IdSet()
        self.context = IdSet()
        """`causalCtx`: received weak requests, and committed strong requests."""
        self.weak_keys: list[tuple[int, Dot]] = []
        """Timestamps and identifiers of received weak requests, in order."""

    def apply(self, logged: LoggedEvent) -> None:
        match logged.event:
            case RbCast(request=request):
                self._add(request.id, request)
            case RbDelivered(id=dot):
                self._add(dot, self._run.request_at(dot, logged.at_us))
            case CabDelivered(id=dot) | Committed(id=dot):
                self.context.add(dot)
            case CheckpointInstalled(ids=dots):
                self._ids.update(dots)
                self.context.update(dots)
            case _:
                pass

    def _add(self, dot: Dot, request: Request | None) -> None:
        self._ids.add(dot)
        if request is not None and not request.strong:
            self.context.add(dot)
            insort(self.weak_keys, request.key)  # almost always appends

    def first_missing(self, dot: Dot, request: Request | None) -> Dot | None:
        """Return the first dependency for which the predicate of a request waits, or None."""
        if dot not in self._ids or request is None or request.context is None:
            return dot
        return self.context.first_missing(request.context)

    def first_missing_up_to(self, replica: int, event: int) -> Dot | None:
        """Return the first weak request of an origin, up to an event, that was not received, or
        None.

        A cut names all weak requests up to its event. Requests are received in issue order, but a
        checkpoint may contain a weak request and omit an earlier strong one.
        """
        for dot in self._ids.missing(Dots({replica: (1, event + 1)})):
            request = self._run.request(dot)
            if request is None or not request.strong:
                return dot
        return None

    def first_missing_of_cut(self, cut: dict[int, int]) -> Dot | None:
        missing = (self.first_missing_up_to(*each) for each in cut.items())
        return next((each for each in missing if each is not None), None)
