"""Log of a replica, for operators and for programs.

Each line is an event: a name that stays the same from version to version, a message, and fields.
Topics such as connections can produce any number of events. They are rate-limited: after
`EVENTS_PER_WINDOW_MAX` events a window, the log keeps only the last one and the number of the
suppressed ones.

    2026-05-01 08:00:00.123 info    replica 0: replica 2 leads now (leader.changed leader=2)
    {"at":"2026-05-01T08:00:00.123Z","level":"info","event":"leader.changed",
     "message":"replica 2 leads now","replica":0,"leader":2}            (written as one line)
"""

import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, TextIO

import msgspec

LOGGER_NAME: Final = "creek.replica"
RATE_LIMITED_TOPICS: Final = frozenset(("disk", "leader", "majority", "peer"))
"""First words of rate-limited event names. Each topic has one limit per peer."""
EVENTS_PER_WINDOW_MAX: Final = 10
"""Upper bound for the events of one topic in a window, without the last one."""
WINDOW_S: Final = 60.0
"""Length of a rate-limit window, in seconds."""
_FIELDS: Final = "creek_fields"
_EVENT: Final = "creek_event"


class EventName(StrEnum):
    """Name of an event. `docs/metrics.md` describes all of them."""

    REPLICA_STARTED = "replica.started"
    REPLICA_BUSY = "replica.busy"
    REPLICA_WAITS = "replica.waits"
    REPLICA_ENTERED = "replica.entered"
    REPLICA_STOPPING = "replica.stopping"
    REPLICA_REMOVED = "replica.removed"
    REPLICA_FAILED = "replica.failed"
    REPLICA_BROKE = "replica.broke"
    LEADER_CHANGED = "leader.changed"
    LEADER_LOST = "leader.lost"
    PEER_CONNECTED = "peer.connected"
    PEER_LOST = "peer.lost"
    MAJORITY_MISSING = "majority.missing"
    PEER_REFUSED = "peer.refused"
    MEMBERS_CHANGED = "members.changed"
    CONFIGURATION_RELOADED = "configuration.reloaded"
    CONFIGURATION_REFUSED = "configuration.refused"
    CONFIGURATION_WAITS = "configuration.waits"
    CERTIFICATE_EXPIRES = "certificate.expires"
    INPUT_REFUSED = "input.refused"
    DISK_FAILED = "disk.failed"
    DISK_WORKS = "disk.works"
    CHANGES_FAILED = "changes.failed"
    JOURNAL_NOTICED = "journal.noticed"
    RECORDING_FAILED = "recording.failed"
    STATE_DIFFERS = "state.differs"
    OPERATION_LONG = "operation.long"
    OPERATION_ENDED = "operation.ended"
    OPERATION_RAISED = "operation.raised"
    OPERATIONS_DIFFER = "operations.differ"
    OPERATIONS_EQUAL = "operations.equal"
    BUILDS_DIFFER = "builds.differ"
    HTTP_STARTED = "http.started"


RATE_LIMITED_EVENTS: Final = frozenset((EventName.OPERATION_RAISED,))
"""Rate-limited events whose topic is not."""


class EventLog:
    """Log of one replica. The values of `fields` must be JSON values."""

    def __init__(self, replica: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._logger = logging.getLogger(LOGGER_NAME)
        self._replica = replica
        self._now_s = now_s
        self._limits: dict[tuple[str, Any], _RateLimit] = {}

    def info(self, event: EventName, message: str, **fields: Any) -> None:
        self._log(_LogEvent(logging.INFO, event, message, fields))

    def warning(self, event: EventName, message: str, **fields: Any) -> None:
        self._log(_LogEvent(logging.WARNING, event, message, fields))

    def error(self, event: EventName, message: str, **fields: Any) -> None:
        self._log(_LogEvent(logging.ERROR, event, message, fields))

    def flush_suppressed(self, *, at_once: bool = False) -> None:
        """Emit the suppressed events whose window has ended. Call this periodically."""
        now_s = self._now_s()
        for limit in list(self._limits.values()):  # an operation may raise in another thread
            is_due = at_once or now_s >= limit.window_start_s + WINDOW_S
            if is_due and (last := limit.reset(now_s)) is not None:
                self._emit(last)

    def _log(self, event: "_LogEvent") -> None:
        topic = _limited_topic(event.name)
        if event.name is EventName.REPLICA_STOPPING:
            self.flush_suppressed(at_once=True)
        elif topic is not None:
            self.flush_suppressed()
            key = topic, event.fields.get("peer")
            if not self._limits.setdefault(key, _RateLimit(self._now_s())).allow(event):
                return
        self._emit(event)

    def _emit(self, event: "_LogEvent") -> None:
        extra = {_EVENT: event.name, _FIELDS: {"replica": self._replica, **event.fields}}
        self._logger.log(event.level, "%s", event.message, extra=extra)


def _limited_topic(name: EventName) -> str | None:
    """Return the topic of a rate-limited event. Errors of operations have a topic of their own, so
    that they suppress no other event of operations."""
    topic = name.partition(".")[0]
    return topic if topic in RATE_LIMITED_TOPICS else name if name in RATE_LIMITED_EVENTS else None


class _LogEvent(NamedTuple):
    level: int
    name: EventName
    message: str
    fields: dict[str, Any]


class _RateLimit(msgspec.Struct):
    """State of one topic in the current window."""

    window_start_s: float
    count: int = 0
    suppressed: int = 0
    last: _LogEvent | None = None

    def allow(self, event: _LogEvent) -> bool:
        if self.count < EVENTS_PER_WINDOW_MAX:
            self.count += 1
            return True
        self.suppressed += 1
        self.last = event
        return False

    def reset(self, now_s: float) -> _LogEvent | None:
        """Start a window. Return the last suppressed event, which names how many preceded it."""
        event, preceding = self.last, self.suppressed - 1
        self.window_start_s, self.count = now_s, int(event is not None)
        self.suppressed, self.last = 0, None
        if event is None or not preceding:
            return event
        message = f"{event.message}; {preceding} events before it were suppressed"
        return event._replace(message=message, fields={**event.fields, "left_out": preceding})


class _Formatter(logging.Formatter):
    def __init__(self, form: str) -> None:
        super().__init__()
        self._format_line = _json_line if form == "json" else _text_line

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record. A record of a library has its logger's name as its event."""
        fields = dict(getattr(record, _FIELDS, {}))
        event = getattr(record, _EVENT, record.name)
        message = record.getMessage()
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        at = datetime.fromtimestamp(record.created, UTC)
        return self._format_line(at, record.levelname.lower(), event, message, fields)


def _text_line(at: datetime, level: str, event: str, message: str, fields: dict[str, Any]) -> str:
    replica, trace = fields.pop("replica", None), fields.pop("trace", None)
    source = "" if replica is None else f"replica {replica}: "
    details = " ".join([event, *(f"{name}={value}" for name, value in fields.items())])
    when = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"
    message, details = _escape_unprintable(message), _escape_unprintable(details)
    line = f"{when} {level:7} {source}{message} ({details})"
    return line if trace is None else f"{line}\n{trace}"


def _json_line(at: datetime, level: str, event: str, message: str, fields: dict[str, Any]) -> str:
    when = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {"at": when, "level": level, "event": event, "message": message}
    return msgspec.json.encode({**record, **fields, **record}, enc_hook=str).decode()


def configure_logging(form: str, level: str, stream: TextIO | None = None) -> None:
    """Configure the process: Creek's events from `level` on, and warnings of libraries.

    `form` is `json` or `text`.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER_NAME).setLevel(level.upper())


def _escape_unprintable(text: str) -> str:
    """Escape control characters: a message may quote text that a peer or client sent."""
    return text if text.isprintable() else repr(text)[1:-1]
