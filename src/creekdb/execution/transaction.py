"""What an operation sees while it runs: registers to read and write, and nothing else.

Rules: the writes stay in the transaction until the operation has returned, so that one that raises
leaves nothing behind; an operation reads its own writes; time and chance come from the request, so
that every replica computes the same; every call is a step, whatever it costs the store, and the
steps are limited. It reads through a `View` and must not know which store is behind it, nor whether
the request is tentative or committed.
"""

import enum
from collections.abc import Iterator
from typing import Any, Final, Protocol

from creekdb.errors import BadValue, UsageError
from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    CollationKey,
    check_key,
    collation_key,
    prefix_range,
)
from creekdb.execution.random import RequestRandom
from creekdb.execution.result import ExecutionResult
from creekdb.execution.serializable import copy_out, is_row, reject_unserializable
from creekdb.execution.step_limit import STEPS_MAX, OperationStopped
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key, freeze


class Absent(enum.Enum):
    """The type of `ABSENT`: an enum, so that there is only one even after copying and pickling."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""The paper's ⊥: what a register without a value holds, and what deleting it writes."""


BLIND_ADD_MAX: Final = 2**60
"""An operation that adds more in one step looks at the register first."""


def pick_item(value: Any, item: int | str) -> Any:
    """One item of a tuple or a dict; None where there is none."""
    kind = type(value)
    if kind is tuple:
        values: tuple[Any, ...] = value
        return values[item] if type(item) is int and 0 <= item < len(values) else None
    return value.get(item) if kind is dict else None


class View(Protocol):
    """The state that a transaction reads: it does not change as long as the transaction runs."""

    def read(self, key: Key) -> Any:
        """The value under `key`, or `ABSENT`."""

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        """The same, for one who will look at these items of it only."""

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """The keys that hold a value and stand in [start, stop), in order or in reverse order."""

    def is_addable(self, key: Key) -> bool:
        """Can one add to it without looking? A store that does not put off additions says no."""


class Transaction:
    """What an operation passes to these methods may come straight from a client. It is therefore
    declared as `Any` and checked by hand: a compiled replica would check a declared type by itself
    and refuse in other words than an interpreted one, and the words are the operation's answer.
    """

    __slots__ = (
        "_blind_adds",
        "_name",
        "_random",
        "_read_count",
        "_read_count_max",
        "_readonly",
        "_request",
        "_scan_count",
        "_steps",
        "_view",
        "_writes",
    )

    def __init__(
        self,
        request: Request,
        view: View,
        readonly: bool = False,
        steps: int = STEPS_MAX,
        name: str = "",
    ) -> None:
        """`name`: of the operation, if the request asks for it by another one."""
        self._request = request
        self._view = view
        self._name = name
        self._readonly = readonly
        self._random: RequestRandom | None = None
        self._writes: dict[Key, Any] = {}
        self._blind_adds: dict[Key, int] = {}
        self._read_count = 0
        self._read_count_max = (
            steps  # every step that is no read takes one off: one count is enough
        )
        self._scan_count = 0
        self._steps = steps

    @property
    def timestamp(self) -> int:
        """The request's timestamp in microseconds, in place of the clock."""
        return self._request.timestamp

    @property
    def random(self) -> RequestRandom:
        """Random numbers derived from the request, in place of the process's."""
        if self._random is None:
            self._random = RequestRandom(self._request)
        return self._random

    def get(self, key: Any, default: Any = None) -> Any:
        """The value under `key`, or `default` when there is none."""
        reads = self._read_count = self._read_count + 1
        if reads > self._read_count_max:
            self._stop()
        check_key(key)
        if self._blind_adds and key in self._blind_adds:
            self._materialise_add(key)
        writes = self._writes
        value = writes[key] if writes and key in writes else self._view.read(key)
        if value is ABSENT:
            return default
        kind = type(value)
        return copy_out(value) if kind is tuple or kind is dict else value

    def pick(self, key: Any, *items: Any) -> tuple[Any, ...] | None:
        """These items of the tuple or dict under `key`, by index or by name, each None where there
        is none; or None when there is nothing under `key`.

        Only they count as read: what becomes of the other items, an operation that did not look at
        them need not be executed again for it.
        """
        reads = self._read_count = self._read_count + 1
        if reads > self._read_count_max:
            self._stop()
        check_key(key)
        for item in items:
            if type(item) is not int and type(item) is not str:
                raise BadValue(f"an item is an index or a name, not a {type(item).__name__}")
        if self._blind_adds and key in self._blind_adds:
            self._materialise_add(key)
        writes = self._writes
        value = writes[key] if key in writes else self._view.pick(key, items)
        if value is ABSENT:
            return None
        found = [pick_item(value, item) for item in items]
        for index, each in enumerate(found):
            if type(each) is tuple or type(each) is dict:
                found[index] = copy_out(each)
        return tuple(found)

    def put(self, key: Any, value: Any) -> None:
        """Leave `value` under `key`. Lists come back as tuples."""
        self._read_count_max -= (
            1  # a step, written out as in `get`: these two are most of all calls
        )
        if self._read_count > self._read_count_max:
            self._stop()
        check_key(key)
        if self._readonly:
            self._reject_write()
        if not is_row(value):
            reject_unserializable(value, f"what is put under {key!r}")
            value = freeze(value)
        elif type(value) is dict:
            value = value.copy()
        if self._blind_adds:
            self._blind_adds.pop(key, None)
        self._writes[key] = value

    def delete(self, key: Any) -> None:
        """Leave nothing under `key`, whether or not there was something."""
        self.step()
        check_key(key)
        if self._readonly:
            self._reject_write()
        self._blind_adds.pop(key, None)
        self._writes[key] = ABSENT

    def add(self, key: Any, amount: Any) -> None:
        """Increase the integer under `key`, 0 when there is none, by the integer `amount`.

        It answers nothing, because increments commute as long as nobody looks: a store may put off
        the addition until the value is read.
        """
        self.step()
        if type(amount) is not int:
            raise BadValue(f"can only add an int to {key!r}, not a {type(amount).__name__}")
        if not self._readonly and abs(amount) < BLIND_ADD_MAX and self._can_add_blindly(key):
            self._blind_adds[key] = self._blind_adds.get(key, 0) + amount
            return
        # One step, as if it were put off: how a store adds must not decide who is stopped.
        self._read_count_max += 1
        value = self.get(key, 0)
        if type(value) is not int:
            raise BadValue(f"can only add to an int, and {key!r} holds a {type(value).__name__}")
        self._read_count_max += 1
        self.put(key, value + amount)

    def scan(
        self,
        prefix: Any = None,
        *,
        start: Any = None,
        stop: Any = None,
        reverse: Any = False,
        limit: Any = None,
    ) -> Iterator[tuple[Key, Any]]:
        """The keys and values, in the order of `creekdb.execution.keys`, that satisfy all of:

        - a tuple prefix: tuple keys that start with it; a str prefix: str keys that start with it;
        - `start` <= key < `stop`.

        `reverse` turns the order round; `limit` bounds how many are given. The scan sees what the
        transaction had written when it was asked for, and not what is written while it goes on.
        """
        self.step()
        if limit is not None and (type(limit) is not int or limit < 0):
            raise BadValue(f"the limit of a scan is an int from 0, not {limit!r}")
        low, high = _scan_range(prefix, start, stop)
        if low >= high:
            return iter(())
        for key in [key for key in self._blind_adds if low <= collation_key(key) < high]:
            self._materialise_add(key)
        own = {
            key: value for key, value in self._writes.items() if low <= collation_key(key) < high
        }
        return self._scan(low, high, own, bool(reverse), limit)

    def step(self) -> None:
        """Count a step. It raises `OperationStopped` when there were too many, now and ever after:
        an operation that catches it gets no further."""
        self._read_count_max -= 1
        if self._read_count > self._read_count_max:
            self._stop()

    def close(self, outcome: Outcome) -> ExecutionResult:
        """The result of the whole: called once, by the data type, with what the operation gave.
        Of one that was stopped the answer is just that, whatever it made of it."""
        if self._read_count > self._read_count_max:
            outcome = Outcome(error=f"{OperationStopped.__name__}: {self._step_limit_message()}")
        if outcome.error is not None:
            return ExecutionResult(outcome, {}, self._read_count, self._scan_count)
        return ExecutionResult(
            outcome, self._writes, self._read_count, self._scan_count, self._blind_adds
        )

    def _can_add_blindly(self, key: Any) -> bool:
        check_key(key)
        if key in self._writes:
            return False
        if key in self._blind_adds:
            return abs(self._blind_adds[key]) < BLIND_ADD_MAX
        return self._view.is_addable(key)

    def _materialise_add(self, key: Key) -> None:
        """What was to be added blindly is added now: somebody wants to see the sum."""
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
        left = -1 if limit is None else limit
        if left == 0:
            return
        stored = self._view.keys(low, high, reverse)
        for key in _merge_own_writes(stored, own, reverse) if own else stored:
            self.step()
            value = own[key] if key in own else self._view.read(key)
            self._scan_count += 1
            if value is ABSENT:
                continue
            yield key, copy_out(value)
            left -= 1
            if left == 0:
                return

    def _stop(self) -> None:
        raise OperationStopped(self._step_limit_message())

    def _step_limit_message(self) -> str:
        name = self._name or self._request.operation.name
        return f"operation '{name}' took more than {self._steps} steps"

    def _reject_write(self) -> None:
        name = self._name or self._request.operation.name
        raise UsageError(f"operation '{name}' is declared read-only and must not write")


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


def _merge_own_writes(stored: Iterator[Key], own: dict[Key, Any], reverse: bool) -> Iterator[Key]:
    """The stored keys and the transaction's own, each once, in order."""
    pending = sorted(own, key=collation_key, reverse=not reverse)  # the next one is the last one
    for key in stored:
        here = collation_key(key)
        while pending and (
            collation_key(pending[-1]) > here if reverse else collation_key(pending[-1]) < here
        ):
            yield pending.pop()
        if pending and pending[-1] == key:
            pending.pop()
        yield key
    while pending:
        yield pending.pop()
