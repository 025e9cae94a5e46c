"""Registry of the black-box checkers, and their verdicts with pictures."""

from typing import NamedTuple

from creekdb.checkers.blackbox import anomalies
from creekdb.checkers.blackbox.counterexample_svg import counterexample_svg
from creekdb.checkers.blackbox.cycle_svg import render_anomaly
from creekdb.checkers.blackbox.linearizability import STEPS_MAX, check_linearizability
from creekdb.checkers.blackbox.models import Model
from creekdb.checkers.blackbox.observations import ObservedRun
from creekdb.checkers.blackbox.sessions import check_sessions
from creekdb.checkers.blackbox.transactions import UnusableTransactions
from creekdb.checkers.verdict import Inconclusive, Verdict


class Judgement(NamedTuple):
    """A verdict, and the picture of its counterexample as SVG if there is one."""

    verdict: Verdict
    picture: str | None = None


def judge(run: ObservedRun, model: Model, steps_max: int = STEPS_MAX) -> list[Judgement]:
    """Return the judgement of every checker that applies to the model.

    Transactions are judged by their dependencies only, which include real time.
    """
    match model.name:
        case "transactions":
            return [judge_transactions(run)]
        case "kv":
            return [judge_linearizability(run, model, steps_max), Judgement(check_sessions(run))]
        case _:
            return [judge_linearizability(run, model, steps_max)]


def judge_linearizability(run: ObservedRun, model: Model, steps_max: int = STEPS_MAX) -> Judgement:
    """Return the verdict on the order of strong calls."""
    verdict, found = check_linearizability(run, model, steps_max)
    return Judgement(verdict, None if found is None else counterexample_svg(found))


def judge_transactions(run: ObservedRun) -> Judgement:
    """Return the verdict on the dependencies between transactions."""
    try:
        found = anomalies.find_anomalies(run)
    except UnusableTransactions as error:
        return Judgement(Inconclusive(anomalies.CHECKER, str(error)))
    return Judgement(anomalies.verdict_on(found), render_anomaly(found[0]) if found else None)
