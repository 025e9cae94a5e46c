"""Transactions: the registers, time and random numbers that an operation can use.

Rules:
- Writes stay in the transaction until the operation returns. If it raises, it has no effect.
- An operation reads its own writes.
- Time and random numbers derive from the request, so that every replica computes the same result.
- Every call is a step, whatever it costs the store, and the number of steps is limited.
- An operation touches no register outside its footprint (`footprint`), if it declares one.

A transaction reads through a `View`. It does not depend on the store behind the view, nor on
whether the request is tentative or committed.
"""

import enum
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, overload

from creekdb.errors import BadValue, UsageError
from creekdb.execution.footprint import Footprint, OutsideFootprint, shorten
from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    CollationKey,
    check_key,
    collation_key,
    merge_sorted_keys,
    prefix_range,
)
from creekdb.execution.random import RequestRandom
from creekdb.execution.result import ExecutionResult
from creekdb.execution.serializable import copy_out, is_row, reject_unserializable
from creekdb.execution.sql_engine import SqlEngine
from creekdb.execution.step_limit import STEPS_MAX, OperationStopped
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key, freeze


class Absent(enum.Enum):
    """Type of `ABSENT`. An enum has one instance, also after copying and pickling."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""The paper's ⊥: the content of a register without a value, and the effect of a deletion."""


class NotWritten(enum.Enum):
    """Type of `NOT_WRITTEN`."""

    NOT_WRITTEN = "not written"


NOT_WRITTEN: Final = NotWritten.NOT_WRITTEN
"""Absence of a pending write. Unlike `ABSENT`, which is the pending write of a deletion."""


class Savepoint(NamedTuple):
    """Pending writes of a transaction at some time."""

    writes: dict[Key, Any]
    blind_adds: dict[Key, int]


BLIND_ADD_MAX: Final = 2**60
"""Upper bound for the amount of a blind add. A larger addition reads the register first."""


def pick_item(value: Any, item: int | str) -> Any:
    """Return one item of a tuple or dict, or None if there is no such item."""
    kind = type(value)
    if kind is tuple:
        values: tuple[Any, ...] = value
        return values[item] if type(item) is int and 0 <= item < len(values) else None
    return value.get(item) if kind is dict else None


SCAN_BATCH_MAX: Final = 64
"""Maximum number of registers that a scan of picked items reads at once."""


class RangeScan:
    """Rest of a scan: the range of keys that it has not read, and its direction."""

    __slots__ = ("reverse", "start", "stop")

    def __init__(self, start: CollationKey, stop: CollationKey, reverse: bool) -> None:
        self.start = start
        self.stop = stop
        self.reverse = reverse

    def after(self, key: Key) -> "RangeScan":
        """Return the rest of the scan after this key."""
        current = collation_key(key)
        if self.reverse:
            return RangeScan(self.start, current, True)
        return RangeScan((*current, -1), self.stop, False)  # directly after the key


def pick_items(value: Any, items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return these items of a tuple or dict, with None for each missing item."""
    if not items:
        return ()
    picked = [pick_item(value, item) for item in items]
    for index, each in enumerate(picked):
        if type(each) is tuple or type(each) is dict:
            picked[index] = copy_out(each)
    return tuple(picked)


class View(Protocol):
    """State that a transaction reads. It does not change while the transaction runs."""

    def read(self, key: Key) -> Any:
        """Return the value under `key`, or `ABSENT`."""

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        """Return the value under `key` to a reader that uses only these items of it."""

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """Yield the keys in [start, stop) that hold a value, in ascending or descending order."""

    def pick_range(
        self, scan: RangeScan, items: tuple[int | str, ...], limit: int
    ) -> list[tuple[Key, Any]]:
        """Return the next keys of a scan, at most `limit`, with their values.

        The reader uses only these items of the values.
        """

    def is_addable(self, key: Key) -> bool:
        """True if the store can add to `key` without a read. False if it never defers additions."""


class Transaction:
    """Reads and writes of one execution.

    The arguments of these methods may come straight from a client. They are therefore declared as
    `Any` and checked by hand. A compiled replica would check declared types itself, with other
    messages than an interpreted replica, and the message is the operation's response.

    For the same reason, scans return a `chain`. The type of a generator has another name in
    compiled code, which the response of an operation would show that returns the scan itself.
    """

    __slots__ = (
        "_blind_adds",
        "_footprint",
        "_name",
        "_random",
        "_read_count",
        "_read_count_max",
        "_readonly",
        "_request",
        "_scan_count",
        "_sql_engine",
        "_sql_session",
        "_steps",
        "_view",
        "_violation",
        "_writes",
    )

    def __init__(
        self,
        request: Request,
        view: View,
        readonly: bool = False,
        steps: int = STEPS_MAX,
        name: str = "",
        sql_engine: SqlEngine | None = None,
    ) -> None:
        """`name` is the name of the operation, if it differs from the name in the request."""
        self._request = request
        self._view = view
        self._name = name or request.operation.name
        self._readonly = readonly
        self._random: RequestRandom | None = None
        self._writes: dict[Key, Any] = {}
        self._blind_adds: dict[Key, int] = {}
        self._read_count = 0
        # Every step other than a read lowers this limit, so that one comparison covers both.
        self._read_count_max = steps
        self._scan_count = 0
        self._steps = steps
        self._sql_engine = sql_engine
        self._sql_session: Any = None
        self._footprint: Footprint | None = None
        self._violation: str | None = None
        """Description of the first access outside the footprint."""

    def restrict(self, footprint: Footprint) -> None:
        """Stop the operation if it touches a register outside this footprint."""
        self._footprint = footprint

    @property
    def timestamp(self) -> int:
        """Timestamp of the request, in microseconds. Replaces the clock."""
        return self._request.timestamp

    @property
    def replica(self) -> int:
        """Number of the replica that issued the request."""
        return self._request.id.replica

    @property
    def random(self) -> RequestRandom:
        """Random numbers derived from the request. Replaces the random numbers of the process."""
        if self._random is None:
            self._random = RequestRandom(self._request)
        return self._random

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value under `key`, or `default` if there is none."""
        reads = self._read_count = self._read_count + 1
        if reads > self._read_count_max:
            self._stop()
        check_key(key)
        if self._footprint is not None and not self._footprint.can_read(key):
            self._leave_footprint("read", repr(key))
        if self._blind_adds and key in self._blind_adds:
            self._materialise_add(key)
        writes = self._writes
        value = writes[key] if writes and key in writes else self._view.read(key)
        if value is ABSENT:
            return default
        kind = type(value)
        return copy_out(value) if kind is tuple or kind is dict else value

    def pick(self, key: Any, *items: Any) -> tuple[Any, ...] | None:
        """Return these items of the tuple or dict under `key`, or None if `key` has no value.

        Items are given by index or by name; a missing item is None. Only these items count as
        read: a change of other items does not cause a re-execution.
        """
        reads = self._read_count = self._read_count + 1
        if reads > self._read_count_max:
            self._stop()
        check_key(key)
        for item in items:
            if type(item) is not int and type(item) is not str:
                raise BadValue(f"an item is an index or a name, not a {type(item).__name__}")
        if self._footprint is not None and not self._footprint.can_read(key):
            self._leave_footprint("read", repr(key))
        if self._blind_adds and key in self._blind_adds:
            self._materialise_add(key)
        writes = self._writes
        value = writes[key] if key in writes else self._view.pick(key, items)
        if value is ABSENT:
            return None
        return pick_items(value, items)

    def put(self, key: Any, value: Any) -> None:
        """Store `value` under `key`. Lists are read back as tuples."""
        # `step`, inlined as in `get`: these two methods make up most calls.
        self._read_count_max -= 1
        if self._read_count > self._read_count_max:
            self._stop()
        check_key(key)
        if self._readonly:
            self._reject_write()
        if self._footprint is not None and not self._footprint.can_write(key):
            self._leave_footprint("wrote", repr(key))
        if not is_row(value):
            reject_unserializable(value, f"the value under {key!r}")
            value = freeze(value)
        elif type(value) is dict:
            value = value.copy()
        if self._blind_adds:
            self._blind_adds.pop(key, None)
        self._writes[key] = value

    def delete(self, key: Any) -> None:
        """Delete the value under `key`, if there is one."""
        self.step()
        check_key(key)
        if self._readonly:
            self._reject_write()
        if self._footprint is not None and not self._footprint.can_write(key):
            self._leave_footprint("wrote", repr(key))
        self._blind_adds.pop(key, None)
        self._writes[key] = ABSENT

    def add(self, key: Any, amount: Any) -> None:
        """Increase the integer under `key`, 0 if there is none, by the integer `amount`.

        The method returns nothing: additions commute as long as no transaction reads the sum. A
        store may therefore defer an addition until the value is read.
        """
        self.step()
        if type(amount) is not int:
            check_key(key)  # an invalid key may have another text in every process
            raise BadValue(f"can only add an int to {key!r}, not a {type(amount).__name__}")
        if not self._readonly and abs(amount) < BLIND_ADD_MAX and self._can_add_blindly(key):
            self._blind_adds[key] = self._blind_adds.get(key, 0) + amount
            return
        # One step, like a deferred addition: the store must not influence the number of steps.
        self._read_count_max += 1
        value = self.get(key, 0)
        if type(value) is not int:
            raise BadValue(f"can only add to an int, and {key!r} holds a {type(value).__name__}")
        self._read_count_max += 1
        self.put(key, value + amount)

    @overload
    def scan(
        self,
        prefix: str,
        *,
        start: Any = None,
        stop: Any = None,
        reverse: Any = False,
        limit: Any = None,
    ) -> Iterator[tuple[str, Any]]: ...

    @overload
    def scan(
        self,
        prefix: tuple[str | int, ...],
        *,
        start: Any = None,
        stop: Any = None,
        reverse: Any = False,
        limit: Any = None,
    ) -> Iterator[tuple[tuple[str | int, ...], Any]]: ...

    @overload
    def scan(
        self,
        prefix: None = None,
        *,
        start: Any = None,
        stop: Any = None,
        reverse: Any = False,
        limit: Any = None,
    ) -> Iterator[tuple[Key, Any]]: ...

    def scan(
        self,
        prefix: Any = None,
        *,
        start: Any = None,
        stop: Any = None,
        reverse: Any = False,
        limit: Any = None,
    ) -> Iterator[tuple[Any, Any]]:
        """Return keys and values, in the order of `creekdb.execution.keys`, that satisfy all of:

        - a tuple prefix: tuple keys that start with it; a str prefix: str keys that start with it;
        - `start` <= key < `stop`.

        `reverse` reverses the order; `limit` bounds the number of results. The scan includes the
        writes that precede the call of `scan`, but no later ones.
        """
        self.step()
        if limit is not None and (type(limit) is not int or limit < 0):
            given = limit if type(limit) is int else f"a {type(limit).__name__}"
            raise BadValue(f"the limit of a scan is an int from 0, not {given}")
        begun = self._begin_scan(prefix, start, stop)
        if begun is None:
            return chain()
        low, high, own = begun
        return chain(self._scan(low, high, own, bool(reverse), limit))

    def scan_picked(
        self,
        items: Any,
        prefix: Any = None,
        *,
        start: Any = None,
        stop: Any = None,
        reverse: Any = False,
    ) -> Iterator[tuple[Key, tuple[Any, ...]]]:
        """Return keys like `scan`, each with these items of its tuple or dict.

        Only these items count as read, as for `pick`, and so does the presence of each key. The
        store reads ahead: up to as many keys as were returned, at most `SCAN_BATCH_MAX`, count as
        read as well.
        """
        batches = self.scan_batches(items, prefix, start=start, stop=stop, reverse=reverse)
        return chain.from_iterable(batches)

    def scan_batches(
        self,
        items: Any,
        prefix: Any = None,
        *,
        start: Any = None,
        stop: Any = None,
        reverse: Any = False,
    ) -> Iterator[list[tuple[Key, tuple[Any, ...]]]]:
        """Return the results of `scan_picked` in batches of growing size."""
        self.step()
        picked = tuple(items)
        for item in picked:
            if type(item) is not int and type(item) is not str:
                raise BadValue(f"an item is an index or a name, not a {type(item).__name__}")
        begun = self._begin_scan(prefix, start, stop)
        if begun is None:
            return chain()
        low, high, own = begun
        scan = RangeScan(low, high, bool(reverse))
        return chain(
            self._merged_batches(scan, own, picked) if own else self._batches(scan, picked)
        )

    def pending_write(self, key: Any) -> Any:
        """Return the value that this transaction has written under `key`, or `NOT_WRITTEN`."""
        return self._writes.get(key, NOT_WRITTEN)

    def restore(self, key: Any, pending: Any) -> None:
        """Make `pending`, returned by `pending_write`, the pending write of `key` again."""
        if pending is NOT_WRITTEN:
            self._writes.pop(key, None)
        else:
            self._writes[key] = pending

    def savepoint(self) -> Savepoint:
        """Return the pending writes, for `roll_back_to`."""
        return Savepoint(dict(self._writes), dict(self._blind_adds))

    def roll_back_to(self, savepoint: Savepoint) -> None:
        """Make the writes of a savepoint the only pending ones. Reads and steps still count."""
        self._writes = dict(savepoint.writes)
        self._blind_adds = dict(savepoint.blind_adds)
        if self._sql_engine is not None and self._sql_session is not None:
            self._sql_engine.close_session(self._sql_session)  # the schema may be another one

    def begin_scratch(self, request: Request, name: str) -> "Transaction":
        """Return a transaction of another request on the same state, with steps of its own.

        The caller decides what to do with its writes. This transaction must not have any.
        """
        if self._writes or self._blind_adds:
            raise UsageError("a scratch transaction cannot see the writes of its operation")
        return Transaction(request, self._view, False, self._steps, name, self._sql_engine)

    def sql(self, /, *arguments: Any, **named: Any) -> Any:
        """Execute one SQL statement and return its `SqlResult` (`creekdb.sql`).

        The arguments are the text of the statement and its parameters, as in
        `tx.sql("SELECT ?", 1)` or `tx.sql("SELECT :text", text=1)`. The data type must be declared
        with `sql=True`.
        """
        # Compiled code accepts a positional-only parameter by name, too. So there is none.
        if not arguments:
            raise UsageError("tx.sql() lacks a statement; pass its text as the first argument")
        if self._sql_engine is None:
            raise UsageError(
                f"operation '{self._name}' uses SQL, but its data type does not; "
                "declare the data type with sql=True"
            )
        if self._sql_session is None:
            self._sql_session = self._sql_engine.open_session(self)
        return self._sql_engine.execute(self._sql_session, arguments[0], arguments[1:], named)

    def step(self) -> None:
        """Count a step. Raise `OperationStopped` above the limit, at this and every later call.

        An operation that catches the exception can therefore not continue.
        """
        self._read_count_max -= 1
        if self._read_count > self._read_count_max:
            self._stop()

    def close(self, outcome: Outcome) -> ExecutionResult:
        """Return the result of the execution. The data type calls this once, with the outcome.

        If the step limit was exceeded or the footprint left, the result is that error, even if the
        operation caught the exception.
        """
        if self._sql_engine is not None and self._sql_session is not None:
            self._sql_engine.close_session(self._sql_session)
            self._sql_session = None
        if self._violation is not None:
            outcome = Outcome(error=f"{OutsideFootprint.__name__}: {self._violation}")
        elif self._read_count > self._read_count_max:
            outcome = Outcome(error=f"{OperationStopped.__name__}: {self._step_limit_message()}")
        if outcome.error is not None:
            return ExecutionResult(outcome, {}, self._read_count, self._scan_count)
        return ExecutionResult(
            outcome, self._writes, self._read_count, self._scan_count, self._blind_adds
        )

    def _can_add_blindly(self, key: Any) -> bool:
        check_key(key)
        if self._footprint is not None and not self._footprint.can_write(key):
            self._leave_footprint("wrote", repr(key))
        if key in self._writes:
            return False
        if key in self._blind_adds:
            return abs(self._blind_adds[key]) < BLIND_ADD_MAX
        return self._view.is_addable(key)

    def _begin_scan(
        self, prefix: Any, start: Any, stop: Any
    ) -> tuple[CollationKey, CollationKey, dict[Key, Any]] | None:
        """Return the range of a scan and the own writes in it, or None if the range is empty."""
        low, high = _scan_range(prefix, start, stop)
        if low >= high:
            return None
        if self._footprint is not None and not self._footprint.can_scan(low, high):
            self._leave_footprint("scanned", _range_text(prefix, start, stop))
        for key in [key for key in self._blind_adds if low <= collation_key(key) < high]:
            self._materialise_add(key)
        if type(prefix) is tuple and prefix and start is None and stop is None:
            return low, high, self._own_writes_below(prefix)
        own = {
            key: value for key, value in self._writes.items() if low <= collation_key(key) < high
        }
        return low, high, own

    def _own_writes_below(self, prefix: tuple[Any, ...]) -> dict[Key, Any]:
        length = len(prefix)
        return {
            key: value
            for key, value in self._writes.items()
            if type(key) is tuple and key[:length] == prefix
        }

    def _materialise_add(self, key: Key) -> None:
        """Replace a deferred addition with a write, because the operation reads the sum."""
        value = self._view.read(key)
        self._writes[key] = (0 if value is ABSENT else value) + self._blind_adds.pop(key)

    def _scan(
        self,
        low: CollationKey,
        high: CollationKey,
        own: dict[Key, Any],
        reverse: bool,
        limit: int | None,
    ) -> Iterator[tuple[Key, Any]]:
        remaining = -1 if limit is None else limit
        if remaining == 0:
            return
        stored = self._view.keys(low, high, reverse)
        if own:
            own_keys = iter(sorted(own, key=collation_key, reverse=reverse))
            stored = merge_sorted_keys(stored, own_keys, reverse)
        for key in stored:
            self.step()
            value = own[key] if key in own else self._view.read(key)
            self._scan_count += 1
            if value is ABSENT:
                continue
            yield key, copy_out(value)
            remaining -= 1
            if remaining == 0:
                return

    def _leave_footprint(self, access: str, target: str) -> None:
        """Stop the operation, at this and every later call, because it left its footprint."""
        self._violation = (
            f"operation '{self._name}' {access} {shorten(target)} outside its footprint "
            f"{self._footprint!r}; declare what it touches"
        )
        self._read_count_max = -1
        self._stop()

    def _batches(
        self, scan: RangeScan, items: tuple[Any, ...]
    ) -> Iterator[list[tuple[Key, tuple[Any, ...]]]]:
        for batch in self._stored_batches(scan, items):
            self._count_scanned(len(batch))
            yield [(key, pick_items(value, items)) for key, value in batch]

    def _merged_batches(
        self, scan: RangeScan, own: dict[Key, Any], items: tuple[Any, ...]
    ) -> Iterator[list[tuple[Key, tuple[Any, ...]]]]:
        stored = chain.from_iterable(self._stored_batches(scan, items))
        for key, value in _merge_own(stored, own, scan.reverse):
            self._count_scanned(1)
            if value is not ABSENT:
                yield [(key, pick_items(value, items))]

    def _stored_batches(
        self, scan: RangeScan, items: tuple[Any, ...]
    ) -> Iterator[list[tuple[Key, Any]]]:
        size = 1
        while True:
            batch = self._view.pick_range(scan, items, size)
            yield batch
            if len(batch) < size:
                return
            scan = scan.after(batch[-1][0])
            size = min(size * 2, SCAN_BATCH_MAX)

    def _count_scanned(self, count: int) -> None:
        """Count a step for each of these registers."""
        self._read_count_max -= count
        if self._read_count > self._read_count_max:
            self._stop()
        self._scan_count += count

    def _stop(self) -> None:
        if self._violation is not None:
            raise OutsideFootprint(self._violation)
        raise OperationStopped(self._step_limit_message())

    def _step_limit_message(self) -> str:
        return f"operation '{self._name}' took more than {self._steps} steps"

    def _reject_write(self) -> None:
        raise UsageError(f"operation '{self._name}' is declared read-only and must not write")


def _range_text(prefix: Any, start: Any, stop: Any) -> str:
    bounds = (("prefix", prefix), ("start", start), ("stop", stop))
    given = [f"{name} {value!r}" for name, value in bounds if value is not None]
    return f"the keys with {', '.join(given)}" if given else "all keys"


def _merge_own(
    stored: Iterator[tuple[Key, Any]], own: dict[Key, Any], reverse: bool
) -> Iterator[tuple[Key, Any]]:
    """Merge stored registers with the writes of the transaction, which take precedence."""
    own_keys = sorted(own, key=collation_key, reverse=reverse)
    position, count = 0, len(own_keys)
    for key, value in stored:
        current = collation_key(key)
        while position < count:
            next_key = own_keys[position]
            next_current = collation_key(next_key)
            if next_current == current or (next_current > current) != reverse:
                break
            yield next_key, own[next_key]
            position += 1
        if position < count and own_keys[position] == key:
            value = own[key]
            position += 1
        yield key, value
    while position < count:
        yield own_keys[position], own[own_keys[position]]
        position += 1


def _scan_range(prefix: Any, start: Any, stop: Any) -> tuple[CollationKey, CollationKey]:
    low, high = FIRST_COLLATION_KEY, LAST_COLLATION_KEY
    if prefix is not None:
        if type(prefix) is not str and type(prefix) is not tuple:
            raise BadValue(f"a prefix is a str or a tuple, not a {type(prefix).__name__}")
        check_key(prefix)
        low, high = prefix_range(prefix)
        high = min(high, LAST_COLLATION_KEY)
    if start is not None:
        check_key(start)
        low = max(low, collation_key(start))
    if stop is not None:
        check_key(stop)
        high = min(high, collation_key(stop))
    return low, high
