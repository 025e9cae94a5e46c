"""The data type run alone: one request after another on a plain dict.

The reference that everything else is held against, so it is written to be obviously right and
shares nothing with the stores of the replicas: no undo, no index, no versions.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from creekdb.execution.base_state import changes
from creekdb.execution.keys import CollationKey, collation_key
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key

if TYPE_CHECKING:
    from creekdb.execution.datatype import DataType


class OperationRaised(Exception):
    """The error that was an operation's answer, for those who call it directly."""


class Sequential:
    """What `datatype.sequential()` gives: a state, and operations on it one after another."""

    def __init__(self, datatype: "DataType") -> None:
        self.datatype = datatype
        self.state: dict[Key, Any] = {}
        """What was written: what the data type begins with is not copied."""
        self._calls = 0

    def apply(self, request: Request) -> Outcome:
        """Carry out a request. An error is an outcome, too."""
        execution = self.datatype.run(request, self)
        for key, value in execution.writes.items():
            if value is ABSENT and self.datatype.base.read(key) is ABSENT:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        return execution.outcome

    def call(self, name: str, *arguments: Any) -> Any:
        """Apply a request made on the spot; its value, or `OperationRaised`. For examples."""
        operation = self.datatype.call(name, *arguments)
        self._calls += 1
        outcome = self.apply(Request(self._calls, Dot(0, self._calls), operation, strong=False))
        if outcome.error is not None:
            raise OperationRaised(outcome.error)
        return outcome.value

    def changes(self) -> dict[Key, Any]:
        """The registers that differ from what the data type begins with."""
        return changes(self.state.items(), self.datatype.base)

    def read(self, key: Key) -> Any:
        return self.state[key] if key in self.state else self.datatype.base.read(key)

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        return self.read(key)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        keys = {key for key in self.state if start <= collation_key(key) < stop}
        keys.update(self.datatype.base.keys(start, stop, False))
        inside = [key for key in keys if self.read(key) is not ABSENT]
        return iter(sorted(inside, key=collation_key, reverse=reverse))

    def is_addable(self, key: Key) -> bool:
        return False
