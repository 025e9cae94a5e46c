"""Black-box checks of a round: the checkers that apply to its data type, with their pictures."""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from creekdb.checkers import Verdict
from creekdb.checkers.blackbox import Judgement, get_model
from creekdb.checkers.blackbox.convergence import check_final_states
from creekdb.checkers.blackbox.exactly_once import check_exactly_once
from creekdb.checkers.blackbox.observations import ObservedCall, ObservedRun
from creekdb.checkers.blackbox.registry import judge_linearizability, judge_transactions
from creekdb.checkers.blackbox.sessions import check_sessions
from creekdb.torture.workload import SHARED_PREFIX

STEPS_MAX: Final = 100_000
"""Upper bound for the steps of the search for a linearization of one key."""

BlackBoxCheck: TypeAlias = Callable[[ObservedRun], Judgement]


def _without_picture(check: Callable[[ObservedRun], Verdict]) -> BlackBoxCheck:
    return lambda run: Judgement(check(run))


def _judge_shared_keys(run: ObservedRun) -> Judgement:
    """Judge the calls on shared keys. Other keys are written once, or only counted."""
    shared = tuple(call for call in run.calls if _uses_shared_key(call))
    run = msgspec.structs.replace(run, calls=shared)
    return judge_linearizability(run, get_model("kv"), STEPS_MAX)


def _uses_shared_key(call: ObservedCall) -> bool:
    return bool(call.arguments) and str(call.arguments[0]).startswith(SHARED_PREFIX)


COMMON_CHECKS: Final = (_without_picture(check_exactly_once), _without_picture(check_final_states))
"""Checks that apply to every data type."""
CHECKS: Final[dict[str, tuple[BlackBoxCheck, ...]]] = {
    "kv": (_without_picture(check_sessions), _judge_shared_keys),
    "transactions": (judge_transactions,),
}
"""Further checks by data type."""


def judge(run: ObservedRun) -> list[Judgement]:
    """Return the judgement of every check that applies to the data type of the run."""
    return [check(run) for check in (*COMMON_CHECKS, *CHECKS.get(run.datatype, ()))]
