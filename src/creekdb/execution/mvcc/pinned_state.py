"""Pinned state: the stable registers of one moment, readable by key range and any number of times.

Like a `CheckpointCursor`, it preserves the previous value of each register that changes. Reading a
range merges the keys that exist now with those that were preserved.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from creekdb.execution.keys import CollationKey, SortedKeys, merge_sorted_keys
from creekdb.execution.mvcc.register_table import CheckpointCursor, KeyList, RegisterTable
from creekdb.execution.mvcc.version_chain import FROM_BASE, stable_part
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key

SAMPLES_PER_SPLIT = 32
"""Number of keys that are sampled for each split key."""


class PinnedState(CheckpointCursor):
    """Stable registers of a table at one moment, until `close`."""

    def __init__(self, table: RegisterTable, key_list: KeyList) -> None:
        super().__init__(table.registers, key_list, table.base, False)
        self._table = table
        self._preserved_keys = SortedKeys()
        self._sorted_count = 0

    @property
    def is_lost(self) -> bool:
        """True if the state was closed, or replaced by the snapshot of another replica."""
        return self.is_closed or self._table.registers is not self._registers

    def items(self, start: CollationKey, stop: CollationKey) -> Iterator[tuple[Key, Any]]:
        """Yield the registers from `start` up to `stop`, in key order.

        The iterator is valid until the next input of the replica.
        """
        assert not self.is_lost
        for key in islice(self.preserved, self._sorted_count, None):
            self._preserved_keys.add(key)
        self._sorted_count = len(self.preserved)
        current = self._table.known_keys(start, stop, False)
        preserved = self._preserved_keys.between(start, stop, False)
        for key in merge_sorted_keys(current, preserved, False):
            value = self.preserved.get(key, ABSENT)
            if key not in self.preserved:
                value = stable_part(self._registers.get(key, FROM_BASE))
            if value is FROM_BASE:
                value = self._base.read(key)
            if value is not ABSENT:
                yield key, value

    def sample_keys(self, count: int) -> list[Key]:
        """Return about `count` keys, spread over the list of keys."""
        keys = self._listed_keys
        return keys[:: max(1, len(keys) // max(1, count))]
