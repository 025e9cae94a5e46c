"""Clients read equal final states from all replicas, and no write with a response is missing."""

from typing import Final

from creekdb.checkers.blackbox.kv_observations import KvWrites, call_witness
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall, ObservedRun
from creekdb.checkers.replay import equal_exactly, first_different_key
from creekdb.checkers.verdict import Illegal, Inconclusive, Ok, Verdict, Witness, short_text

CHECKER: Final = "final states"
WITNESSES_MAX: Final = 5
"""Upper bound for the puts of one key that are shown."""


def check_final_states(run: ObservedRun) -> Verdict:
    if not run.final_states:
        return Inconclusive(CHECKER, "the final states are unknown")
    return _difference(run) or _lost_write(run) or Ok(CHECKER)


def _difference(run: ObservedRun) -> Illegal | None:
    (first, expected), *others = ((name, dict(state)) for name, state in run.final_states.items())
    for replica, state in others:
        if not equal_exactly(state, expected):
            key = first_different_key(state, expected)
            values = (
                Witness(f"replica {name}", f"has {short_text(held.get(key, 'no value'))}")
                for name, held in ((first, expected), (replica, state))
            )
            return Illegal(CHECKER, f"the states differ under {short_text(key)}", tuple(values))
    return None


def _lost_write(run: ObservedRun) -> Illegal | None:
    """Return a violation if a write with a response is missing, or a rejected one is not."""
    if run.datatype != "kv":
        return None
    state = next(iter(run.final_states.values()))
    for key, puts in KvWrites(run).puts.items():
        begun = [put for put in puts if put.status is not CallStatus.REJECTED]
        is_possible = any(equal_exactly(state.get(key), put.arguments[1]) for put in begun)
        if key in state and not is_possible:
            cause = f"no put of {key} that was not rejected has its final value"
            return _violation(cause, state[key], puts)
        acknowledged = [put for put in begun if put.status is CallStatus.OK]
        if acknowledged and key not in state:
            return _violation(f"a put of {key} had a response", None, acknowledged)
    return None


def _violation(cause: str, final: object, puts: list[ObservedCall]) -> Illegal:
    cause = f"{cause}, and the final value is {short_text(final)}"
    return Illegal(CHECKER, cause, tuple(map(call_witness, puts[:WITNESSES_MAX])))
