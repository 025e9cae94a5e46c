"""Writes of the key-value store that clients can identify, and the registers that responses show.

A key that exactly one call of the run writes, with `put`, is *written once*. Its value proves that
the call took effect. A key that only increments write is a *counter*. Its value bounds their
number. The order of all other writes is a matter of the linearizability checker.
"""

from collections import defaultdict
from typing import Any, Final, NamedTuple

from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall, ObservedRun
from creekdb.checkers.verdict import Witness, short_text

WRITES: Final = frozenset(("put", "delete", "put_if_absent", "compare_and_set", "increment"))


class KvWrites:
    """Identifiable writes of a run, by key."""

    def __init__(self, run: ObservedRun) -> None:
        by_key: defaultdict[str, list[ObservedCall]] = defaultdict(list)
        for call in run.calls:
            if call.operation in WRITES:
                by_key[call.arguments[0]].append(call)
        self.once: dict[str, ObservedCall] = {}
        """The put of each key that is written once."""
        self.counters: dict[str, list[ObservedCall]] = {}
        for key, calls in by_key.items():
            if (
                len(calls) == 1
                and calls[0].operation == "put"
                and calls[0].arguments[1] is not None
            ):
                self.once[key] = calls[0]
            elif all(call.operation == "increment" and amount_of(call) > 0 for call in calls):
                self.counters[key] = calls

    def is_once(self, call: ObservedCall) -> bool:
        """True if the call is the only write of its key."""
        return bool(call.arguments) and self.once.get(call.arguments[0]) is call


def amount_of(increment: ObservedCall) -> int:
    amount = increment.arguments[1] if len(increment.arguments) > 1 else 1
    return amount if type(amount) is int else 0


class View(NamedTuple):
    """Registers that a response shows. With a prefix, keys that it lacks have no value."""

    values: dict[str, Any]
    prefix: str | None = None

    def covers(self, key: str) -> bool:
        return key in self.values or (self.prefix is not None and key.startswith(self.prefix))


def view_of(call: ObservedCall) -> View | None:
    """Return the registers that a successful call shows, or None if it shows none."""
    if call.status is not CallStatus.OK:
        return None
    match call.operation, call.arguments:
        case "get", (key,):
            return View({key: call.value})
        case "increment", (key, *_):
            return View({key: call.value})
        case "scan", (prefix,):
            return View(dict(call.value), prefix)
        case "scan", ():
            return View(dict(call.value), "")
        case _:
            return None


def call_witness(call: ObservedCall) -> Witness:
    """Return the call and its response as a part of a counterexample."""
    strength = "strong" if call.strong else "weak"
    arguments = ", ".join(map(short_text, call.arguments))
    outcome = f"{call.status.value} {short_text(call.value)}"
    return Witness(
        call.client, f"{strength} {call.operation}({arguments}): {outcome}", call.invoked_us
    )
