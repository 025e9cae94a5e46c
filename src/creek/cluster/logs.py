"""What a replica tells the person, or the program, that looks after it.

Each line is an event: a name that stays the same from version to version, a sentence, and fields.

    2026-05-01 08:00:00.123 info    replica 0: replica 2 leads now (leader.changed leader=2)
    {"at":"2026-05-01T08:00:00.123Z","level":"info","event":"leader.changed",
     "message":"replica 2 leads now","replica":0,"leader":2}            (one line, in truth)
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import msgspec

LOGGER: Final = "creek.replica"
OPERATION_LONG: Final = "operation.long"
"""The event of an operation that takes too long."""
REPLICA_REMOVED: Final = "replica.removed"
"""The event of a replica that is no member any more."""
REPLICA_STOPPING: Final = "replica.stopping"
"""The event that a replica ends with, whatever the reason is."""
_FIELDS: Final = "creek_fields"
_EVENT: Final = "creek_event"


class EventLog:
    """Of one replica. `fields` must be what JSON can carry."""

    def __init__(self, replica: int) -> None:
        self._logger = logging.getLogger(LOGGER)
        self._replica = replica

    def info(self, event: str, message: str, **fields: Any) -> None:
        self._tell(logging.INFO, event, message, fields)

    def warning(self, event: str, message: str, **fields: Any) -> None:
        self._tell(logging.WARNING, event, message, fields)

    def error(self, event: str, message: str, **fields: Any) -> None:
        self._tell(logging.ERROR, event, message, fields)

    def _tell(self, level: int, event: str, message: str, fields: dict[str, Any]) -> None:
        more = {_EVENT: event, _FIELDS: {"replica": self._replica, **fields}}
        self._logger.log(level, "%s", message, extra=more)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """What comes from elsewhere, such as a library, has its logger's name for an event."""
        fields = dict(getattr(record, _FIELDS, {}))
        event = getattr(record, _EVENT, record.name)
        message = record.getMessage()
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        at = datetime.fromtimestamp(record.created, UTC)
        return self.line(at, record.levelname.lower(), event, message, fields)

    def line(
        self, at: datetime, level: str, event: str, message: str, fields: dict[str, Any]
    ) -> str:
        raise NotImplementedError


class TextFormatter(_Formatter):
    def line(
        self, at: datetime, level: str, event: str, message: str, fields: dict[str, Any]
    ) -> str:
        replica, trace = fields.pop("replica", None), fields.pop("trace", None)
        who = "" if replica is None else f"replica {replica}: "
        named = " ".join([event, *(f"{name}={value}" for name, value in fields.items())])
        when = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"
        line = f"{when} {level:7} {who}{_one_line(message)} ({_one_line(named)})"
        return line if trace is None else f"{line}\n{trace}"


class JsonFormatter(_Formatter):
    def line(
        self, at: datetime, level: str, event: str, message: str, fields: dict[str, Any]
    ) -> str:
        when = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = {"at": when, "level": level, "event": event, "message": message}
        return msgspec.json.encode({**record, **fields, **record}, enc_hook=str).decode()


def set_up(form: str, level: str, stream: TextIO | None = None) -> None:
    """For the whole process: our events from `level` on, and warnings of libraries."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER).setLevel(level.upper())


def _one_line(text: str) -> str:
    """A sentence may hold what somebody else sent."""
    return text if text.isprintable() else repr(text)[1:-1]
