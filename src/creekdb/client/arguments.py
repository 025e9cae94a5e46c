"""What a program hands to the client, looked at before anything is done with it."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from creekdb.client.errors import NotDone
from creekdb.errors import BadValue
from creekdb.protocol.ids.version_vector import Dot

_DOT_PATTERN: Final = re.compile(r"(\d+)\.(\d+)")


def address_list(addresses: Any) -> list[str]:
    """One or more, as texts."""
    if isinstance(addresses, str):
        return [each.strip() for each in addresses.split(",")]
    found = list(addresses) if isinstance(addresses, Iterable) else [addresses]
    for each in found:
        if not isinstance(each, str):
            raise BadValue(f"an address is a text, 'HOST:PORT', not {each!r}")
    return [each.strip() for each in found]


def checked_seconds(what: str, given: Any) -> float:
    """A time to wait: more than none, and an end to it."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise BadValue(f"{what} is a number of seconds, not {given!r}")
    if not 0 < given < math.inf:
        raise BadValue(f"{what} is {given:g}: it must be a number of seconds above 0")
    return given


def checked_operation_name(name: Any, known: Callable[[], Sequence[str]]) -> str:
    """The operation that is called, which may be any text: a replica knows whether it is there."""
    if isinstance(name, str) and name:
        return name
    what = f"not {name!r}" if name != "" else "and there is none"
    raise BadValue(f"the name of an operation comes first, {what}: {operations_hint(known())}")


def operations_hint(known: Sequence[str]) -> str:
    """Which operations there are."""
    return f"operations are {', '.join(known) or 'known once it is connected'}"


def call_id(call: Any) -> Dot:
    """The identifier of a call, which may be given in its place: as it is, as the pair of numbers
    that JSON makes of it, or as a text such as '0.17'."""
    id = call_id_or_none(call)
    if id is None:
        raise BadValue("a call can only come after one that was issued: wait for its answer first")
    return id


def call_id_or_none(call: Any) -> Dot | None:
    """The same; None of a call that was not issued yet."""
    match call:
        case Dot():
            return call
        case [int(replica), int(event)]:
            return Dot(replica, event)
        case str() if (found := _DOT_PATTERN.fullmatch(call)) is not None:
            return Dot(int(found[1]), int(found[2]))
    if hasattr(call, "id") and (call.id is None or isinstance(call.id, Dot)):
        id: Dot | None = call.id
        return id
    what = f"{type(call).__name__} {call!r}"
    taken = f"'after' takes calls, or what their 'id' is: not {what}"
    raise BadValue(f"{taken}; {call_by_name_hint('after')}")


def call_by_name_hint(name: str) -> str:
    """Some operation may be called as something is here."""
    return f"an operation of that name is called as db.weak('{name}', …)"


def keyword_arguments_error(operation: str, named: dict[str, Any]) -> NotDone:
    """Arguments travel in their order alone."""
    names = ", ".join(f"{name}=…" for name in named)
    message = f"{operation}: arguments are given in their order, without names, not as {names}"
    return NotDone("bad_arguments", message)
