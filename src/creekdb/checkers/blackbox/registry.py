"""Registry of the black-box checkers, and their verdicts with pictures."""

from typing import NamedTuple

from creekdb.checkers.blackbox.anomalies.checker import check_anomalies
from creekdb.checkers.blackbox.anomalies.picture import render_anomaly
from creekdb.checkers.blackbox.exactly_once import check_exactly_once
from creekdb.checkers.blackbox.linearizability.checker import STEPS_MAX, check_linearizability
from creekdb.checkers.blackbox.linearizability.models import Model
from creekdb.checkers.blackbox.linearizability.picture import counterexample_svg
from creekdb.checkers.blackbox.observations import ObservedRun
from creekdb.checkers.blackbox.sessions import check_sessions
from creekdb.checkers.verdict import Verdict


class Judgement(NamedTuple):
    """A verdict, and the picture of its counterexample as SVG if there is one."""

    verdict: Verdict
    picture: str | None = None


def judge(run: ObservedRun, model: Model, steps_max: int = STEPS_MAX) -> list[Judgement]:
    """Return the judgement of every checker that applies to the model.

    Transactions are judged by their dependencies only, which include real time.
    """
    judgements = judge_by_datatype(run)
    if run.datatype == "kv" or any(call.final is not None for call in run.calls):
        judgements.insert(0, Judgement(check_exactly_once(run)))
    if run.datatype != "transactions":
        judgements.insert(0, judge_linearizability(run, model, steps_max))
    return judgements


def judge_by_datatype(run: ObservedRun) -> list[Judgement]:
    """Return the judgements of the checkers that apply to this data type only."""
    match run.datatype:
        case "kv":
            return [Judgement(check_sessions(run))]
        case "transactions":
            verdict, worst = check_anomalies(run)
            return [Judgement(verdict, None if worst is None else render_anomaly(worst))]
        case _:
            return []


def judge_linearizability(run: ObservedRun, model: Model, steps_max: int = STEPS_MAX) -> Judgement:
    """Return the judgement on the order of strong calls."""
    verdict, found = check_linearizability(run, model, steps_max)
    return Judgement(verdict, None if found is None else counterexample_svg(found))
