"""Observed calls as JSON lines, one call per line.

    {"client": "a", "operation": "put", "arguments": ["x", 1], "invoked_us": 0, "responded_us": 7}

The fields are those of `ObservedCall`. A line without `value` accepts every value. A line without
`status` is `ok` if it has a response time, and `unknown` otherwise. Values are encoded as over
HTTP (`creekdb.wire.json_values`).
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE
from creekdb.checkers.blackbox.observations import CallStatus, FinalObservation, ObservedCall
from creekdb.errors import DECODE_ERRORS, BadValue
from creekdb.history import Outcome
from creekdb.wire.json_values import from_json, to_json


class _Final(msgspec.Struct, forbid_unknown_fields=True):
    responded_us: int
    status: CallStatus = CallStatus.OK
    value: Any = ANY_VALUE
    changed: bool | None = None


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    client: str | int
    operation: str
    invoked_us: int
    arguments: list[Any] = []
    strong: bool = True
    responded_us: int | None = None
    status: CallStatus | None = None
    value: Any = ANY_VALUE
    final: _Final | None = None


_decoder: Final = msgspec.json.Decoder(_Line)


def decode_call(line: str | bytes) -> ObservedCall:
    """Return the call of one line, or raise `BadValue`."""
    try:
        parsed = _decoder.decode(line)
    except DECODE_ERRORS as error:
        raise BadValue(f"not a call: {error}") from error
    status = parsed.status
    if status is None:
        status = CallStatus.UNKNOWN if parsed.responded_us is None else CallStatus.OK
    if parsed.responded_us is None and status in (CallStatus.OK, CallStatus.ERROR):
        raise BadValue(f"the status is '{status}', so 'responded_us' is required")
    if parsed.responded_us is not None and parsed.responded_us < parsed.invoked_us:
        raise BadValue(
            f"'responded_us' is {parsed.responded_us}, before 'invoked_us', {parsed.invoked_us}"
        )
    if parsed.final is not None and parsed.final.responded_us < parsed.invoked_us:
        raise BadValue(
            f"'final.responded_us' is {parsed.final.responded_us}, before 'invoked_us', "
            f"{parsed.invoked_us}"
        )
    return ObservedCall(
        client=str(parsed.client),
        operation=parsed.operation,
        arguments=decode_value(parsed.arguments, "arguments"),
        strong=parsed.strong,
        invoked_us=parsed.invoked_us,
        responded_us=parsed.responded_us,
        status=status,
        value=decode_value(parsed.value, "value"),
        final=None if parsed.final is None else _final(parsed.final),
    )


def _final(parsed: _Final) -> FinalObservation:
    value = decode_value(parsed.value, "final.value")
    return FinalObservation(parsed.responded_us, parsed.status, value, parsed.changed)


def decode_value(value: Any, field: str) -> Any:
    """Return a value of a line with tuples for arrays, or raise `BadValue` with its field."""
    try:
        return Outcome(from_json(value)).value  # has tuples for arrays
    except (BadValue, *DECODE_ERRORS) as error:
        raise BadValue(f"'{field}': {error}") from error


def encode_calls(calls: Iterable[ObservedCall]) -> bytes:
    """Return the calls as JSON lines."""
    return b"".join(msgspec.json.encode(_fields(call)) + b"\n" for call in calls)


def _fields(call: ObservedCall) -> dict[str, Any]:
    fields = {name: getattr(call, name) for name in call.__struct_fields__}
    fields["arguments"] = to_json(call.arguments)
    _encode_value(fields)
    if call.final is not None:
        fields["final"] = {name: getattr(call.final, name) for name in call.final.__struct_fields__}
        _encode_value(fields["final"])
    return fields


def _encode_value(fields: dict[str, Any]) -> None:
    if fields["value"] is ANY_VALUE:
        del fields["value"]
    else:
        fields["value"] = to_json(fields["value"])
