"""Histories in files: calls as JSON lines, or events as JSON, EDN or a log of Jepsen.

The first line determines the shape. Empty lines are skipped.
"""

import re
from pathlib import Path
from typing import Final

import msgspec

from creekdb.checkers.blackbox.history_files.jepsen import (
    EventPairing,
    arguments_of,
    decode_event,
)
from creekdb.checkers.blackbox.history_files.json_lines import decode_call
from creekdb.checkers.blackbox.linearizability.models import Model, require_call
from creekdb.checkers.blackbox.observations import ObservedCall
from creekdb.errors import DECODE_ERRORS, BadValue, StorageFault, UsageError

_EVENT_START: Final = re.compile(r"\{\s*:|#\w|INFO")


def read_calls(path: Path, model: Model | None = None) -> tuple[ObservedCall, ...]:
    """Return the calls in the file, in the order of their invocations.

    Raise `UsageError` with the number of the line that is not valid, or whose call is not one of
    the model.
    """
    calls: list[ObservedCall] = []
    pairing = EventPairing()
    try:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                _add_line(line.decode().strip(), calls, pairing, model)
            except (BadValue, *DECODE_ERRORS) as error:
                raise UsageError(f"{path}, line {number}: {error}") from error
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    calls += pairing.calls()
    if not calls:
        raise UsageError(f"{path} contains no calls; expected one call or event per line")
    return tuple(sorted(calls, key=lambda call: call.invoked_us))


def _add_line(
    line: str, calls: list[ObservedCall], pairing: EventPairing, model: Model | None
) -> None:
    if has_event(line):
        event = decode_event(line)
        if event is not None:
            if event.type == "invoke" and model is not None:
                model.check(event.f, arguments_of(event))
            pairing.add(event)
    elif line:
        call = decode_call(line)
        if model is not None:
            require_call(model, call)
        calls.append(call)


def has_event(line: str) -> bool:
    """True if the line is an event, not a call."""
    if _EVENT_START.match(line):
        return True
    try:
        fields = msgspec.json.decode(line)
    except DECODE_ERRORS:
        return False
    return isinstance(fields, dict) and "process" in fields
