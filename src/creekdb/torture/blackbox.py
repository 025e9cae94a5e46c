"""Black-box checks of a round: the checkers that apply to its data type, with their pictures."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from creekdb.checkers import Inconclusive, Verdict
from creekdb.checkers.blackbox import anomalies
from creekdb.checkers.blackbox.convergence import check_final_states
from creekdb.checkers.blackbox.cycle_svg import render_anomaly
from creekdb.checkers.blackbox.exactly_once import check_exactly_once
from creekdb.checkers.blackbox.observations import ObservedRun
from creekdb.checkers.blackbox.sessions import check_sessions
from creekdb.checkers.blackbox.transactions import UnusableTransactions


class Judgement(NamedTuple):
    """A verdict, and the picture of its counterexample as SVG if there is one."""

    verdict: Verdict
    picture: str | None = None


BlackBoxCheck: TypeAlias = Callable[[ObservedRun], Judgement]


def _without_picture(check: Callable[[ObservedRun], Verdict]) -> BlackBoxCheck:
    return lambda run: Judgement(check(run))


def _judge_transactions(run: ObservedRun) -> Judgement:
    try:
        found = anomalies.find_anomalies(run)
    except UnusableTransactions as error:
        return Judgement(Inconclusive(anomalies.CHECKER, str(error)))
    return Judgement(anomalies.verdict_on(found), render_anomaly(found[0]) if found else None)


COMMON_CHECKS: Final = (_without_picture(check_exactly_once), _without_picture(check_final_states))
"""Checks that apply to every data type."""
CHECKS: Final[dict[str, tuple[BlackBoxCheck, ...]]] = {
    "kv": (_without_picture(check_sessions),),
    "transactions": (_judge_transactions,),
}
"""Further checks by data type."""


def judge(run: ObservedRun) -> list[Judgement]:
    """Return the judgement of every check that applies to the data type of the run."""
    return [check(run) for check in (*COMMON_CHECKS, *CHECKS.get(run.datatype, ()))]
