"""Histories of events in the shapes of Jepsen and of the test data of porcupine.

    {"process": 0, "type": "invoke", "f": "write", "value": 3, "time": 1500}     as JSON
    {:process 0, :type :invoke, :f :write, :key "x", :value 3}                   as EDN
    INFO  jepsen.util - 0   :invoke   :cas    [3 4]                              as a log

An event has the type `invoke`, `ok`, `fail` (not executed) or `info` (unknown). The order of the
lines is the order of time. `time`, in nanoseconds, only scales pictures.

The value of an invocation is its argument, after the key if there is one. The two values of `cas`
are two arguments. An invocation without a value is a read, and the value of its `ok` is the
response. So is that of a transaction (`txn`). The response to a `cas` is True, and responses to
other calls are not recorded.
"""

import re
from typing import Any, Final, NamedTuple

import msgspec

from creekdb.checkers.blackbox.anomalies.transactions import TRANSACTION_OPERATIONS
from creekdb.checkers.blackbox.history_files.edn import read_edn
from creekdb.checkers.blackbox.history_files.json_lines import decode_value
from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall
from creekdb.errors import DECODE_ERRORS, BadValue

_LOG_LINE: Final = re.compile(
    r"INFO\s+jepsen\.util\s+-\s+(?P<process>\S+)\s+:(?P<type>\w+)\s+:(?P<f>[\w-]+)\s+(?P<value>.*)"
)
_JSON_OBJECT: Final = re.compile(r'\{\s*["}]')
_STATUSES: Final = {
    "ok": CallStatus.OK,
    "fail": CallStatus.REJECTED,
    "info": CallStatus.UNKNOWN,
}


class JepsenEvent(NamedTuple):
    process: int
    type: str
    f: str
    value: Any = None
    key: Any = None
    time: int | None = None
    is_compared: bool = False
    """True if a `fail` of `cas` means that the values were compared and differ."""


def decode_event(line: str) -> JepsenEvent | None:
    """Return the event of a line, or None for a line about something else, such as a fault.

    Raise `BadValue` if the line is not an event.
    """
    if (logged := _LOG_LINE.fullmatch(line)) is not None:
        fields: Any = {**logged.groupdict(), "value": read_edn(logged["value"])}
        if not fields["process"].isdecimal():
            return None
        _check_type(fields["type"])
        return JepsenEvent(int(fields.pop("process")), **fields, is_compared=True)
    if line.startswith("INFO"):
        return None
    return _event(_decode_json(line) if _JSON_OBJECT.match(line) else read_edn(line))


def _decode_json(line: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except DECODE_ERRORS as error:
        raise BadValue(f"not an event: {error}") from error


def _event(fields: Any) -> JepsenEvent | None:
    if type(fields) is not dict or not {"process", "type", "f"} <= fields.keys():
        raise BadValue("not an event: it needs 'process', 'type' and 'f'")
    if type(fields["process"]) is not int:
        return None  # the nemesis
    _check_type(fields["type"])
    time = fields.get("time")
    return JepsenEvent(
        fields["process"],
        fields["type"],
        str(fields["f"]),
        decode_value(fields.get("value"), "value"),
        decode_value(fields.get("key"), "key"),
        time if type(time) is int else None,
    )


def _check_type(type: Any) -> None:
    if type not in ("invoke", *_STATUSES):
        raise BadValue(f"unknown type '{type}': expected invoke, ok, fail or info")


class EventPairing:
    """Calls made of invocations and their completions."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, JepsenEvent, int]] = {}
        """Number, invocation and time of the open call of each process."""
        self._calls: list[ObservedCall | None] = []
        self._now_us = 0

    def add(self, event: JepsenEvent) -> None:
        """Add the next event, or raise `BadValue` if it contradicts the earlier ones."""
        # Distinct times keep the order of the lines.
        time_us = 0 if event.time is None else event.time // 1000
        self._now_us = max(self._now_us + 1, time_us)
        if event.type == "invoke":
            if event.process in self._open:
                raise BadValue(f"process {event.process} has a call in progress already")
            self._open[event.process] = len(self._calls), event, self._now_us
            self._calls.append(None)
            return
        if event.process not in self._open:
            raise BadValue(f"process {event.process} has no call in progress")
        number, invocation, invoked_us = self._open.pop(event.process)
        self._calls[number] = _call(invocation, invoked_us, event, self._now_us)

    def calls(self) -> list[ObservedCall]:
        """Return all calls. Those without a completion have an unknown outcome."""
        for number, invocation, invoked_us in self._open.values():
            info = invocation._replace(type="info")
            self._calls[number] = _call(invocation, invoked_us, info, self._now_us)
        return [each for each in self._calls if each is not None]


def _call(
    invocation: JepsenEvent, invoked_us: int, completion: JepsenEvent, now_us: int
) -> ObservedCall:
    status, value = _STATUSES[completion.type], _response(invocation, completion)
    if completion.type == "fail" and completion.f == "cas" and completion.is_compared:
        status, value = CallStatus.OK, False
    return ObservedCall(
        client=str(invocation.process),
        operation=invocation.f,
        arguments=arguments_of(invocation),
        invoked_us=invoked_us,
        responded_us=None if status is CallStatus.UNKNOWN else now_us,
        status=status,
        value=value,
    )


def arguments_of(invocation: JepsenEvent) -> tuple[Any, ...]:
    """Return the arguments of the call: the key if there is one, and the value."""
    key = () if invocation.key is None else (invocation.key,)
    value = invocation.value
    if value is None:
        return key
    if invocation.f == "cas" and isinstance(value, tuple):
        return (*key, *value)
    return (*key, value)


def _response(invocation: JepsenEvent, completion: JepsenEvent) -> Any:
    if completion.type != "ok":
        return None
    if invocation.f == "cas":
        return True
    is_recorded = invocation.value is None or invocation.f in TRANSACTION_OPERATIONS
    return completion.value if is_recorded else ANY_VALUE
