"""Sequential execution of a data type: one request after another on a plain dict.

This is the reference for all other implementations. It is written to be obviously correct and
shares nothing with the stores of the replicas: no undo, no index, no versions.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from creekdb.execution.base_state import changes
from creekdb.execution.keys import CollationKey, collation_key
from creekdb.execution.transaction import ABSENT, RangeScan
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key

if TYPE_CHECKING:
    from creekdb.execution.datatype import DataType


class OperationRaised(Exception):
    """Error response of an operation, raised to a direct caller."""


class Sequential:
    """Machine that `datatype.sequential()` returns: a state and its operations, one at a time."""

    def __init__(self, datatype: "DataType") -> None:
        self.datatype = datatype
        self.state: dict[Key, Any] = {}
        """Written registers, without the initial data of the data type."""
        self._calls = 0

    def apply(self, request: Request) -> Outcome:
        """Execute a request and return its outcome, which may be an error."""
        execution = self.datatype.run(request, self)
        for key, value in execution.writes.items():
            if value is ABSENT and self.datatype.base.read(key) is ABSENT:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        return execution.outcome

    def call(self, name: str, *arguments: Any) -> Any:
        """Execute a new request, for examples. Return its value or raise `OperationRaised`."""
        operation = self.datatype.call(name, *arguments)
        self._calls += 1
        outcome = self.apply(Request(self._calls, Dot(0, self._calls), operation, strong=False))
        if outcome.error is not None:
            raise OperationRaised(outcome.error)
        return outcome.value

    def changes(self) -> dict[Key, Any]:
        """Return the registers that differ from the initial data of the data type."""
        return changes(self.state.items(), self.datatype.base)

    def read(self, key: Key) -> Any:
        return self.state[key] if key in self.state else self.datatype.base.read(key)

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        return self.read(key)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        keys = {key for key in self.state if start <= collation_key(key) < stop}
        keys.update(self.datatype.base.keys(start, stop, False))
        present = [key for key in keys if self.read(key) is not ABSENT]
        return iter(sorted(present, key=collation_key, reverse=reverse))

    def pick_range(
        self, scan: RangeScan, items: tuple[int | str, ...], limit: int
    ) -> list[tuple[Key, Any]]:
        keys = islice(self.keys(scan.start, scan.stop, scan.reverse), limit)
        return [(key, self.read(key)) for key in keys]

    def is_addable(self, key: Key) -> bool:
        return False
