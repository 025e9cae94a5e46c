"""Loading of a state in small batches, and its digest.

`StateLoader` derives all data about a register when it is added. Once all registers are loaded, the
state is installed in constant time, however large it is. The loader then receives the replaced
state and releases it in small batches, because freeing a large state at once takes long.

`StateDigest` is a number that, in all likelihood, differs between replicas with different states.
It is the sum of a hash of key and value over all registers. The order of writes does not matter,
and a write changes it by two hashes, however large the state is. The initial data of a data type
counts nothing: a register counts by its difference from the initial data.

The hash detects faults, not malice, and must be cheap, so it is based on a checksum. The sum of
checksums of equal length does not change when two values are swapped. Each is therefore squared.
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
_crc32: Final = crc32
"""A constant costs compiled code less than an imported name."""
_PAIR_CHECKSUM: Final = crc32(b"\x92")
"""Checksum of the first byte of an encoded pair. The bytes of its two items follow."""


class StateDigest:
    """Digest of a state. A checksum c of the encoded pair (key, value) contributes c (c + odd).

    Compiled code multiplies small integers inline, and allocates the product of larger ones. So the
    square of a checksum h 2**16 + l is computed as h² 2**32 + h l 2**17 + l².
    """

    __slots__ = ("_cross_sum", "_high_sum", "_initial", "_low_sum", "_sum")

    def __init__(self) -> None:
        self._initial = 0
        """Digest before the changes that the sums count."""
        self._sum = 0
        """Sum of the checksums."""
        self._high_sum = 0
        """Sum of h² of the checksums."""
        self._cross_sum = 0
        """Sum of h l."""
        self._low_sum = 0
        """Sum of l²."""

    @property
    def value(self) -> int:
        squares = (self._high_sum << 32) + (self._cross_sum << 17) + self._low_sum
        return (self._initial + squares + self._sum * _ODD_FACTOR) & MASK

    @value.setter
    def value(self, value: int) -> None:
        self._initial = value
        self._sum = self._high_sum = self._cross_sum = self._low_sum = 0

    def replace(self, key: Key, old: Any, new: Any) -> None:
        """Replace the value of a register; `ABSENT` stands for no value."""
        key_checksum = _crc32(_encode(key), _PAIR_CHECKSUM)
        if new is not ABSENT:
            checksum: int = _crc32(_encode(new), key_checksum)
            high, low = checksum >> 16, checksum & 0xFFFF
            self._sum += checksum
            self._high_sum += high * high
            self._cross_sum += high * low
            self._low_sum += low * low
        if old is not ABSENT:
            checksum = _crc32(_encode(old), key_checksum)
            high, low = checksum >> 16, checksum & 0xFFFF
            self._sum -= checksum
            self._high_sum -= high * high
            self._cross_sum -= high * low
            self._low_sum -= low * low


class StateLoader:
    """State that is loaded from batches of registers above `base`.

    `with_digest` requests a digest, `with_order` the keys in order.
    """

    def __init__(self, base: BaseState, with_digest: bool, with_order: bool = False) -> None:
        self._base = base
        self._count = 0
        self.registers: dict[Key, Any] = {}
        """Values by register, `ABSENT` for a deleted register of the base."""
        self.keys: list[Key] = []
        self.sorted_keys = SortedKeys() if with_order else None
        self.digest = StateDigest() if with_digest else None

    def add(self, items: Sequence[tuple[Key, Any]], deleted: Sequence[Key]) -> None:
        self._count += len(items) + len(deleted)
        old_count = len(self.keys)
        self.registers.update(items)
        self.keys += [key for key, _ in items]
        if deleted:
            self.registers.update(dict.fromkeys(deleted, ABSENT))
            self.keys += deleted
        if self.sorted_keys is not None:
            for key in self.keys[old_count:]:
                self.sorted_keys.add(key)
        digest, base = self.digest, self._base
        if digest is not None:
            for key, value in items:
                digest.replace(key, base.read(key), value)
            for key in deleted:
                digest.replace(key, base.read(key), ABSENT)

    def has_unique_keys(self) -> bool:
        """True if no register was added twice."""
        return len(self.registers) == self._count

    def adopt_replaced(
        self, registers: dict[Key, Any], keys: list[Key], sorted_keys: SortedKeys | None
    ) -> None:
        """Take over the state that the loaded state replaced, to be discarded."""
        self.registers, self.keys, self.sorted_keys = registers, keys, sorted_keys
        self._count = len(registers)

    def discard(self, count: int) -> bool:
        """Release at most `count` registers. Return False once none are left."""
        registers, keys = self.registers, self.keys
        del keys[max(0, len(keys) - count) :]
        for _ in range(min(count, len(registers))):
            registers.popitem()
        if self.sorted_keys is not None and not self.sorted_keys.discard(count):
            self.sorted_keys = None
        return bool(registers or keys or self.sorted_keys is not None)
