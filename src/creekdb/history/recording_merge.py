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
    READABLE_VERSIONS,
    CallInvoked,
    CountersSampled,
    EventsRecorded,
    RecordingStarted,
    ReplicaRemoved,
    ReplicaStopped,
    ResponseSent,
    VisibleEvents,
    find_recordings,
    is_empty_recording,
    read_frames,
)
from creekdb.history.records import (
    Dot,
    FinalState,
    History,
    LoggedEvent,
    Operation,
    OperationRecord,
    RbCast,
    ReplicaLog,
    ResponseRecord,
    decode_event,
)
from creekdb.protocol.values import freeze, is_same_value

LIVE_SOURCE: Final = "live"
"""The `source` in the configuration of a live run."""
SAMPLES_PER_INCARNATION_MAX: Final = 200
"""Of each incarnation: of more, some are left out."""


def merge_recordings(folder: Path, measured_us: tuple[int, int] | None = None) -> History:
    """The run that the recordings in a folder tell of. `measured_us`: from when to when it counts,
    on the steady clock of the machine; otherwise all of it."""
    started = [
        _RecordedIncarnation(path)
        for path in find_recordings(folder)
        if not is_empty_recording(path)
    ]
    started.sort(key=lambda each: (each.started.replica, each.started.incarnation))
    # Who was killed while it read its disk has done nothing, and shows only a part of what it had.
    told = [each for each in started if each.has_recovered]
    if not told:
        raise UsageError(f"the recordings in {folder} are empty: no replica has started")
    _check_same_cluster(told)
    if len({each.started.boot_id for each in told}) > 1:
        for each in told:
            each.offset_us = each.started.wall_us - each.started.at_us
    zero_us = min(each.started.at_us + each.offset_us for each in told)
    for each in told:
        each.offset_us -= zero_us
    up = [each for each in _last_incarnations(started) if each.stopped is not None]
    first = min(told, key=lambda each: each.started.at_us + each.offset_us).started
    return History(
        config=_config(told, measured_us, zero_us),
        datatype=told[0].started.datatype,
        members=first.members,
        guarantees=first.guarantees,
        quiescent=_is_quiescent(up),
        operations=_operations(told),
        logs=tuple(each.log(is_up=each in up) for each in told),
        final_states=_final_states(up),
    )


class _RecordedIncarnation:
    def __init__(self, path: Path) -> None:
        told = read_frames(path)
        started = next(told)
        if not isinstance(started, RecordingStarted):
            raise UsageError(f"{path} does not begin as a recording does: leave it out")
        if started.version not in READABLE_VERSIONS:
            versions = " and ".join(map(str, READABLE_VERSIONS))
            raise UsageError(f"{path} is in version {started.version}; this Creek reads {versions}")
        self.path = path
        self.started = started
        self.offset_us = 0
        self.stopped: ReplicaStopped | None = None
        self.is_removed = False
        self.samples: list[CountersSampled] = []
        self._events: list[LoggedEvent] = []
        self._visible_count = 0
        self.has_recovered = False
        self._invocations: list[CallInvoked] = []
        self._responses: dict[Dot, list[ResponseSent]] = {}
        self._cast_operations: dict[Dot, Operation] = {}
        self._last_us = started.at_us
        for frame in told:
            match frame:
                case EventsRecorded(events=events):
                    self._add_events(decode_event(each) for each in events)
                case VisibleEvents(count=known):
                    self._visible_count = known
                    self.has_recovered = True
                case CallInvoked():
                    self._invocations.append(frame)
                    self._last_us = frame.at_us
                case ResponseSent():
                    self._responses.setdefault(frame.id, []).append(frame)
                    self._last_us = frame.at_us
                case CountersSampled():
                    self.samples.append(frame)
                    self._last_us = frame.at_us
                case ReplicaStopped():
                    self.stopped = frame
                    self._last_us = frame.at_us
                case ReplicaRemoved(at_us=at_us):
                    self.is_removed = True
                    self._last_us = at_us
                case RecordingStarted():
                    raise UsageError(f"{path} begins twice: leave it out")

    def _add_events(self, events: Iterable[LoggedEvent]) -> None:
        for each in events:
            self._events.append(each)
            self._last_us = each.at_us
            if isinstance(each.event, RbCast):
                self._cast_operations[each.event.request.id] = each.event.request.operation

    @property
    def is_stable(self) -> bool:
        return self.stopped is not None and self.stopped.is_idle and not self.stopped.tentative

    def log(self, is_up: bool) -> ReplicaLog:
        offset_us = self.offset_us
        return ReplicaLog(
            replica=self.started.replica,
            incarnation=self.started.incarnation,
            started_us=self.started.at_us + offset_us,
            crashed_us=None if is_up else self._last_us + offset_us,
            events=tuple(LoggedEvent(each.at_us + offset_us, each.event) for each in self._events),
            visible_count=self._visible_count,
            has_empty_disk=self.started.has_empty_disk,
            is_removed=self.is_removed,
        )

    def operations(self, sessions: dict[tuple[int, int, int], int]) -> Iterable[OperationRecord]:
        started, offset_us = self.started, self.offset_us
        for each in self._invocations:
            operation = each.operation or self._cast_operations.get(each.id)
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
                    ResponseRecord(
                        told.at_us + offset_us,
                        told.kind,
                        told.outcome,
                        told.changed,
                        told.observed,
                    )
                    for told in self._responses.get(each.id, ())
                ),
            )


def _check_same_cluster(told: list[_RecordedIncarnation]) -> None:
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


def _last_incarnations(told: list[_RecordedIncarnation]) -> list[_RecordedIncarnation]:
    """The last incarnation of each replica."""
    return list({each.started.replica: each for each in told}.values())


def _is_quiescent(up: list[_RecordedIncarnation]) -> bool:
    lengths = {each.stopped.first + len(each.stopped.committed) for each in up if each.stopped}
    return len(lengths) == 1 and all(each.is_stable for each in up)


def _operations(told: list[_RecordedIncarnation]) -> tuple[OperationRecord, ...]:
    sessions: dict[tuple[int, int, int], int] = {}
    found = [each for incarnation in told for each in incarnation.operations(sessions)]
    found.sort(key=lambda each: each.invoked_us)
    return tuple(found)


def _final_states(up: list[_RecordedIncarnation]) -> tuple[FinalState, ...]:
    """Replicas that end with equal states share one."""
    states: list[tuple[tuple[Any, Any], ...]] = []
    finals: list[FinalState] = []
    for each in up:
        ended = each.stopped
        assert ended is not None, "those that were stopped"
        state = tuple((key, freeze(value)) for key, value in ended.state)
        shared = next((other for other in states if is_same_value(other, state)), None)
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
    told: list[_RecordedIncarnation], measured_us: tuple[int, int] | None, zero_us: int
) -> dict[str, Any]:
    """What is known of the run, by the names that tables have for it."""
    started = told[0].started
    config: dict[str, Any] = {
        "source": LIVE_SOURCE,
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


def _samples(told: list[_RecordedIncarnation]) -> tuple[dict[str, int], ...]:
    """By replica and time; what is counted goes on where the incarnation before ended."""
    rows: list[dict[str, int]] = []
    before: dict[int, dict[str, int]] = {}
    for each in told:
        counted = before.setdefault(each.started.replica, dict.fromkeys(_CUMULATIVE_COUNTERS, 0))
        last = counted
        step = max(1, -(-len(each.samples) // SAMPLES_PER_INCARNATION_MAX))
        for sample in (*each.samples[:-1:step], *each.samples[-1:]):
            row = msgspec.structs.asdict(sample)
            row["at_us"] += each.offset_us
            row |= {name: row[name] + counted[name] for name in _CUMULATIVE_COUNTERS}
            rows.append({"replica": each.started.replica, **row})
            last = row
        before[each.started.replica] = {name: last[name] for name in _CUMULATIVE_COUNTERS}
    return tuple(rows)


_CUMULATIVE_COUNTERS: Final = ("executions", "busy_us", "bytes", "messages")
