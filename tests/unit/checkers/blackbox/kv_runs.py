"""Runs of the key-value store for tests: written by hand, or recorded from a serial execution."""

from random import Random
from typing import Any

from creekdb.checkers.blackbox.observations import (
    CallStatus,
    FinalObservation,
    ObservedCall,
    ObservedRun,
)
from creekdb.datatypes.kv import KV
from tests.unit.checkers.blackbox import observed_histories


def call(
    client: str,
    at_us: int,
    operation: str,
    *arguments: Any,
    status: CallStatus = CallStatus.OK,
    **fields: Any,
) -> ObservedCall:
    """Return a call that ends 5 microseconds after it began."""
    at = at_us, None if status is CallStatus.UNKNOWN else at_us + 5
    return observed_histories.call(client, operation, *arguments, at=at, status=status, **fields)


def kv_run(*calls: ObservedCall, **final_states: dict[Any, Any]) -> ObservedRun:
    return ObservedRun(datatype="kv", calls=calls, final_states=final_states)


def serial_run(seed: int, length: int = 150) -> ObservedRun:
    """Return a run of clients at one copy that executes each call at once."""
    random, store = Random(seed), KV.sequential()
    calls = []
    for number in range(length):
        client = f"c{random.randrange(3)}"
        operation, arguments = random.choice(
            (
                ("put", (f"log {number % 7} {number}", number)),
                ("increment", (f"{client} count",)),
                ("increment", ("all count", 2)),
                ("get", (f"log {number % 7} {random.randrange(number + 1)}",)),
                ("get", (f"{client} count",)),
                ("scan", (f"log {random.randrange(7)}",)),
                ("scan", ()),
            )
        )
        status = random.choices(list(CallStatus), (90, 0, 5, 5))[0]
        is_executed = status is CallStatus.OK or (
            status is CallStatus.UNKNOWN and random.random() < 0.5
        )
        value = store.call(operation, *arguments) if is_executed else None
        strong = random.random() < 0.5
        has_final = status is CallStatus.OK and not strong and operation in ("put", "increment")
        final = FinalObservation(10 * number + 7, CallStatus.OK, value, False)
        calls.append(
            call(
                *(client, 10 * number, operation, *arguments),
                value=value if status is CallStatus.OK else None,
                strong=strong,
                status=status,
                final=final if has_final and random.random() < 0.5 else None,
            )
        )
    state: dict[Any, Any] = dict(store.state)
    return kv_run(*calls, r0=state, r1=dict(state))
