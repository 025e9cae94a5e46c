"""Responses of calls as text."""

from typing import Any, TypedDict

import msgspec

from creekdb.protocol.request import Operation
from creekdb.wire.deduplication import describe_call


class ShownResponse(TypedDict, total=False):
    """Response as the commands show it: with a `value`, or with an `error`."""

    kind: str
    value: Any
    error: str
    changed: bool


def result_text(response: ShownResponse) -> str:
    """Return the value as JSON, or the error."""
    if "error" in response:
        return f"raised {response['error']}"
    return msgspec.json.encode(response["value"]).decode()


def response_line(response: ShownResponse, operation: Operation, is_readonly: bool) -> str:
    """Return the result and its kind, and the executed call if it may write."""
    changed = ", changed" if response.get("changed") else ""
    has_effect = not is_readonly and "error" not in response
    effect = f", executed {describe_call(operation)}" if has_effect else ""
    return f"{result_text(response)}  ({response['kind']}{changed}){effect}"
