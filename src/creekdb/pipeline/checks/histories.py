"""Verdicts on one history in memory, by the task that simulated or imported the run.

Checkers hold a whole history in memory, in tens of kilobytes per operation. Beyond a limit, a
checker returns `unknown`, except for those that `relational` replaces on runs of any length.

Measured runs record committed orders and final states, which the relational checkers cover, but no
replica events. One verdict `unknown` then stands for all other checkers.
"""

from collections.abc import Sequence
from typing import Final

from creekdb.checkers import CHECKERS, Illegal, Inconclusive, Ok, RunIndex, Verdict
from creekdb.evaluation import violated_conditions
from creekdb.execution.datatype import DataType
from creekdb.history import History
from creekdb.pipeline.checks.verdict_names import (
    ILLEGAL,
    MISSING_EVENTS_CHECK,
    OK,
    RELATIONAL_CHECKERS,
    TPCC_CONDITIONS,
    UNKNOWN,
)
from creekdb.tpcc import PopulationBase

OPERATIONS_MAX: Final = 50_000


def history_verdicts(
    history: History,
    datatype: DataType | None,
    command: str,
    operations_max: int = OPERATIONS_MAX,
    violated: Sequence[str] | None = None,
) -> list[dict[str, str]]:
    """Return rows of VERDICTS without the run's name; `command` repeats the check or the run.

    `violated` lists the violated TPC-C conditions, if the caller has checked them already.
    """
    if not any(log.events for log in history.logs):
        results: list[Verdict] = [Inconclusive(MISSING_EVENTS_CHECK, _missing_events_reason())]
    elif len(history.operations) > operations_max:
        reason = (
            f"too long: {len(history.operations)} operations exceed the limit of {operations_max}; "
            "record a shorter run to check this property"
        )
        results = [Inconclusive(name, reason) for name in _CHECKERS_OF_HISTORIES]
    else:
        run = RunIndex(history, datatype)
        results = [check(run) for check in CHECKERS]
        if datatype is not None and isinstance(datatype.base, PopulationBase):
            if violated is None:
                violated = violated_conditions(history, datatype)
            results.append(_conditions_verdict(violated))
    return [_verdict_row(each, command) for each in results]


_CHECKERS_OF_HISTORIES: Final = tuple(
    each.name for each in CHECKERS if each.name not in RELATIONAL_CHECKERS
)


def _missing_events_reason() -> str:
    missing = ", ".join(_CHECKERS_OF_HISTORIES)
    return f"no replica events were recorded; these checkers require them: {missing}"


def _conditions_verdict(violated: Sequence[str]) -> Verdict:
    return Illegal(TPCC_CONDITIONS, "\n".join(violated)) if violated else Ok(TPCC_CONDITIONS)


def _verdict_row(verdict: Verdict, command: str) -> dict[str, str]:
    match verdict:
        case Illegal(message=message, counterexample=witnesses):
            name, detail = ILLEGAL, "\n".join([message, *(each.describe() for each in witnesses)])
        case Inconclusive(reason=reason):
            name, detail = UNKNOWN, reason
        case Ok():
            name, detail = OK, ""
    return {"checker": verdict.checker, "verdict": name, "detail": detail, "command": command}
