"""SQL values as components of register keys, in the order of SQLite.

A key consists of integers and strings (`creekdb.execution.keys`). SQLite orders NULL before
numbers, numbers before texts and texts before blobs. Integers and reals are compared by value.
Three codecs preserve that order, with one component per value:

- `INTEGER` for columns that hold integers only: the integer itself.
- `TEXT` for columns of TEXT affinity, which never hold numbers: the text itself. NULL is the
  integer 0, and a blob starts with the last code point.
- `GENERAL` for all other columns: a string with a prefix for the type. A number is encoded as the
  nearest double and the difference from it, so that 1 and 1.0 are one key.

Two values that are equal under the collation of the column have the same component.
"""

import enum
import math
import struct
from typing import Any, Final, TypeAlias

SqlValue: TypeAlias = int | float | str | bytes | None
Component: TypeAlias = int | str

_LAST: Final = "\U0010ffff"
_SIGN: Final = 1 << 63
_pack_double: Final = struct.Struct(">d").pack
_unpack_bits: Final = struct.Struct(">Q").unpack
_unpack_double: Final = struct.Struct(">d").unpack
_RESIDUAL_OFFSET: Final = 0x8000
_FOLD: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


class Codec(enum.Enum):
    """Encoding of the values of one column."""

    INTEGER = "integer"
    TEXT = "text"
    GENERAL = "general"


class Unencodable(Exception):
    """Value that a column with this codec cannot hold."""


def encode(value: SqlValue, codec: Codec, collation: str) -> Component:
    """Return the key component of `value`. Raise `Unencodable` if the column cannot hold it."""
    if codec is Codec.INTEGER:
        if type(value) is int:
            return value
        raise Unencodable
    if type(value) is str:
        text = value if collation == "BINARY" else collate(value, collation)
        if codec is Codec.GENERAL:
            return "2" + text
        return f"{_LAST}0{text}" if text.startswith(_LAST) else text
    if codec is Codec.TEXT:
        if value is None:
            return 0
        if type(value) is bytes:
            return f"{_LAST}1{value.hex()}"
        raise Unencodable
    if value is None:
        return "0"
    if type(value) is bytes:
        return "3" + value.hex()
    return _encode_number(value)


def decode(component: Component, codec: Codec) -> SqlValue:
    """Return the value that `encode` gave this component, under the collation BINARY.

    An integral number is an integer, since 1 and 1.0 have the same component.
    """
    if codec is Codec.INTEGER:
        return component
    if codec is Codec.TEXT:
        if type(component) is int:
            return None
        text = str(component)
        if not text.startswith(_LAST):
            return text
        return bytes.fromhex(text[2:]) if text[1] == "1" else text[2:]
    kind, text = str(component)[:1], str(component)[1:]
    if kind == "2":
        return text
    if kind == "3":
        return bytes.fromhex(text)
    return _decode_number(text) if kind == "1" else None


def _decode_number(text: str) -> int | float:
    ordered = int(text[:16], 16)
    bits = ordered ^ _SIGN if ordered & _SIGN else ordered ^ (2 * _SIGN - 1)
    (nearest,) = _unpack_double(bits.to_bytes(8))
    if not nearest.is_integer():
        return float(nearest)
    number = int(nearest) + int(text[16:], 16) - _RESIDUAL_OFFSET
    return number if -_SIGN <= number < _SIGN else float(nearest)


def collate(text: str, collation: str) -> str:
    """Return a text that is equal for texts that are equal under the collation."""
    if collation == "NOCASE":
        folded = text.translate(_FOLD)
        if "\0" not in folded:
            return folded
        # SQLite compares as far as NUL, and then the numbers of bytes.
        return f"{folded.partition(chr(0))[0]}\0{len(text.encode()):09d}"
    return text.rstrip(" ") if collation == "RTRIM" else text


def _encode_number(value: Any) -> str:
    nearest = float(value) + 0.0  # -0.0 becomes 0.0
    (bits,) = _unpack_bits(_pack_double(nearest))
    ordered = bits ^ _SIGN if not bits & _SIGN else bits ^ (2 * _SIGN - 1)
    residual = value - int(nearest) if type(value) is int else 0
    return f"1{ordered:016x}{residual + _RESIDUAL_OFFSET:04x}"


def integer_bounds(low: SqlValue, high: SqlValue) -> tuple[int | None, int | None]:
    """Return the least and greatest integers between two bounds, None where unbounded.

    A bound that is not a number does not restrict the range.
    """
    return _integer_bound(low, math.ceil), _integer_bound(high, math.floor)


def _integer_bound(bound: SqlValue, rounded: Any) -> int | None:
    if type(bound) is int:
        return bound
    if type(bound) is float and abs(bound) < 2.0**62:
        return int(rounded(bound))
    return None
