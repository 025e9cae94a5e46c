"""A number that stands for a state: replicas whose states differ have, in all likelihood, others.

It is the sum, over all registers, of a hash of key and value. So the order in which registers were
written does not matter, and a write changes it by two hashes, however large the state is. What a
data type begins with counts nothing: a register counts by how it differs from that.
"""

from hashlib import blake2s
from typing import Any, Final

import msgspec

from creek.execution.transaction import ABSENT
from creek.protocol.values import Key

MASK: Final = 2**64 - 1

_encode = msgspec.msgpack.Encoder().encode


class StateDigest:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def replace(self, key: Key, old: Any, new: Any) -> None:
        """A register holds another value than before; `ABSENT`: none."""
        self.value = (self.value + _hash(key, new) - _hash(key, old)) & MASK


def _hash(key: Key, value: Any) -> int:
    if value is ABSENT:
        return 0
    return int.from_bytes(blake2s(_encode((key, value)), digest_size=8).digest(), "big")
