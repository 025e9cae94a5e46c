"""Sequential execution of a data type: one request after another on a plain dict.

This is the reference for all other implementations. It is written to be obviously correct and
shares nothing with the stores of the replicas: no undo, no versions. Only scans sort the keys.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from sortedcontainers import SortedKeyList

from creekdb.execution.base_state import changes
from creekdb.execution.keys import CollationKey, collation_key, merge_sorted_keys
from creekdb.execution.operation_errors import split_error_text
from creekdb.execution.transaction import ABSENT, RangeScan, Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key

if TYPE_CHECKING:
    from creekdb.execution.datatype import DataType

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class OperationRaised(Exception):
    """Error response of an operation, raised to a direct caller.

    `error` is the name of the exception type, `message` its text. The exception itself, with its
    traceback, is the `__cause__`.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.error, self.message = split_error_text(text)


class Sequential:
    """Machine that `datatype.sequential()` returns: a state and its operations, one at a time."""

    def __init__(self, datatype: "DataType") -> None:
        self.datatype = datatype
        self._state: dict[Key, Any] = {}
        self._calls = 0
        self._sorted_keys: SortedKeyList[Key, Any] | None = None
        """Keys of the state in order, for scans. None if they must be sorted again."""

    @property
    def state(self) -> dict[Key, Any]:
        """Written registers, without the initial data of the data type. May be changed."""
        self._sorted_keys = None
        return self._state

    @state.setter
    def state(self, registers: dict[Key, Any]) -> None:
        self._sorted_keys = None
        self._state = registers

    def apply(self, request: Request) -> Outcome:
        """Execute a request and return its outcome, which may be an error."""
        execution = self.datatype.run(request, self)
        for key, value in execution.writes.items():
            if value is ABSENT and self.datatype.base.read(key) is ABSENT:
                self._remove(key)
            else:
                self._put(key, value)
        return execution.outcome

    @overload
    def call(
        self,
        operation: Callable[Concatenate[Transaction, _Parameters], _Result],
        /,
        *arguments: _Parameters.args,
        **named: _Parameters.kwargs,
    ) -> _Result: ...

    @overload
    def call(self, operation: str, /, *arguments: Any, **named: Any) -> Any: ...

    def call(self, operation: str | Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Execute a new request. Return its value or raise `OperationRaised`.

        `operation` is the name of an operation, or its function. A type checker verifies the
        arguments for a function.
        """
        name = self.datatype.name_of(operation)
        called = self.datatype.checked_call(name, *arguments, **named)
        self._calls += 1
        request = Request(self._calls, Dot(0, self._calls), called, strong=False)
        raised: list[BaseException] = []
        with self._observed_errors(raised):
            outcome = self.apply(request)
        if outcome.error is not None:
            raise OperationRaised(outcome.error) from (raised[0] if raised else None)
        return outcome.value

    @contextmanager
    def _observed_errors(self, raised: list[BaseException]) -> Iterator[None]:
        """Append the exceptions of operations to `raised`, with their tracebacks."""
        datatype, previous = self.datatype, self.datatype.error_observer
        datatype.error_observer = lambda _, error: raised.append(error)
        try:
            yield
        finally:
            datatype.error_observer = previous

    def changes(self) -> dict[Key, Any]:
        """Return the registers that differ from the initial data of the data type."""
        return changes(self._state.items(), self.datatype.base)

    def read(self, key: Key) -> Any:
        return self._state[key] if key in self._state else self.datatype.base.read(key)

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        return self.read(key)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        if self._sorted_keys is None:
            self._sorted_keys = SortedKeyList(self._state, key=collation_key)
        written = self._sorted_keys.irange_key(start, stop, (True, False), reverse)
        initial = self.datatype.base.keys(start, stop, reverse)
        keys = merge_sorted_keys(written, initial, reverse)
        return (key for key in keys if self.read(key) is not ABSENT)

    def pick_range(
        self, scan: RangeScan, items: tuple[int | str, ...], limit: int
    ) -> list[tuple[Key, Any]]:
        """Return the first registers of a scan, at most `limit`."""
        keys = islice(self.keys(scan.start, scan.stop, scan.reverse), limit)
        return [(key, self.read(key)) for key in keys]

    def is_addable(self, key: Key) -> bool:
        return False

    def _put(self, key: Key, value: Any) -> None:
        if self._sorted_keys is not None and key not in self._state:
            self._sorted_keys.add(key)
        self._state[key] = value

    def _remove(self, key: Key) -> None:
        if self._sorted_keys is not None and key in self._state:
            self._sorted_keys.remove(key)
        self._state.pop(key, None)
