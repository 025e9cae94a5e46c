"""Values as JSON, over HTTP and in tables.

None, booleans, numbers, strings and arrays are encoded as themselves; a tuple becomes an array.
Bytes become {"$bytes": "…"} in base64. A dict becomes an object. A dict whose only key is `$bytes`
or `$dict` is wrapped as {"$dict": {…}}, so that the encoding is unambiguous.
"""

import base64
import binascii
from typing import Any, Final

from creekdb.errors import BadValue

BYTES_KEY: Final = "$bytes"
DICT_KEY: Final = "$dict"


def to_json(value: Any) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        return [to_json(each) for each in value]
    if kind is dict:
        encoded = {key: to_json(each) for key, each in value.items()}
        return {DICT_KEY: encoded} if _is_wrapped(value) else encoded
    if kind is bytes:
        return {BYTES_KEY: base64.b64encode(value).decode("ascii")}
    return value


def from_json(value: Any) -> Any:
    """Decode a JSON value. Raises `BadValue` if the content of a wrapper has the wrong type."""
    kind = type(value)
    if kind is list:
        return tuple([from_json(each) for each in value])
    if kind is dict:
        if _is_wrapped(value):
            return _unwrap(value)
        return {key: from_json(each) for key, each in value.items()}
    return value


def _is_wrapped(value: dict[str, Any]) -> bool:
    return len(value) == 1 and (BYTES_KEY in value or DICT_KEY in value)


def _unwrap(value: dict[str, Any]) -> Any:
    if DICT_KEY in value:
        content = value[DICT_KEY]
        if type(content) is not dict:
            raise BadValue(f"'{DICT_KEY}' must contain an object")
        return {key: from_json(each) for key, each in content.items()}
    try:
        return base64.b64decode(value[BYTES_KEY], validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise BadValue(f"'{BYTES_KEY}' must contain base64") from error
