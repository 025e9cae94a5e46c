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

Registers that change are hashed together, when the digest is read. A register that changes several
times until then is hashed once.
"""

from collections.abc import Sequence
from operator import mul
from typing import Any, Final
from zlib import crc32

import msgspec

from creekdb.execution.base_state import BaseState
from creekdb.execution.keys import SortedKeys
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key

MASK: Final = 2**64 - 1
_ODD_FACTOR: Final = 0x9E3779B97F4A7C15

PENDING_MAX: Final = 256
"""Maximum number of changed registers that are not hashed. Their previous values stay in memory."""

_encode: Final = msgspec.msgpack.Encoder().encode


class StateDigest:
    """Digest of a state. A checksum c of the encoded pair (key, value) contributes c (c + odd)."""

    __slots__ = ("_current", "_replaced", "_square_sum", "_sum")

    def __init__(self) -> None:
        self._sum = 0
        """Sum of the checksums of the hashed registers."""
        self._square_sum = 0
        self._current: dict[Key, Any] = {}
        """Values of the registers that are not hashed yet."""
        self._replaced: dict[Key, Any] = {}
        """Values that the digest contains in their place."""

    @property
    def value(self) -> int:
        self._hash_pending()
        return (self._square_sum + self._sum * _ODD_FACTOR) & MASK

    @value.setter
    def value(self, value: int) -> None:
        self._sum, self._square_sum = 0, value
        self._current, self._replaced = {}, {}

    def replace(self, key: Key, old: Any, new: Any) -> None:
        """Replace the value of a register; `ABSENT` stands for no value."""
        current = self._current
        if key not in current:
            self._replaced[key] = old
        current[key] = new
        if len(current) == PENDING_MAX:
            self._hash_pending()

    def _hash_pending(self) -> None:
        added, removed = _checksums(self._current), _checksums(self._replaced)
        self._sum += sum(added) - sum(removed)
        self._square_sum += sum(map(mul, added, added)) - sum(map(mul, removed, removed))
        self._current, self._replaced = {}, {}


def _checksums(values: dict[Key, Any]) -> list[int]:
    """Return the checksums of the registers that have a value."""
    return [*map(crc32, map(_encode, [each for each in values.items() if each[1] is not ABSENT]))]


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
