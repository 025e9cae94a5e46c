"""Batches: several calls as one request, applied all or nothing.

A batch has one number of its client, so that a retry executes it once. Each call reads what the
calls before it wrote. If one raises an error, no call takes effect, and the error is the response.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

from creekdb.errors import BadValue
from creekdb.execution.keys import CollationKey, collation_key, merge_sorted_keys
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT, RangeScan, View
from creekdb.protocol.request import Outcome
from creekdb.protocol.values import Key

BATCH: Final = "creek.batch"
"""Operation whose arguments are calls: each is a name and a tuple of arguments."""
BATCH_CALLS_MAX: Final = 10_000
"""Number of calls in one batch, at most. Other operations wait while a batch is executed."""

BatchedCall: TypeAlias = tuple[str, tuple[Any, ...]]
CheckArguments: TypeAlias = Callable[[str, tuple[Any, ...]], tuple[Any, ...]]
RunCall: TypeAlias = Callable[[str, tuple[Any, ...], View], ExecutionResult]


def is_batch(arguments: tuple[Any, ...]) -> bool:
    """True if the arguments are 1 to `BATCH_CALLS_MAX` calls."""
    return 0 < len(arguments) <= BATCH_CALLS_MAX and all(
        type(call) is tuple and len(call) == 2 and type(call[0]) is str and type(call[1]) is tuple
        for call in arguments
    )


def checked_calls(calls: Iterable[BatchedCall], check: CheckArguments) -> tuple[BatchedCall, ...]:
    """Return the calls with the arguments that `check` returns.

    `check` gets a name and arguments, and raises an error for an invalid call. A `BadValue` then
    also states the position of the call in the batch.
    """
    checked: list[BatchedCall] = []
    for number, (name, arguments) in enumerate(calls, 1):
        try:
            checked.append((name, check(name, arguments)))
        except BadValue as error:
            raise BadValue(f"{error} (call {number}: {name})") from None
    return tuple(checked)


class BatchView:
    """State that a call of a batch reads: the writes of earlier calls above the state before."""

    def __init__(self, view: View, writes: dict[Key, Any]) -> None:
        self._view = view
        self._writes = writes

    def read(self, key: Key) -> Any:
        return self._writes[key] if key in self._writes else self._view.read(key)

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        return self._writes[key] if key in self._writes else self._view.pick(key, items)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        writes = self._writes
        written = [key for key in writes if start <= collation_key(key) < stop]
        written.sort(key=collation_key, reverse=reverse)
        for key in merge_sorted_keys(iter(written), self._view.keys(start, stop, reverse), reverse):
            if writes.get(key) is not ABSENT:
                yield key

    def pick_range(
        self, scan: RangeScan, items: tuple[int | str, ...], limit: int
    ) -> list[tuple[Key, Any]]:
        keys = islice(self.keys(scan.start, scan.stop, scan.reverse), limit)
        return [(key, self.pick(key, items)) for key in keys]

    def is_addable(self, key: Key) -> bool:
        """Return False: an addition reads the register, since an earlier call may have written."""
        return False


def run_batch(run: RunCall, calls: tuple[BatchedCall, ...], view: View) -> ExecutionResult:
    """Execute the calls one after another. The result has all their writes, or an error."""
    writes: dict[Key, Any] = {}
    values: list[Any] = []
    read_count = scan_count = 0
    for number, (name, arguments) in enumerate(calls, 1):
        execution = run(name, arguments, BatchView(view, writes))
        read_count += execution.read_count
        scan_count += execution.scan_count
        outcome = execution.outcome
        if outcome.error is not None:
            error = f"{outcome.error} (call {number} of {len(calls)}: {name})"
            return ExecutionResult(Outcome(None, error), {}, read_count, scan_count, {}, view)
        assert not execution.blind_adds, "an addition in a batch reads the register"
        writes.update(execution.writes)
        values.append(outcome.value)
    return ExecutionResult(Outcome(tuple(values)), writes, read_count, scan_count, {}, view)
