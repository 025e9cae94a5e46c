"""Algorithm 2: the registers of one replica, with an undo log of every uncommitted operation.

Rules:
- Requests are rolled back newest first.
- A register that was absent before a request is absent after its rollback.
- The undo log holds only requests that may still be rolled back (Section 4.2); `truncate` removes
  the others.

The state object does not depend on the reason for an execution or a rollback.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from sortedcontainers import SortedKeyList

from creekdb.execution.datatype import DataType
from creekdb.execution.keys import CollationKey, collation_key, merge_sorted_keys
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT, RangeScan
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key


class StateObject:
    """The paper's `StateObject`.

    `execute` is split into `run`, which only reads and may take long, and `install`, which applies
    the writes of `run`.
    """

    __slots__ = ("_base", "_index", "datatype", "db", "undo_log")

    def __init__(self, datatype: DataType, state: Mapping[Key, Any] | None = None) -> None:
        self.datatype = datatype
        self._base = datatype.base
        # Line 1: the difference from the data type's base, with `ABSENT` for deleted registers.
        self.db: dict[Key, Any] = {}
        # Line 2: undo maps by request identifier, oldest first. An OrderedDict finds its first
        # entry at once; a plain dict takes ever longer after repeated deletions at its front.
        self.undo_log: OrderedDict[Dot, dict[Key, Any]] = OrderedDict()
        self._index: SortedKeyList[Key, CollationKey] = SortedKeyList(key=collation_key)
        self.load(state or {})

    def execute(self, request: Request) -> Outcome:
        """Lines 3-14."""
        execution = self.run(request)
        self.install(request, execution)
        return execution.outcome

    def run(self, request: Request) -> ExecutionResult:
        """Lines 4-8 and 12: run the operation against `db` without changing it."""
        return self.datatype.run(request, self)

    def install(self, request: Request, execution: ExecutionResult) -> None:
        """Lines 9-11 and 13: apply an `execution` that `run` returned for the current state."""
        assert request.id not in self.undo_log, f"{request.id} has already been executed"
        undo_map: dict[Key, Any] = {}
        for key, value in execution.writes.items():
            undo_map[key] = self.read(key)  # lines 9-10: `writes` holds each key once
            self._write(key, value)  # line 11
        self.undo_log[request.id] = undo_map  # line 13

    def rollback(self, request: Request) -> None:
        """Lines 15-19. Only the newest request can be rolled back."""
        assert self.undo_log, f"{request.id} cannot be rolled back: the undo log is empty"
        newest = next(reversed(self.undo_log))
        assert newest == request.id, f"rolling back {request.id}, but {newest} is newer"
        _, undo_map = self.undo_log.popitem()  # lines 16 and 19
        for key, value in undo_map.items():  # lines 17-18
            self._write(key, value)

    def truncate(self, request: Request) -> None:
        """Drop the undo map of `request`, the oldest in the log, committed at its position."""
        assert self.undo_log, f"{request.id} cannot be truncated: the undo log is empty"
        oldest = next(iter(self.undo_log))
        assert oldest == request.id, f"truncating {request.id}, but {oldest} is older"
        self.undo_log.popitem(last=False)

    def committed_state(self) -> dict[Key, Any]:
        """Return `db` with every request of the undo log rolled back."""
        state = dict(self.db)
        for undo_map in reversed(self.undo_log.values()):
            for key, value in undo_map.items():
                if self._is_base_value(key, value):
                    state.pop(key, None)
                else:
                    state[key] = value
        return state

    def load(self, state: Mapping[Key, Any]) -> None:
        """Replace the registers with `state`, and clear the undo log."""
        self.db = dict(state)
        self.undo_log.clear()
        self._index = SortedKeyList(self.db, key=collation_key)

    def items(self) -> Iterator[tuple[Key, Any]]:
        """Yield the written registers in the order of their keys."""
        for key in self._index:
            yield key, self.db[key]

    def read(self, key: Key) -> Any:
        """Lines 6-7, with `ABSENT` for ⊥."""
        db = self.db
        return db[key] if key in db else self._base.read(key)

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        return self.read(key)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        written = self._index.irange_key(start, stop, inclusive=(True, False), reverse=reverse)
        for key in merge_sorted_keys(written, self._base.keys(start, stop, reverse), reverse):
            if self.db.get(key) is not ABSENT:
                yield key

    def pick_range(
        self, scan: RangeScan, items: tuple[int | str, ...], limit: int
    ) -> list[tuple[Key, Any]]:
        keys = islice(self.keys(scan.start, scan.stop, scan.reverse), limit)
        return [(key, self.read(key)) for key in keys]

    def is_addable(self, key: Key) -> bool:
        return False

    def _is_base_value(self, key: Key, value: Any) -> bool:
        """True if the base holds `value`, so that `db` need not store it."""
        return value is self._base.read(key)

    def _write(self, key: Key, value: Any) -> None:
        if self._is_base_value(key, value):
            if key in self.db:
                del self.db[key]
                self._index.remove(key)
        else:
            if key not in self.db:
                self._index.add(key)
            self.db[key] = value
