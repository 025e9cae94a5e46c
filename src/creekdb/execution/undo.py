"""Algorithm 2: the registers of one replica, with a log to undo any operation not yet committed.

Rules: requests are rolled back newest first; a register that was absent before a request is absent
after its rollback; the log holds only what may still be rolled back (Section 4.2), once `truncate`
was told of the rest. Must not know why a request is executed or rolled back.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from sortedcontainers import SortedKeyList

from creekdb.execution.base_state import merge_sorted_keys
from creekdb.execution.datatype import DataType
from creekdb.execution.keys import CollationKey, collation_key
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key

__all__ = ["ABSENT", "StateObject"]


class StateObject:
    """`StateObject`. `execute` is split in two: `run`, which only reads and may take its time, and
    `install`, which writes what `run` found."""

    __slots__ = ("_base", "_index", "datatype", "db", "undo_log")

    def __init__(self, datatype: DataType, state: Mapping[Key, Any] | None = None) -> None:
        self.datatype = datatype
        self._base = datatype.base
        # Line 1: what differs from the data type's base, with `ABSENT` for what was deleted there.
        self.db: dict[Key, Any] = {}
        # Line 2. Keyed by the requests' identifiers, oldest first: an OrderedDict, because a plain
        # dict whose front is deleted again and again takes ever longer to find its first entry.
        self.undo_log: OrderedDict[Dot, dict[Key, Any]] = OrderedDict()
        self._index: SortedKeyList[Key, CollationKey] = SortedKeyList(key=collation_key)
        self.load(state or {})

    def execute(self, request: Request) -> Outcome:
        """Lines 3-14."""
        execution = self.run(request)
        self.install(request, execution)
        return execution.outcome

    def run(self, request: Request) -> ExecutionResult:
        """Lines 4-8 and 12: run the operation against `db`, and change nothing."""
        return self.datatype.run(request, self)

    def install(self, request: Request, execution: ExecutionResult) -> None:
        """Lines 9-11 and 13: `execution` comes from `run` on this very state."""
        assert request.id not in self.undo_log, f"{request.id} is executed already"
        undo_map: dict[Key, Any] = {}
        for key, value in execution.writes.items():
            undo_map[key] = self.read(key)  # lines 9-10: writes holds each key once
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
        """Forget how to undo `request`, the oldest in the log: it is committed and in its place."""
        assert self.undo_log, f"{request.id} cannot be forgotten: the undo log is empty"
        oldest = next(iter(self.undo_log))
        assert oldest == request.id, f"forgetting {request.id}, but {oldest} is older"
        self.undo_log.popitem(last=False)

    def committed_state(self) -> dict[Key, Any]:
        """`db` as it would be with every request of the undo log rolled back."""
        state = dict(self.db)
        for undo_map in reversed(self.undo_log.values()):
            for key, value in undo_map.items():
                if self._is_base_value(key, value):
                    state.pop(key, None)
                else:
                    state[key] = value
        return state

    def load(self, state: Mapping[Key, Any]) -> None:
        """Start anew from `state`: nothing of before can be undone."""
        self.db = dict(state)
        self.undo_log.clear()
        self._index = SortedKeyList(self.db, key=collation_key)

    def items(self) -> Iterator[tuple[Key, Any]]:
        """What was written, in the order of the keys."""
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

    def is_addable(self, key: Key) -> bool:
        return False

    def _is_base_value(self, key: Key, value: Any) -> bool:
        """Is there nothing to keep, because the data type begins with it?"""
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
