"""Runs of transactions for tests: written by hand, or recorded from a serial execution."""

from random import Random
from typing import Any

from creekdb.checkers.blackbox.observations import (
    CallStatus,
    FinalObservation,
    ObservedCall,
    ObservedRun,
)
from tests.unit.checkers.blackbox.observed_histories import call

Operations = list[tuple[str, Any, Any]]


def transaction(
    operations: Operations,
    begin_us: int,
    end_us: int | None = None,
    status: CallStatus = CallStatus.OK,
) -> ObservedCall:
    """Return a strong transaction. `operations` holds the values that it read."""
    requested = tuple(
        (name, key, None if name == "r" else value) for name, key, value in operations
    )
    end_us = begin_us + 10_000 if end_us is None else end_us
    value = tuple(operations) if status is CallStatus.OK else None
    return call(
        f"client {begin_us}",
        "run",
        *requested,
        at=(begin_us, end_us),
        status=status,
        value=value,
    )


def run_of(*calls: ObservedCall) -> ObservedRun:
    return ObservedRun(datatype="transactions", calls=calls)


def concurrent_run(*transactions: Operations) -> ObservedRun:
    """Return committed transactions that all overlap."""
    return run_of(*(transaction(each, begin, 10_000) for begin, each in enumerate(transactions)))


def consecutive_run(*transactions: Operations) -> ObservedRun:
    """Return committed transactions, each of which begins after the end of the one before."""
    return run_of(
        *(transaction(each, 10 * index, 10 * index + 5) for index, each in enumerate(transactions))
    )


class SerialExecution:
    """Database that executes one transaction after another, with clients that wait for longer."""

    def __init__(self, seed: int, write: str = "append", keys: int = 4) -> None:
        self._random = Random(seed)
        self._write = write
        self._keys = keys
        self._state: dict[str, Any] = {}
        self._written = 0

    def run(self, length: int) -> ObservedRun:
        calls = [self._call(1_000 * (index + 1)) for index in range(length)]
        return run_of(*sorted(calls, key=lambda each: each.invoked_us))

    def _call(self, executed_us: int) -> ObservedCall:
        requested = tuple(self._draw(executed_us) for _ in range(self._random.randint(1, 4)))
        begin_us = executed_us - self._random.randrange(9_000)
        end_us = executed_us + 1 + self._random.randrange(9_000)
        status = self._random.choices(list(CallStatus), (90, 2, 3, 5))[0]
        is_executed = status is CallStatus.OK or (
            status is CallStatus.UNKNOWN and self._random.random() < 0.5
        )
        completed = self._execute(requested) if is_executed else None
        is_weak = self._random.random() < 0.2
        is_ok = status is CallStatus.OK
        has_final = is_weak and is_ok and self._random.random() < 0.7
        response_us = begin_us + 1 if is_weak else end_us
        return ObservedCall(
            client=f"client {self._random.randrange(5)}",
            operation="run",
            arguments=requested,
            strong=not is_weak,
            invoked_us=begin_us,
            responded_us=None if status is CallStatus.UNKNOWN else response_us,
            status=status,
            value=completed if is_ok and not is_weak else "tentative or no response",
            final=FinalObservation(end_us, status, completed, True) if has_final else None,
        )

    def _draw(self, executed_us: int) -> tuple[str, str, Any]:
        key = f"k{executed_us // 60_000}.{self._random.randrange(self._keys)}"
        if self._random.random() < 0.5:
            return "r", key, None
        self._written += 1
        return self._write, key, self._written

    def _execute(self, requested: tuple[tuple[str, str, Any], ...]) -> tuple[Any, ...]:
        completed = []
        for name, key, value in requested:
            match name:
                case "append":
                    self._state[key] = (*self._state.get(key, ()), value)
                case "w":
                    self._state[key] = value
                case _:
                    value = self._state.get(key)
            completed.append((name, key, value))
        return tuple(completed)
