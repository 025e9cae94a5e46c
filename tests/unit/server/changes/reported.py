"""Reported changes, and a feed whose turns the test runs."""

from collections import deque
from collections.abc import Callable
from typing import Any

from creekdb.execution.transaction import ABSENT
from creekdb.protocol.effects import StableChange
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Operation, Outcome, Request
from creekdb.server.changes.feed import FeedPorts
from creekdb.wire.deduplication import wrap_call


def change_at(index: int, value: Any = None, key: Any = "a") -> StableChange:
    """Return the change of `put key value`, which a client called."""
    value = index if value is None else value
    operation = wrap_call("ann", index, Operation("put", (key, value)))
    request = Request(1_000 + index, Dot(0, index), operation, True)
    bookkeeping = ("creek.calls", "ann", index)
    return StableChange(index, request, Outcome(None), False, {key: value, bookkeeping: 0})


def deletion_at(index: int) -> StableChange:
    request = Request(index, Dot(1, index), Operation("delete", ("a",)), False)
    return StableChange(index, request, Outcome(True), None, {"a": ABSENT}, {"a": 7})


def noop_at(index: int) -> StableChange:
    return StableChange(index, Request(index, Dot(0, index), NOOP, True), Outcome(), None, {})


class ManualTurns:
    """Turns of an event loop, run by the test."""

    def __init__(self) -> None:
        self._due: deque[Callable[[], None]] = deque()
        self.delayed: list[Callable[[], None]] = []
        self.lines: list[str] = []

    def ports(self) -> FeedPorts:
        return FeedPorts(
            self._due.append, lambda _, callback: self.delayed.append(callback), self.lines.append
        )

    def run(self, turns: int = 1_000) -> int:
        """Run due callbacks. Return their number."""
        count = 0
        while self._due and count < turns:
            self._due.popleft()()
            count += 1
        return count

    def run_delayed(self) -> None:
        delayed, self.delayed = self.delayed, []
        for callback in delayed:
            callback()
        self.run()
