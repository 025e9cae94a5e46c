"""Clients read equal final states from all replicas, and no write with a response is missing."""

from typing import Final

from creekdb.checkers.blackbox.kv_observations import KvWrites, call_witness
from creekdb.checkers.blackbox.observations import CallStatus, ObservedRun
from creekdb.checkers.replay import equal_exactly, first_different_key
from creekdb.checkers.verdict import Illegal, Inconclusive, Ok, Verdict, Witness, short_text

CHECKER: Final = "final states"


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
    for key, put in KvWrites(run).once.items():
        value = state.get(key)
        if put.status is CallStatus.OK and not equal_exactly(value, put.arguments[1]):
            cause = f"the put of {key} had a response, and the final value is {short_text(value)}"
            return Illegal(CHECKER, cause, (call_witness(put),))
        if put.status is CallStatus.REJECTED and key in state:
            cause = f"the put of {key} was rejected, and the final states contain it"
            return Illegal(CHECKER, cause, (call_witness(put),))
    return None
