"""A number that stands for a state: replicas whose states differ have, in all likelihood, others.

It is the sum, over all registers, of a hash of key and value. So the order in which registers were
written does not matter, and a write changes it by two hashes, however large the state is. What a
data type begins with counts nothing: a register counts by how it differs from that.

The hash finds mistakes, not malice, and must be cheap: it is made of a checksum. Checksums of equal
length add up alike when values change places; so each is multiplied with itself first.

Registers that are to be a state, taken in a few at a time.

Whatever is to be known of each one is found out as it comes: once all are there they are put in
place together, at no cost, however many they are. What was in that place before is left here, to be
given up a few at a time as well: to forget much at once takes long, too.
"""

from collections.abc import Sequence
from typing import Any, Final
from zlib import crc32

import msgspec

from creekdb.execution.base_state import BaseState
from creekdb.execution.keys import SortedKeys
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key

MASK: Final = 2**64 - 1
_ODD_FACTOR: Final = 0x9E3779B97F4A7C15

_encode: Final = msgspec.msgpack.Encoder().encode


class StateDigest:
    """A checksum c counts c (c + odd)."""

    __slots__ = ("_square_sum", "_sum")

    def __init__(self) -> None:
        self._sum = 0
        """Of the checksums."""
        self._square_sum = 0

    @property
    def value(self) -> int:
        return (self._square_sum + self._sum * _ODD_FACTOR) & MASK

    @value.setter
    def value(self, value: int) -> None:
        self._sum, self._square_sum = 0, value

    def replace(self, key: Key, old: Any, new: Any) -> None:
        """A register holds another value than before; `ABSENT`: none."""
        now, before = _checksum(key, new), _checksum(key, old)
        self._sum += now - before
        self._square_sum += (now - before) * (now + before)  # one product, not two


def _checksum(key: Key, value: Any) -> int:
    return 0 if value is ABSENT else crc32(_encode((key, value)))


class StateLoader:
    """`base` is what lies below them. `digested`: is a digest of them asked for? `ordered`: will
    somebody ask for them in order?"""

    __slots__ = ("_base", "_count", "digest", "keys", "registers", "sorted_keys")

    def __init__(self, base: BaseState, digested: bool, ordered: bool = False) -> None:
        self._base = base
        self._count = 0
        self.registers: dict[Key, Any] = {}
        """By register; `ABSENT` where one of the base was deleted."""
        self.keys: list[Key] = []
        self.sorted_keys = SortedKeys() if ordered else None
        self.digest = StateDigest() if digested else None

    def add(self, held: Sequence[tuple[Key, Any]], deleted: Sequence[Key]) -> None:
        self._count += len(held) + len(deleted)
        before = len(self.keys)
        self.registers.update(held)
        self.keys += [key for key, _ in held]
        if deleted:
            self.registers.update(dict.fromkeys(deleted, ABSENT))
            self.keys += deleted
        if self.sorted_keys is not None:
            for key in self.keys[before:]:
                self.sorted_keys.add(key)
        digest, base = self.digest, self._base
        if digest is not None:
            for key, value in held:
                digest.replace(key, base.read(key), value)
            for key in deleted:
                digest.replace(key, base.read(key), ABSENT)

    def has_unique_keys(self) -> bool:
        """Was no register taken in twice?"""
        return len(self.registers) == self._count

    def adopt_replaced(
        self, held: dict[Key, Any], keys: list[Key], in_order: SortedKeys | None
    ) -> None:
        """These were taken over from here, and replaced those."""
        self.registers, self.keys, self.sorted_keys = held, keys, in_order
        self._count = len(held)

    def discard(self, most: int) -> bool:
        """Forget at most so many of what is here; False when there is nothing any more."""
        held, keys = self.registers, self.keys
        del keys[max(0, len(keys) - most) :]
        for _ in range(min(most, len(held))):
            held.popitem()
        if self.sorted_keys is not None and not self.sorted_keys.discard(most):
            self.sorted_keys = None
        return bool(held or keys or self.sorted_keys is not None)
