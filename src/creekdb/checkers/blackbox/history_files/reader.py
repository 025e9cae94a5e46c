"""Histories in files: calls as JSON lines, or events as JSON, EDN or a log of Jepsen.

The first line determines the shape. Empty lines are skipped.
"""

from pathlib import Path

import msgspec

from creekdb.checkers.blackbox.history_files.jepsen import EventPairing, decode_event
from creekdb.checkers.blackbox.history_files.json_lines import decode_call
from creekdb.checkers.blackbox.observations import ObservedCall
from creekdb.errors import BadValue, StorageFault, UsageError


def read_calls(path: Path) -> tuple[ObservedCall, ...]:
    """Return the calls in the file, in the order of their invocations.

    Raise `UsageError` with the number of the line that is not valid.
    """
    calls: list[ObservedCall] = []
    pairing = EventPairing()
    try:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                _add_line(line.decode().strip(), calls, pairing)
            except (BadValue, UnicodeDecodeError) as error:
                raise UsageError(f"{path}, line {number}: {error}") from error
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    calls += pairing.calls()
    if not calls:
        raise UsageError(f"{path} contains no calls; expected one call or event per line")
    return tuple(sorted(calls, key=lambda call: call.invoked_us))


def _add_line(line: str, calls: list[ObservedCall], pairing: EventPairing) -> None:
    if has_event(line):
        event = decode_event(line)
        if event is not None:
            pairing.add(event)
    elif line:
        calls.append(decode_call(line))


def has_event(line: str) -> bool:
    """True if the line is an event, not a call."""
    if line.startswith(("{:", "#jepsen", "INFO")):
        return True
    try:
        fields = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return isinstance(fields, dict) and "process" in fields
