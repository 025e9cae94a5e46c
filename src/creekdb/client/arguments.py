"""Validation of the arguments that an application passes to the client."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from creekdb.client.operations import OperationDirectory
from creekdb.errors import BadValue
from creekdb.execution.serializable import INT_MAX, INT_MIN
from creekdb.protocol.ids.version_vector import Dot

SECONDS_MAX: Final = 1e9
"""Largest timeout, in seconds: about 31 years. A longer one has the same effect."""
_DOT_PATTERN: Final = re.compile(r"(\d{1,18})\.(\d{1,18})")


def address_list(addresses: Any) -> list[str]:
    """Return the addresses as a list of strings. A single string may be separated by commas."""
    if isinstance(addresses, str):
        return [address.strip() for address in addresses.split(",")]
    values = list(addresses) if isinstance(addresses, Iterable) else [addresses]
    for value in values:
        if not isinstance(value, str):
            raise BadValue(f"an address must be a string 'HOST:PORT', not {value!r}")
    return [value.strip() for value in values]


def checked_seconds(name: str, value: Any) -> float:
    """Return the timeout `name`, which must be positive and finite, up to `SECONDS_MAX`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadValue(f"{name} must be a number of seconds, not {value!r}")
    if not 0 < value < math.inf:
        raise BadValue(f"{name} must be a number of seconds above 0, not {value:g}")
    return min(value, SECONDS_MAX)


def checked_operation_name(operation: Any, operations: OperationDirectory) -> str:
    """Return the name of an operation, which is given by its name or its function.

    Any non-empty name passes: the replica rejects unknown names.
    """
    if isinstance(operation, str) and operation:
        return operation
    if callable(operation):
        return operations.name_of(operation)
    problem = "is missing" if operation == "" else f"must be a string, not {operation!r}"
    raise BadValue(f"the name of the operation {problem}; {operations_hint(operations.names())}")


def operations_hint(operation_names: Sequence[str]) -> str:
    """Return the part of an error message that lists the operations."""
    return f"operations are {', '.join(operation_names) or 'listed once connected'}"


def call_id(call: Any) -> Dot:
    """Return the id of a call.

    `call` is a call or its id: a `Dot`, a pair of numbers (as decoded from JSON), or a string such
    as '0.17'.
    """
    id = call_id_or_none(call)
    if id is None:
        raise BadValue("'after' requires an issued call: the call has no id yet; await it first")
    return id


def call_id_or_none(call: Any) -> Dot | None:
    """Return the id of a call, or None if no replica has issued the call yet."""
    match call:
        case [int(replica), int(event)] if _is_int64(replica) and _is_int64(event):
            return Dot(replica, event)
        case str() if (parts := _DOT_PATTERN.fullmatch(call)) is not None:
            return Dot(int(parts[1]), int(parts[2]))
    if hasattr(call, "id") and (call.id is None or isinstance(call.id, Dot)):
        id: Dot | None = call.id
        return id
    raise BadValue(
        f"'after' takes calls or their ids, not {type(call).__name__} {call!r}; "
        f"{call_by_name_hint('after')}"
    )


def _is_int64(value: int) -> bool:
    return type(value) is int and INT_MIN <= value <= INT_MAX


def call_by_name_hint(name: str) -> str:
    """Return the part of an error message for an operation with the name of a proxy method."""
    return f"an operation named '{name}' is called as db.weak('{name}', …)"
