"""What a replica tells the person, or the program, that looks after it.

Each line is an event: a name that stays the same from version to version, a sentence, and fields.
What comes and goes, such as a connection, may do so any number of times: of that only so much is
told in a minute, then how it is, and how many events were left out.

    2026-05-01 08:00:00.123 info    replica 0: replica 2 leads now (leader.changed leader=2)
    {"at":"2026-05-01T08:00:00.123Z","level":"info","event":"leader.changed",
     "message":"replica 2 leads now","replica":0,"leader":2}            (one line, in truth)
"""

import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TextIO

import msgspec

LOGGER_NAME: Final = "creek.replica"
OPERATION_LONG: Final = "operation.long"
"""The event of an operation that takes too long."""
REPLICA_REMOVED: Final = "replica.removed"
"""The event of a replica that is no member any more."""
REPLICA_STOPPING: Final = "replica.stopping"
"""The event that a replica ends with, whatever the reason is."""
RATE_LIMITED_TOPICS: Final = frozenset(("disk", "leader", "majority", "peer"))
"""The first words of events of which any number may come, each of them for each peer."""
EVENTS_PER_WINDOW_MAX: Final = 10
"""Of these, in so many seconds; the last one, and how many others were left out, after them."""
WINDOW_S: Final = 60.0
_FIELDS: Final = "creek_fields"
_EVENT: Final = "creek_event"


class EventLog:
    """Of one replica. `fields` must be what JSON can carry."""

    def __init__(self, replica: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._logger = logging.getLogger(LOGGER_NAME)
        self._replica = replica
        self._now_s = now_s
        self._limits: dict[tuple[str, Any], _RateLimit] = {}

    def info(self, event: str, message: str, **fields: Any) -> None:
        self._log(_LogEvent(logging.INFO, event, message, fields))

    def warning(self, event: str, message: str, **fields: Any) -> None:
        self._log(_LogEvent(logging.WARNING, event, message, fields))

    def error(self, event: str, message: str, **fields: Any) -> None:
        self._log(_LogEvent(logging.ERROR, event, message, fields))

    def flush_suppressed(self, *, at_once: bool = False) -> None:
        """What was held back for long enough: to be called from time to time."""
        now_s = self._now_s()
        for told in self._limits.values():
            if at_once or now_s >= told.window_start_s + WINDOW_S:
                last, left_out = told.reset(now_s)
                if last is not None:
                    self._emit(_with_suppressed_count(last, left_out))

    def _log(self, event: "_LogEvent") -> None:
        topic = event.name.partition(".")[0]
        if event.name == REPLICA_STOPPING:
            self.flush_suppressed(at_once=True)
        elif topic in RATE_LIMITED_TOPICS:
            self.flush_suppressed()
            about = topic, event.fields.get("peer")
            if not self._limits.setdefault(about, _RateLimit(self._now_s())).allow(event):
                return
        self._emit(event)

    def _emit(self, event: "_LogEvent") -> None:
        more = {_EVENT: event.name, _FIELDS: {"replica": self._replica, **event.fields}}
        self._logger.log(event.level, "%s", event.message, extra=more)


class _LogEvent(NamedTuple):
    level: int
    name: str
    message: str
    fields: dict[str, Any]


class _RateLimit:
    """What of one matter was told lately, and what was not."""

    __slots__ = ("count", "last", "suppressed", "window_start_s")

    def __init__(self, since_s: float) -> None:
        self.window_start_s = since_s
        self.count = 0
        self.suppressed = 0
        self.last: _LogEvent | None = None

    def allow(self, event: _LogEvent) -> bool:
        if self.count < EVENTS_PER_WINDOW_MAX:
            self.count += 1
            return True
        self.suppressed += 1
        self.last = event
        return False

    def reset(self, now_s: float) -> tuple[_LogEvent | None, int]:
        """The last that was held back, which is to be told now, and how many there were before."""
        last, left_out = self.last, self.suppressed - 1
        self.window_start_s, self.count, self.suppressed, self.last = (
            now_s,
            int(last is not None),
            0,
            None,
        )
        return last, left_out


def _with_suppressed_count(event: _LogEvent, left_out: int) -> _LogEvent:
    if not left_out:
        return event
    message = f"{event.message}; {left_out} such events before it were left out"
    return event._replace(message=message, fields={**event.fields, "left_out": left_out})


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """What comes from elsewhere, such as a library, has its logger's name for an event."""
        fields = dict(getattr(record, _FIELDS, {}))
        event = getattr(record, _EVENT, record.name)
        message = record.getMessage()
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        at = datetime.fromtimestamp(record.created, UTC)
        return self.format_line(at, record.levelname.lower(), event, message, fields)

    def format_line(
        self, at: datetime, level: str, event: str, message: str, fields: dict[str, Any]
    ) -> str:
        raise NotImplementedError


class TextFormatter(_Formatter):
    def format_line(
        self, at: datetime, level: str, event: str, message: str, fields: dict[str, Any]
    ) -> str:
        replica, trace = fields.pop("replica", None), fields.pop("trace", None)
        who = "" if replica is None else f"replica {replica}: "
        named = " ".join([event, *(f"{name}={value}" for name, value in fields.items())])
        when = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"
        line = (
            f"{when} {level:7} {who}{_escape_unprintable(message)} ({_escape_unprintable(named)})"
        )
        return line if trace is None else f"{line}\n{trace}"


class JsonFormatter(_Formatter):
    def format_line(
        self, at: datetime, level: str, event: str, message: str, fields: dict[str, Any]
    ) -> str:
        when = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = {"at": when, "level": level, "event": event, "message": message}
        return msgspec.json.encode({**record, **fields, **record}, enc_hook=str).decode()


def configure_logging(form: str, level: str, stream: TextIO | None = None) -> None:
    """For the whole process: our events from `level` on, and warnings of libraries."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER_NAME).setLevel(level.upper())


def _escape_unprintable(text: str) -> str:
    """A sentence may hold what somebody else sent."""
    return text if text.isprintable() else repr(text)[1:-1]
