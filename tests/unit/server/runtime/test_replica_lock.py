"""Scans of a shared state, which read a few keys at a time."""

from collections.abc import Iterator
from typing import Any

import pytest

from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    CollationKey,
    collation_key,
)
from creekdb.execution.transaction import RangeScan
from creekdb.protocol.values import Key
from creekdb.server.runtime.replica_lock import LockedView, ReplicaLock


class SortedView:
    """View of a fixed set of keys, in the order of their collation."""

    def __init__(self, keys: list[Key]) -> None:
        self.sorted_keys = sorted(keys, key=collation_key)
        self.reads = 0

    def read(self, key: Key) -> Any:
        return key

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        return key

    def is_addable(self, key: Key) -> bool:
        return False

    def pick_range(
        self, scan: RangeScan, items: tuple[int | str, ...], limit: int
    ) -> list[tuple[Key, Any]]:
        keys = list(self.keys(scan.start, scan.stop, scan.reverse))
        return [(key, key) for key in keys[:limit]]

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        self.reads += 1
        found = [key for key in self.sorted_keys if start <= collation_key(key) < stop]
        yield from reversed(found) if reverse else found


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_in_batches_returns_each_key_once(count: int, reverse: bool) -> None:
    keys: list[Key] = [("item", number) for number in range(count)]
    lock, view = ReplicaLock(), SortedView([*keys, "a", 3])
    found = LockedView(view, lock).keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, reverse)

    expected = list(reversed(view.sorted_keys)) if reverse else view.sorted_keys
    assert list(found) == expected
    assert view.reads <= 2 + count, "batches grow"
    with lock:
        pass  # the scan has released it
