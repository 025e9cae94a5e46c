"""A number that stands for a state: replicas whose states differ have, in all likelihood, others.

It is the sum, over all registers, of a hash of key and value. So the order in which registers were
written does not matter, and a write changes it by two hashes, however large the state is. What a
data type begins with counts nothing: a register counts by how it differs from that.

The hash finds mistakes, not malice, and must be cheap: it is made of a checksum. Checksums of equal
length add up alike when values change places; so each is multiplied with itself first.
"""

from typing import Any, Final
from zlib import crc32

import msgspec

from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key

MASK: Final = 2**64 - 1
_ODD: Final = 0x9E3779B97F4A7C15

_encode: Final = msgspec.msgpack.Encoder().encode


class StateDigest:
    """A checksum c counts c (c + odd)."""

    __slots__ = ("_squares", "_sum")

    def __init__(self) -> None:
        self._sum = 0
        """Of the checksums."""
        self._squares = 0

    @property
    def value(self) -> int:
        return (self._squares + self._sum * _ODD) & MASK

    @value.setter
    def value(self, value: int) -> None:
        self._sum, self._squares = 0, value

    def replace(self, key: Key, old: Any, new: Any) -> None:
        """A register holds another value than before; `ABSENT`: none."""
        now, before = _checksum(key, new), _checksum(key, old)
        self._sum += now - before
        self._squares += (now - before) * (now + before)  # one product, not two


def _checksum(key: Key, value: Any) -> int:
    return 0 if value is ABSENT else crc32(_encode((key, value)))
