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
_PAIR_CHECKSUM: Final = crc32(b"\x92")
"""Checksum of the first byte of an encoded pair. The bytes of its two items follow."""


class StateDigest:
    """Digest of a state. A checksum c of the encoded pair (key, value) contributes c (c + odd)."""

    __slots__ = ("_square_sum", "_sum")

    def __init__(self) -> None:
        self._sum = 0
        """Sum of the checksums."""
        self._square_sum = 0

    @property
    def value(self) -> int:
        return (self._square_sum + self._sum * _ODD_FACTOR) & MASK

    @value.setter
    def value(self, value: int) -> None:
        self._sum, self._square_sum = 0, value

    def replace(self, key: Key, old: Any, new: Any) -> None:
        """Replace the value of a register; `ABSENT` stands for no value."""
        key_checksum = crc32(_encode(key), _PAIR_CHECKSUM)
        new_checksum = 0 if new is ABSENT else crc32(_encode(new), key_checksum)
        old_checksum = 0 if old is ABSENT else crc32(_encode(old), key_checksum)
        self._sum += new_checksum - old_checksum
        self._square_sum += (new_checksum - old_checksum) * (
            new_checksum + old_checksum
        )  # one product, not two


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
