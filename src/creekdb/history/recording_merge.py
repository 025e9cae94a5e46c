"""Merges the recordings of the replicas of a live cluster into one history.

The run begins when the first replica started. It is `quiescent` if each stopped replica had
executed every request, none was tentative, and all replicas had committed equally many. A replica
that was killed and never restarted is ignored in this condition.

A client that retries a call at a second replica appears as two operations, because it made two
requests. The deduplicating data type executes them once. A session is one connection.
"""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from creekdb.errors import UsageError
from creekdb.history.recording import (
    RECORDING_VERSION,
    CallInvoked,
    CountersSampled,
    EventsRecorded,
    RecordingStarted,
    ReplicaRemoved,
    ReplicaStopped,
    ResponseSent,
    VisibleEvents,
    find_recordings,
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
"""`source` in the configuration of a live run."""
SAMPLES_PER_INCARNATION_MAX: Final = 200
"""Upper bound for the samples of each incarnation. Surplus samples are dropped evenly."""


def merge_recordings(directory: Path, measured_us: tuple[int, int] | None = None) -> History:
    """Return the run described by the recordings in a directory.

    `measured_us` is the measured interval on the steady clock of the machine, by default the whole
    run.
    """
    started = [
        _RecordedIncarnation(path)
        for path in find_recordings(directory)
        if next(read_frames(path), None)  # otherwise killed before it wrote the first frame
    ]
    started.sort(key=lambda each: (each.started.replica, each.started.incarnation))
    # An incarnation that was killed during recovery did nothing, and its recovered state is
    # incomplete.
    recovered = [each for each in started if each.has_recovered]
    if not recovered:
        raise UsageError(
            f"cannot merge recordings: no replica in {directory} completed its recovery"
        )
    _check_same_cluster(recovered)
    if len({each.started.boot_id for each in recovered}) > 1:
        for each in recovered:
            each.offset_us = each.started.wall_us - each.started.at_us
    zero_us = min(each.started.at_us + each.offset_us for each in recovered)
    for each in recovered:
        each.offset_us -= zero_us
    last_incarnations = {each.started.replica: each for each in started}.values()
    up = [each for each in last_incarnations if each.stopped is not None]
    first = min(recovered, key=lambda each: each.started.at_us + each.offset_us).started
    return History(
        config=_config(recovered, measured_us, zero_us),
        datatype=recovered[0].started.datatype,
        members=first.members,
        guarantees=first.guarantees,
        quiescent=_is_quiescent(up),
        operations=_operations(recovered),
        logs=tuple(each.log(is_up=each in up) for each in recovered),
        final_states=_final_states(up),
    )


class _RecordedIncarnation:
    def __init__(self, path: Path) -> None:
        frames = read_frames(path)
        started = next(frames)
        if not isinstance(started, RecordingStarted):
            raise UsageError(
                f"cannot merge {path}: it does not begin with a recording header; remove the file"
            )
        if started.version != RECORDING_VERSION:
            raise UsageError(
                f"cannot merge {path}: it has version {started.version}; this Creek reads "
                f"{RECORDING_VERSION}"
            )
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
        for frame in frames:
            match frame:
                case EventsRecorded(events=events):
                    for each in map(decode_event, events):
                        self._events.append(each)
                        self._last_us = each.at_us
                        if isinstance(each.event, RbCast):
                            request = each.event.request
                            self._cast_operations[request.id] = request.operation
                    continue
                case VisibleEvents(count=count):
                    self._visible_count = count
                    self.has_recovered = True
                    continue
                case CallInvoked():
                    self._invocations.append(frame)
                case ResponseSent():
                    self._responses.setdefault(frame.id, []).append(frame)
                case CountersSampled():
                    self.samples.append(frame)
                case ReplicaStopped():
                    self.stopped = frame
                case ReplicaRemoved():
                    self.is_removed = True
                case RecordingStarted():
                    raise UsageError(
                        f"cannot merge {path}: it has two recording headers; remove the file"
                    )
            self._last_us = frame.at_us

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
            if operation is None:  # killed between the two frames: the request was never sent
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
                responses=tuple(
                    ResponseRecord(
                        response.at_us + offset_us,
                        response.kind,
                        response.outcome,
                        response.changed,
                        response.observed,
                    )
                    for response in self._responses.get(each.id, ())
                ),
            )


def _check_same_cluster(incarnations: list[_RecordedIncarnation]) -> None:
    first = incarnations[0]
    for each in incarnations:
        for name in ("cluster", "datatype", "scheme"):
            if getattr(each.started, name) != getattr(first.started, name):
                raise UsageError(
                    f"cannot merge {first.path} and {each.path}: their {name} differs "
                    f"('{getattr(first.started, name)}' and '{getattr(each.started, name)}')"
                )
    for one, other in pairwise(incarnations):
        replica, incarnation = one.started.replica, one.started.incarnation
        if (replica, incarnation) == (other.started.replica, other.started.incarnation):
            raise UsageError(
                f"cannot merge {one.path} and {other.path}: both record incarnation {incarnation} "
                f"of replica {replica}; name the directory of one run"
            )


def _is_quiescent(up: list[_RecordedIncarnation]) -> bool:
    ends = [each.stopped for each in up if each.stopped is not None]
    lengths = {each.first + len(each.committed) for each in ends}
    return len(lengths) == 1 and all(each.is_idle and not each.tentative for each in ends)


def _operations(incarnations: list[_RecordedIncarnation]) -> tuple[OperationRecord, ...]:
    sessions: dict[tuple[int, int, int], int] = {}
    records = (each for incarnation in incarnations for each in incarnation.operations(sessions))
    return tuple(sorted(records, key=lambda each: each.invoked_us))


def _final_states(up: list[_RecordedIncarnation]) -> tuple[FinalState, ...]:
    """Return the final states. Replicas with equal states share one object."""
    states: list[tuple[tuple[Any, Any], ...]] = []
    finals: list[FinalState] = []
    for each in up:
        stopped = each.stopped
        assert stopped is not None, "only stopped replicas have a final state"
        state = tuple((key, freeze(value)) for key, value in stopped.state)
        shared = next((other for other in states if is_same_value(other, state)), None)
        if shared is None:
            states.append(state)
            shared = state
        finals.append(
            FinalState(
                replica=each.started.replica,
                first=stopped.first,
                committed=stopped.committed,
                tentative=stopped.tentative,
                state=shared,
            )
        )
    return tuple(finals)


def _config(
    incarnations: list[_RecordedIncarnation], measured_us: tuple[int, int] | None, zero_us: int
) -> dict[str, Any]:
    """Return the configuration of the run, with the column names of the tables as keys."""
    started = incarnations[0].started
    config: dict[str, Any] = {
        "source": LIVE_SOURCE,
        "scheme": started.scheme,
        "extensions": started.extensions,
        "imported": started.imported,
        "durability": started.durability,
        "replicas": len(started.members),
        "cores": started.cores,
        "samples": _samples(incarnations),
    }
    if measured_us is not None:
        begin_us, end_us = (each - zero_us for each in measured_us)
        config |= {"begin_us": begin_us, "end_us": end_us, "duration_us": end_us}
    return config


def _samples(incarnations: list[_RecordedIncarnation]) -> tuple[dict[str, int], ...]:
    """Return samples by replica and time. Counters continue from the preceding incarnation."""
    rows: list[dict[str, int]] = []
    last: dict[int, dict[str, int]] = {}
    for each in incarnations:
        replica = each.started.replica
        before = last.get(replica, dict.fromkeys(_CUMULATIVE_COUNTERS, 0))
        step = max(1, -(-len(each.samples) // SAMPLES_PER_INCARNATION_MAX))
        for sample in (*each.samples[:-1:step], *each.samples[-1:]):
            row = msgspec.structs.asdict(sample)
            row["at_us"] += each.offset_us
            row |= {name: row[name] + before[name] for name in _CUMULATIVE_COUNTERS}
            rows.append({"replica": replica, **row})
            last[replica] = row
    return tuple(rows)


_CUMULATIVE_COUNTERS: Final = ("executions", "busy_us", "bytes", "messages")
