"""Sets of identifiers, as ranges of event numbers per replica.

The protocol has its own (`creekdb.protocol.ids.version_vector`). The checkers do not use it on
purpose: a fault in it must not blind those who look for faults.

A history, indexed once for all checkers.

Nothing is judged here. Where the logs contradict each other the first one read wins, and the
checker whose property that breaks finds out by comparing each log with what was merged. Times are
those of one clock for the whole run.

An identifier may have been cast twice: when the first request was lost in a crash before anybody
saw it, its replica numbers a later request alike (`reliable_broadcast` checks that nobody did see
it). The last one cast is then the one that everybody means.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from creekdb.datatypes import DATATYPES, DataType
from creekdb.errors import BadValue
from creekdb.history import (
    MEMBERSHIP_OPERATION,
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Configuration,
    Dot,
    Dots,
    Event,
    History,
    LoggedEvent,
    OperationRecord,
    RbCast,
    RbDelivered,
    ReplicaLog,
    Request,
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
        same = IdSet()
        same.ranges = {replica: list(flat) for replica, flat in self.ranges.items()}
        return same

    def missing(self, other: "Dots | IdSet") -> Iterator[Dot]:
        """What is in `other` but not here."""
        for replica, start, end in _iter_ranges(other):
            mine = self.ranges.get(replica, [])
            while start < end:
                at = bisect_right(mine, start)
                stop = min(end, mine[at]) if at < len(mine) else end
                if at % 2 == 0:
                    yield from (Dot(replica, event) for event in range(start, stop))
                start = stop

    def first_missing(self, other: "Dots | IdSet") -> Dot | None:
        return next(self.missing(other), None)

    def _add(self, replica: int, start: int, end: int) -> None:
        mine = self.ranges.setdefault(replica, [])
        first, last = bisect_left(mine, start), bisect_right(mine, end)
        mine[first:last] = [start] * (first % 2 == 0) + [end] * (last % 2 == 0)


def _iter_ranges(ids: Dots | IdSet) -> Iterable[tuple[int, int, int]]:
    for replica, flat in ids.ranges.items():
        for at in range(0, len(flat), 2):
            yield replica, flat[at], flat[at + 1]


class LoggedCast(NamedTuple):
    """A cast request, and where and when it was cast."""

    request: Request
    log: ReplicaLog
    logged: LoggedEvent


class RunIndex:
    def __init__(self, history: History, datatype: DataType | None = None) -> None:
        """`datatype`: what was replicated, unless its name in the history says enough."""
        self.history = history
        self.datatype = datatype or DATATYPES.get(history.datatype)
        self.logs = sorted(history.logs, key=lambda log: (log.replica, log.incarnation))

    def events(self) -> Iterator[tuple[ReplicaLog, LoggedEvent]]:
        """What others could learn of."""
        for log in self.logs:
            for logged in log.visible_events:
                yield log, logged

    # --- requests ------------------------------------------------------------------------------

    @cached_property
    def casts(self) -> dict[Dot, list[LoggedCast]]:
        """Every cast of each identifier, oldest first; also one that nobody could learn of, since
        its replica may find it on its disk again."""
        casts: dict[Dot, list[LoggedCast]] = {}
        for log in self.logs:
            for logged in log.events:
                if isinstance(logged.event, RbCast):
                    cast = LoggedCast(logged.event.request, log, logged)
                    casts.setdefault(cast.request.id, []).append(cast)
        return casts

    def request(self, dot: Dot) -> Request | None:
        casts = self.casts.get(dot)
        return casts[-1].request if casts else None

    def request_at(self, dot: Dot, at_us: int) -> Request | None:
        """What the identifier meant at that time; None when it had not been cast yet."""
        for cast in reversed(self.casts.get(dot, ())):
            if cast.logged.at_us <= at_us:
                return cast.request
        return None

    def position_of(self, record: OperationRecord) -> int | None:
        """The place of this very operation on `committed`."""
        casts = self.casts.get(record.id)
        if casts and casts[-1].log.incarnation != record.incarnation:
            return None
        return self.positions.get(record.id)

    # --- orders --------------------------------------------------------------------------------

    @cached_property
    def committed(self) -> list[Dot | None]:
        """The one committed order, merged from all logs; None where no log tells.

        What a log did in vain fills holes only: it may have reached the disk all the same, and come
        back inside a checkpoint.
        """
        places: dict[int, Dot] = {}
        length = 0
        for _, logged in self.events():
            match logged.event:
                case Committed(id=dot, index=index) if index >= 0:
                    places.setdefault(index, dot)
                case CheckpointInstalled(length=claimed):
                    length = max(length, claimed)
                case _:
                    pass
        length = max(length, 1 + max(places, default=-1))
        for log in self.logs:
            for logged in log.lost_events:
                if isinstance(logged.event, Committed):
                    places.setdefault(logged.event.index, logged.event.id)
        return [places.get(index) for index in range(length)]

    @cached_property
    def positions(self) -> dict[Dot, int]:
        index: dict[Dot, int] = {}
        for place, dot in enumerate(self.committed):
            if dot is not None:
                index.setdefault(dot, place)
        return index

    @cached_property
    def cab_order(self) -> list[tuple[int, Dot]]:
        """The one order of CAB deliveries, (instance, id), merged from all logs: a log that ends in
        the middle of an instance gives way to one that knows more of it. What was done in vain
        counts, as in `committed`, where a checkpoint covers it and nothing contradicts it."""
        instances: dict[int, list[Dot]] = {}
        for log in self.logs:
            for instance, dots in _cab_deliveries(log.visible_events).items():
                if len(dots) > len(instances.get(instance, ())):
                    instances[instance] = dots
        covered = max((each.instance for each in self._installed_checkpoints()), default=0)
        for log in self.logs:
            if log.lost_events:
                for instance, dots in _cab_deliveries(log.events).items():
                    known = instances.get(instance, [])
                    if instance < covered and len(dots) > len(known) == _common_prefix_length(
                        dots, known
                    ):
                        instances[instance] = dots
        return [(instance, dot) for instance in sorted(instances) for dot in instances[instance]]

    def _installed_checkpoints(self) -> Iterator[CheckpointInstalled]:
        for _, logged in self.events():
            if isinstance(logged.event, CheckpointInstalled):
                yield logged.event

    @cached_property
    def electorates(self) -> tuple[tuple[int, ...], ...]:
        """Who has a vote, by epoch."""
        return self.history.voters, *(voters for _, voters in self._membership_changes)

    def epoch_of(self, length: int) -> int:
        """The epoch that one is in who has so many requests on `committed`."""
        return bisect_left(self._membership_changes, length, key=lambda each: each[0])

    @cached_property
    def _membership_changes(self) -> list[tuple[int, tuple[int, ...]]]:
        """The changes of members that are committed, one by one: where, and who votes then."""
        members = tuple((each, "") for each in self.history.members)
        configuration = Configuration(0, members)
        found: list[tuple[int, tuple[int, ...]]] = []
        for place, dot in enumerate(self.committed):
            request = self.request(dot) if dot is not None else None
            if request is not None and request.operation.name == MEMBERSHIP_OPERATION:
                try:
                    configuration = configuration.apply(request.operation)
                except BadValue:
                    continue
                found.append((place, configuration.replica_ids))
        return found

    # --- the end -------------------------------------------------------------------------------

    @cached_property
    def last_logs(self) -> dict[int, ReplicaLog]:
        """The last incarnation of each replica that was up at the end."""
        up = {final.replica for final in self.history.final_states}
        return {log.replica: log for log in self.logs if log.replica in up}

    @cached_property
    def known_ids(self) -> dict[int, IdSet]:
        """What each replica that was up at the end had cast, RB-delivered or installed by then."""
        return {replica: _known_ids(log) for replica, log in self.last_logs.items()}


def committed_length_after(event: Event) -> int:
    """How long `committed` is then, at least."""
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


def _common_prefix_length(left: list[Dot], right: list[Dot]) -> int:
    """The length of the longest common prefix."""
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _known_ids(log: ReplicaLog) -> IdSet:
    known = IdSet()
    for logged in log.events:
        add_known_ids(known, logged.event)
    return known


def add_known_ids(known: IdSet, event: Event) -> None:
    """Add what a replica has from this event on."""
    match event:
        case RbCast(request=request):
            known.add(request.id)
        case RbDelivered(id=dot):
            known.add(dot)
        case CheckpointInstalled(ids=dots):
            known.update(dots)
        case _:
            pass
