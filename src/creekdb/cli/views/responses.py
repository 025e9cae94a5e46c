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
    """Return the result and its kind. A write that returns nothing shows its effect instead."""
    changed = ", changed" if response.get("changed") else ""
    is_silent = not is_readonly and "error" not in response and response["value"] is None
    effect = f", executed {describe_call(operation)}" if is_silent else ""
    return f"{result_text(response)}  ({response['kind']}{changed}){effect}"
