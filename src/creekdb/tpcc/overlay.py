"""State that consists of initial data and the registers that differ from it.

Implements `creekdb.execution.transaction.View`. The state is writable, so it can also execute
transactions one after another on a population.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sortedcontainers import SortedKeyList

from creekdb.execution.base_state import BaseState
from creekdb.execution.datatype import DataType
from creekdb.execution.keys import CollationKey, collation_key, merge_sorted_keys
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key


class OverlayState:
    def __init__(self, base: BaseState, overrides: Mapping[Key, Any] | None = None) -> None:
        """`ABSENT` in `overrides` marks a deleted register."""
        self.base = base
        self.overrides: dict[Key, Any] = dict(overrides or {})
        self._sorted: SortedKeyList[Key, CollationKey] | None = None

    def read(self, key: Key) -> Any:
        return self.overrides[key] if key in self.overrides else self.base.read(key)

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        return self.read(key)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        written = self._sorted_keys().irange_key(start, stop, (True, False), reverse)
        for key in merge_sorted_keys(iter(written), self.base.keys(start, stop, reverse), reverse):
            if self.overrides.get(key) is not ABSENT:
                yield key

    def is_addable(self, key: Key) -> bool:
        return False

    def apply(self, datatype: DataType, request: Request) -> Outcome:
        """Execute a request on this state and apply its writes."""
        execution = datatype.run(request, self)
        for key, value in execution.writes.items():
            self.write(key, value)
        return execution.outcome

    def write(self, key: Key, value: Any) -> None:
        if self._sorted is not None and key not in self.overrides:
            self._sorted.add(key)
        self.overrides[key] = value

    def _sorted_keys(self) -> "SortedKeyList[Key, CollationKey]":
        """Return the overridden keys in order. Sorts on first use: transactions do not scan."""
        if self._sorted is None:
            self._sorted = SortedKeyList(self.overrides, key=collation_key)
        return self._sorted
