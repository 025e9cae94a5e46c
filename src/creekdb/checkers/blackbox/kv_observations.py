"""Writes of the key-value store that clients can identify, and the registers that responses show.

A key that exactly one call of the run writes, with `put`, is *written once*. Its value proves that
the call took effect. A key that only increments write is a *counter*. Its value bounds their
number. The linearizability checker judges the order of all other writes.
"""

from collections import defaultdict
from typing import Any, Final, NamedTuple

from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall, ObservedRun
from creekdb.checkers.verdict import Witness, short_text
from creekdb.datatypes.kv import KV

WRITES: Final = frozenset(("put", "delete", "put_if_absent", "compare_and_set", "increment"))


def written_key(call: ObservedCall) -> str | None:
    """Return the key that the call writes. It is None for other calls, and for integers as keys."""
    if call.operation in WRITES and KV.can_run(call.operation, len(call.arguments)):
        key = call.arguments[0]
        return key if type(key) is str else None
    return None


class KvWrites:
    """Identifiable writes of a run, by key."""

    def __init__(self, run: ObservedRun) -> None:
        by_key: defaultdict[str, list[ObservedCall]] = defaultdict(list)
        for call in run.calls:
            if (key := written_key(call)) is not None:
                by_key[key].append(call)
        self.once: dict[str, ObservedCall] = {}
        """The put of each key that is written once."""
        self.puts: dict[str, list[ObservedCall]] = {}
        """Puts of each key that only puts write, with values other than None."""
        self.counters: dict[str, list[ObservedCall]] = {}
        for key, calls in by_key.items():
            if all(call.operation == "put" and call.arguments[1] is not None for call in calls):
                self.puts[key] = calls
                if len(calls) == 1:
                    self.once[key] = calls[0]
            elif all(call.operation == "increment" and amount_of(call) > 0 for call in calls):
                self.counters[key] = calls

    def is_once(self, call: ObservedCall) -> bool:
        """True if the call is the only write of its key."""
        key = written_key(call)
        return key is not None and self.once.get(key) is call


def amount_of(increment: ObservedCall) -> int:
    amount = increment.arguments[1] if len(increment.arguments) > 1 else 1
    return amount if type(amount) is int else 0


class MalformedResponse(Exception):
    """Response that is wrong in every run."""

    def __init__(self, cause: str, call: ObservedCall) -> None:
        super().__init__(cause)
        self.calls = (call,)


class View(NamedTuple):
    """Registers that a response shows. With a prefix, keys that it lacks have no value."""

    values: dict[str, Any]
    prefix: str | None = None

    def covers(self, key: str) -> bool:
        return key in self.values or (self.prefix is not None and key.startswith(self.prefix))


def view_of(call: ObservedCall) -> View | None:
    """Return the registers that a successful call shows, or None if it shows none.

    Raise `MalformedResponse` for a value that no such call returns.
    """
    if call.status is not CallStatus.OK or call.value is ANY_VALUE:
        return None
    match call.operation, call.arguments:
        case ("get", (str() as key,)) | ("increment", (str() as key, *_)):
            return View({key: call.value})
        case "scan", (str() as prefix,):
            return View(_scanned(call), prefix)
        case "scan", ():
            return View(_scanned(call), "")
        case _:
            return None


def _scanned(scan: ObservedCall) -> dict[str, Any]:
    try:
        if isinstance(scan.value, list | tuple):
            return dict(scan.value)
    except (TypeError, ValueError):
        pass
    raise MalformedResponse("the response to a scan is not a list of pairs", scan)


def counted(view: View, key: str, call: ObservedCall) -> int:
    """Return the value of the counter that the response to the call shows."""
    value = view.values.get(key)
    if value is None:
        return 0
    if type(value) is not int:
        cause = f"only increments write {key}, and it was read as {short_text(value)}"
        raise MalformedResponse(cause, call)
    return value


def call_witness(call: ObservedCall) -> Witness:
    """Return the call and its response as a part of a counterexample."""
    strength = "strong" if call.strong else "weak"
    arguments = ", ".join(map(short_text, call.arguments))
    outcome = f"{call.status.value} {short_text(call.value)}"
    return Witness(
        call.client, f"{strength} {call.operation}({arguments}): {outcome}", call.invoked_us
    )
