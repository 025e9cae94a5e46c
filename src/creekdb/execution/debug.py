"""Debug mode: every operation is executed twice on the same state, and must do the same.

`DebugDataType(datatype)` takes the place of a data type. An operation that answers, reads, writes
or adds something else the second time raises `NotDeterministic`, which names it; nobody would
notice otherwise before two replicas differ. Lines are counted: an operation without end is stopped.

What two executions in one process cannot show, such as the order of a set of texts, shows between
processes with different hash seeds. For that the *journal* keeps what every execution did, to be
compared by `first_difference`.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

import msgspec

from creekdb.errors import NotDeterministic
from creekdb.execution.datatype import DataType, DataTypeWrapper
from creekdb.execution.keys import CollationKey
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT, View
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key

EXECUTION_LOG_LENGTH_MAX: Final = 64_000_000
"""Characters; what is executed after that is still executed twice, but not kept."""

EXCERPT_LENGTH_MAX: Final = 300
"""Of what an execution did, an error tells so many characters around the difference."""

_SIZES: Final = tuple(size for size in range(8, 500, 16) for _ in range(12))


class ExecutionRecord(msgspec.Struct, frozen=True, array_like=True):
    """One execution, in words that are equal only if all of it is."""

    operation: str
    result: str


class DebugDataType(DataTypeWrapper):
    """A data type that does not trust its operations."""

    def __init__(self, datatype: DataType) -> None:
        super().__init__(datatype, count_lines=True)
        self.execution_log: list[ExecutionRecord] = []
        self._remaining_length = EXECUTION_LOG_LENGTH_MAX

    def run(self, request: Request, view: View) -> ExecutionResult:
        memory = ReadCache(view)
        witness, again = RecordingView(memory), RecordingView(memory)
        execution = super().run(request, witness)
        ballast = _allocate_filler()
        repeated = super().run(request, again)
        del ballast
        done = ExecutionRecord(
            call_text(request.operation), result_text(execution, witness.accesses)
        )
        result = result_text(repeated, again.accesses)
        if result != done.result:
            raise determinism_error(self.name, done, result, "executed again on the same state")
        self._append(done)
        return execution

    def _append(self, done: ExecutionRecord) -> None:
        length = len(done.operation) + len(done.result)
        if length <= self._remaining_length:
            self._remaining_length -= length
            self.execution_log.append(done)
        else:
            self._remaining_length = 0  # no gaps: what is kept is a beginning


def first_difference(
    datatype: str, ours: Sequence[ExecutionRecord], theirs: Sequence[ExecutionRecord], how: str
) -> NotDeterministic | None:
    """Between two journals of the same run; `how` says what was different about the second."""
    for number, (our, their) in enumerate(zip_longest(ours, theirs), 1):
        if our == their:
            continue
        if our is not None and their is not None and our.operation == their.operation:
            return determinism_error(datatype, our, their.result, how)
        first, second = ("nothing" if each is None else each.operation for each in (our, their))
        return NotDeterministic(
            f"the run itself is not deterministic: execution {number} was {first}, and {how} "
            f"{second}. No operation before it differs, so this is a mistake of Creek's own"
        )
    return None


def determinism_error(
    datatype: str, done: ExecutionRecord, result: str, how: str
) -> NotDeterministic:
    first, second = _around_difference(done.result, result)
    return NotDeterministic(
        f"operation {done.operation} of {datatype} is not deterministic: it {first}; {how}, it "
        f"{second}. An operation must depend on nothing but its transaction and its arguments: use "
        "tx.timestamp for the clock, tx.random for chance, sorted(...) for the order of a set, and "
        "neither id() nor hash() nor anything that an earlier call left behind"
    )


def call_text(operation: Operation) -> str:
    arguments = ", ".join(map(repr, operation.arguments))
    text = f"{operation.name}({arguments})"
    return text if len(text) <= EXCERPT_LENGTH_MAX else f"{text[:EXCERPT_LENGTH_MAX]}…"


def result_text(execution: ExecutionResult, seen: list[str]) -> str:
    outcome = execution.outcome
    if outcome.error is None:
        parts = [f"answered {outcome.value!r}"]
    else:
        parts = [f"raised {outcome.error}"]
    for key, value in execution.writes.items():
        parts.append(f"deleted {key!r}" if value is ABSENT else f"wrote {key!r} = {value!r}")
    parts += [f"added {amount} to {key!r}" for key, amount in execution.blind_adds.items()]
    return ", ".join(parts + seen)


class ReadCache:
    """What a state said the first time: it is asked once, and says the same to both executions."""

    __slots__ = ("addability", "picks", "scans", "values", "view")

    def __init__(self, view: View) -> None:
        self.view = view
        self.values: dict[Key, Any] = {}
        self.picks: dict[tuple[Key, tuple[int | str, ...]], Any] = {}
        self.addability: dict[Key, bool] = {}
        self.scans: dict[
            tuple[CollationKey, CollationKey, bool], tuple[list[Key], Iterator[Key]]
        ] = {}


class RecordingView:
    """A `View` that keeps what it was asked for."""

    __slots__ = ("_cache", "accesses")

    def __init__(self, memory: ReadCache) -> None:
        self._cache = memory
        self.accesses: list[str] = []

    def read(self, key: Key) -> Any:
        values = self._cache.values
        if key not in values:
            values[key] = self._cache.view.read(key)
        self.accesses.append(f"read {key!r}")
        return values[key]

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        picked = self._cache.picks
        if (key, items) not in picked:
            picked[key, items] = self._cache.view.pick(key, items)
        self.accesses.append(f"picked {items!r} of {key!r}")
        return picked[key, items]

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        memory = self._cache
        self.accesses.append(f"scanned {start!r} to {stop!r}{' in reverse' if reverse else ''}")
        asked = start, stop, reverse
        if asked not in memory.scans:
            memory.scans[asked] = [], memory.view.keys(start, stop, reverse)
        passed, rest = memory.scans[asked]
        index = 0
        while True:
            if index == len(passed):
                following = next(rest, None)
                if following is None:
                    return
                passed.append(following)
            yield passed[index]
            index += 1

    def is_addable(self, key: Key) -> bool:
        addable = self._cache.addability
        if key not in addable:
            addable[key] = self._cache.view.is_addable(key)
        return addable[key]


def _allocate_filler() -> list[Any]:
    """Objects of every small size: they take the places in memory that the first execution left, so
    that the second gets others, and `id()` shows."""
    held: list[Any] = [size.to_bytes(size, "big") for size in _SIZES]
    for number in range(10):
        held += ([], {}, {number}, float(number), object())
    return held


def _around_difference(left: str, right: str) -> tuple[str, str]:
    pairs = zip(left, right, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), len(left))
    start = (
        max(0, same - EXCERPT_LENGTH_MAX // 3)
        if max(len(left), len(right)) > EXCERPT_LENGTH_MAX
        else 0
    )
    return _excerpt(left, start), _excerpt(right, start)


def _excerpt(text: str, start: int) -> str:
    before = "…" if start else ""
    after = "…" if len(text) > start + EXCERPT_LENGTH_MAX else ""
    return f"{before}{text[start : start + EXCERPT_LENGTH_MAX]}{after}"
