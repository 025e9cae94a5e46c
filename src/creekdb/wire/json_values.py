"""Values as JSON, over HTTP and in tables.

None, booleans, numbers, strings and arrays are encoded as themselves; a tuple becomes an array.
Bytes become {"$bytes": "…"} in base64. A dict becomes an object. A dict whose only key is `$bytes`
or `$dict` is wrapped as {"$dict": {…}}, so that the encoding is unambiguous.

JSON numbers have any number of digits, but some readers, such as JavaScript, read them as floats.
For such readers, `tag_integers` encodes an integer beyond 53 bits as {"$integer": "…"}.
"""

import base64
import binascii
import re
from typing import Any, Final

from creekdb.errors import BadValue

BYTES_KEY: Final = "$bytes"
DICT_KEY: Final = "$dict"
INTEGER_KEY: Final = "$integer"
FLOAT_INTEGER_MAX: Final = 2**53 - 1
"""Largest integer that no other integer is rounded to, if readers have only floats."""
_INTEGER: Final = re.compile("-?[0-9]{1,19}")


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


def tag_integers(value: Any) -> Any:
    """Return a JSON value with {"$integer": "…"} for each integer that a float would round.

    An object of the value must not have `$integer` as its only key.
    """
    kind = type(value)
    if kind is int:
        is_exact = -FLOAT_INTEGER_MAX <= value <= FLOAT_INTEGER_MAX
        return value if is_exact else {INTEGER_KEY: str(value)}
    if kind is list:
        return [tag_integers(each) for each in value]
    if kind is dict:
        return {key: tag_integers(each) for key, each in value.items()}
    return value


def untag_integer(value: Any) -> Any:
    """Return the integer of {"$integer": "…"}, or any other value as it is. Raise `BadValue`."""
    if type(value) is not dict or set(value) != {INTEGER_KEY}:
        return value
    digits = value[INTEGER_KEY]
    if type(digits) is not str or not _INTEGER.fullmatch(digits):
        raise BadValue(f"'{INTEGER_KEY}' must contain the digits of an integer, as a string")
    return int(digits)


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
