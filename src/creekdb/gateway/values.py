"""Values as JSON.

None, booleans, numbers, strings and arrays are what they are; a tuple is an array, as everywhere in
Creek. Bytes are {"$bytes": "…"} in base64. A dict is an object; one whose only key is `$bytes` or
`$dict` is wrapped, as {"$dict": {…}}, so that nothing is ever taken for something else.
"""

import base64
import binascii
from typing import Any, Final

from creekdb.errors import BadValue

BYTES: Final = "$bytes"
DICT: Final = "$dict"


def to_json(value: Any) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        return [to_json(each) for each in value]
    if kind is dict:
        encoded = {key: to_json(each) for key, each in value.items()}
        return {DICT: encoded} if _is_wrapped(value) else encoded
    if kind is bytes:
        return {BYTES: base64.b64encode(value).decode("ascii")}
    return value


def from_json(value: Any) -> Any:
    """Raises `BadValue` where a wrapping holds something else than it says."""
    kind = type(value)
    if kind is list:
        return tuple([from_json(each) for each in value])
    if kind is dict:
        if _is_wrapped(value):
            return _unwrapped(value)
        return {key: from_json(each) for key, each in value.items()}
    return value


def _is_wrapped(value: dict[str, Any]) -> bool:
    return len(value) == 1 and (BYTES in value or DICT in value)


def _unwrapped(value: dict[str, Any]) -> Any:
    if DICT in value:
        inside = value[DICT]
        if type(inside) is not dict:
            raise BadValue(f"'{DICT}' holds no object")
        return {key: from_json(each) for key, each in inside.items()}
    try:
        return base64.b64decode(value[BYTES], validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise BadValue(f"'{BYTES}' holds no base64") from error
