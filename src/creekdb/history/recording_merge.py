"""From what the replicas of a live cluster recorded, each for itself, to one history.

The run begins when the first of them started, and ends well (`quiescent`) if each one that was
stopped had executed everything, nothing was tentative, and all had committed as much. A replica
that was killed and never came back has no part in that.

A client that asked a second replica for what the first one did not answer appears as two
operations, since two requests were made of it; that they took effect once is what their data type
sees to. Sessions are those of a connection.
"""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from creekdb.errors import UsageError
from creekdb.history.recording import (
    READABLE,
    Answered,
    Dismissed,
    Ended,
    Happened,
    Invoked,
    Known,
    Sampled,
    Started,
    frames,
    is_empty,
    recordings,
)
from creekdb.history.records import (
    Answer,
    Cast,
    Dot,
    FinalState,
    History,
    LoggedEvent,
    Operation,
    OperationRecord,
    ReplicaLog,
    logged,
)
from creekdb.protocol.values import frozen, same

LIVE: Final = "live"
"""The `source` in the configuration of a live run."""
SAMPLES_MAX: Final = 200
"""Of each incarnation: of more, some are left out."""


def gather(folder: Path, measured_us: tuple[int, int] | None = None) -> History:
    """The run that the recordings in a folder tell of. `measured_us`: from when to when it counts,
    on the steady clock of the machine; otherwise all of it."""
    started = [_Incarnation(path) for path in recordings(folder) if not is_empty(path)]
    started.sort(key=lambda each: (each.started.replica, each.started.incarnation))
    # Who was killed while it read its disk has done nothing, and shows only a part of what it had.
    told = [each for each in started if each.has_begun]
    if not told:
        raise UsageError(f"the recordings in {folder} are empty: no replica has started")
    _same_cluster(told)
    if len({each.started.boot for each in told}) > 1:
        for each in told:
            each.offset_us = each.started.wall_us - each.started.at_us
    zero_us = min(each.started.at_us + each.offset_us for each in told)
    for each in told:
        each.offset_us -= zero_us
    up = [each for each in _last(started) if each.ended is not None]
    first = min(told, key=lambda each: each.started.at_us + each.offset_us).started
    return History(
        config=_config(told, measured_us, zero_us),
        datatype=told[0].started.datatype,
        members=first.members,
        terms=first.terms,
        quiescent=_is_quiescent(up),
        operations=_operations(told),
        logs=tuple(each.log(is_up=each in up) for each in told),
        finals=_finals(up),
    )


class _Incarnation:
    def __init__(self, path: Path) -> None:
        told = frames(path)
        started = next(told)
        if not isinstance(started, Started):
            raise UsageError(f"{path} does not begin as a recording does: leave it out")
        if started.version not in READABLE:
            versions = " and ".join(map(str, READABLE))
            raise UsageError(f"{path} is in version {started.version}; this Creek reads {versions}")
        self.path = path
        self.started = started
        self.offset_us = 0
        self.ended: Ended | None = None
        self.dismissed = False
        self.samples: list[Sampled] = []
        self._events: list[LoggedEvent] = []
        self._known = 0
        self.has_begun = False
        self._invoked: list[Invoked] = []
        self._answers: dict[Dot, list[Answered]] = {}
        self._cast: dict[Dot, Operation] = {}
        self._last_us = started.at_us
        for frame in told:
            match frame:
                case Happened(events=events):
                    self._happened(logged(each) for each in events)
                case Known(events=known):
                    self._known = known
                    self.has_begun = True
                case Invoked():
                    self._invoked.append(frame)
                    self._last_us = frame.at_us
                case Answered():
                    self._answers.setdefault(frame.id, []).append(frame)
                    self._last_us = frame.at_us
                case Sampled():
                    self.samples.append(frame)
                    self._last_us = frame.at_us
                case Ended():
                    self.ended = frame
                    self._last_us = frame.at_us
                case Dismissed(at_us=at_us):
                    self.dismissed = True
                    self._last_us = at_us
                case Started():
                    raise UsageError(f"{path} begins twice: leave it out")

    def _happened(self, events: Iterable[LoggedEvent]) -> None:
        for each in events:
            self._events.append(each)
            self._last_us = each.at_us
            if isinstance(each.event, Cast):
                self._cast[each.event.request.id] = each.event.request.operation

    @property
    def is_settled(self) -> bool:
        return self.ended is not None and self.ended.idle and not self.ended.tentative

    def log(self, is_up: bool) -> ReplicaLog:
        offset_us = self.offset_us
        return ReplicaLog(
            replica=self.started.replica,
            incarnation=self.started.incarnation,
            started_us=self.started.at_us + offset_us,
            crashed_us=None if is_up else self._last_us + offset_us,
            events=tuple(LoggedEvent(each.at_us + offset_us, each.event) for each in self._events),
            known=self._known,
            anew=self.started.anew,
            dismissed=self.dismissed,
        )

    def operations(self, sessions: dict[tuple[int, int, int], int]) -> Iterable[OperationRecord]:
        started, offset_us = self.started, self.offset_us
        for each in self._invoked:
            operation = each.operation or self._cast.get(each.id)
            if operation is None:  # killed between the two: nobody heard of it
                continue
            connection = started.replica, started.incarnation, each.session
            yield OperationRecord(
                session=sessions.setdefault(connection, len(sessions)),
                replica=started.replica,
                incarnation=started.incarnation,
                id=each.id,
                operation=operation,
                strong=each.strong,
                invoked_us=each.at_us + offset_us,
                answers=tuple(
                    Answer(
                        told.at_us + offset_us,
                        told.kind,
                        told.outcome,
                        told.changed,
                        told.observed,
                    )
                    for told in self._answers.get(each.id, ())
                ),
            )


def _same_cluster(told: list[_Incarnation]) -> None:
    first = told[0]
    for each in told:
        for name in ("cluster", "datatype", "scheme"):
            if getattr(each.started, name) != getattr(first.started, name):
                raise UsageError(
                    f"{first.path} and {each.path} are of two clusters: their {name} is "
                    f"'{getattr(first.started, name)}' and '{getattr(each.started, name)}'"
                )
    for one, other in pairwise(told):
        if (one.started.replica, one.started.incarnation) == (
            other.started.replica,
            other.started.incarnation,
        ):
            raise UsageError(f"{one.path} and {other.path} claim to be the same: name one run")


def _last(told: list[_Incarnation]) -> list[_Incarnation]:
    """The last incarnation of each replica."""
    return list({each.started.replica: each for each in told}.values())


def _is_quiescent(up: list[_Incarnation]) -> bool:
    lengths = {each.ended.first + len(each.ended.committed) for each in up if each.ended}
    return len(lengths) == 1 and all(each.is_settled for each in up)


def _operations(told: list[_Incarnation]) -> tuple[OperationRecord, ...]:
    sessions: dict[tuple[int, int, int], int] = {}
    found = [each for incarnation in told for each in incarnation.operations(sessions)]
    found.sort(key=lambda each: each.invoked_us)
    return tuple(found)


def _finals(up: list[_Incarnation]) -> tuple[FinalState, ...]:
    """Replicas that end with equal states share one."""
    states: list[tuple[tuple[Any, Any], ...]] = []
    finals: list[FinalState] = []
    for each in up:
        ended = each.ended
        assert ended is not None, "those that were stopped"
        state = tuple((key, frozen(value)) for key, value in ended.state)
        shared = next((other for other in states if same(other, state)), None)
        if shared is None:
            states.append(state)
            shared = state
        finals.append(
            FinalState(
                replica=each.started.replica,
                first=ended.first,
                committed=ended.committed,
                tentative=ended.tentative,
                state=shared,
            )
        )
    return tuple(finals)


def _config(
    told: list[_Incarnation], measured_us: tuple[int, int] | None, zero_us: int
) -> dict[str, Any]:
    """What is known of the run, by the names that tables have for it."""
    started = told[0].started
    config: dict[str, Any] = {
        "source": LIVE,
        "scheme": started.scheme,
        "imported": started.imported,
        "durability": started.durability,
        "replicas": len(started.members),
        "cores": started.cores,
        "samples": _samples(told),
    }
    if measured_us is not None:
        begin_us, end_us = (each - zero_us for each in measured_us)
        config |= {"begin_us": begin_us, "end_us": end_us, "duration_us": end_us}
    return config


def _samples(told: list[_Incarnation]) -> tuple[dict[str, int], ...]:
    """By replica and time; what is counted goes on where the incarnation before ended."""
    rows: list[dict[str, int]] = []
    before: dict[int, dict[str, int]] = {}
    for each in told:
        counted = before.setdefault(each.started.replica, dict.fromkeys(_COUNTED, 0))
        last = counted
        step = max(1, -(-len(each.samples) // SAMPLES_MAX))
        for sample in (*each.samples[:-1:step], *each.samples[-1:]):
            row = msgspec.structs.asdict(sample)
            row["at_us"] += each.offset_us
            row |= {name: row[name] + counted[name] for name in _COUNTED}
            rows.append({"replica": each.started.replica, **row})
            last = row
        before[each.started.replica] = {name: last[name] for name in _COUNTED}
    return tuple(rows)


_COUNTED: Final = ("executions", "busy_us", "bytes", "messages")
