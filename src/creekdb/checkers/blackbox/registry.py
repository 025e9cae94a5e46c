"""Registry of the black-box checkers, and their verdicts with pictures."""

from typing import NamedTuple

from creekdb.checkers.blackbox.counterexample_svg import counterexample_svg
from creekdb.checkers.blackbox.linearizability import STEPS_MAX, check_linearizability
from creekdb.checkers.blackbox.models import Model
from creekdb.checkers.blackbox.observations import ObservedRun
from creekdb.checkers.verdict import Verdict


class Judgement(NamedTuple):
    """A verdict, and the picture of its counterexample as SVG if there is one."""

    verdict: Verdict
    picture: str | None = None


def judge(run: ObservedRun, model: Model, steps_max: int = STEPS_MAX) -> list[Judgement]:
    """Return the judgement of every checker."""
    return [judge_linearizability(run, model, steps_max)]


def judge_linearizability(run: ObservedRun, model: Model, steps_max: int = STEPS_MAX) -> Judgement:
    """Return the verdict on the order of strong calls."""
    verdict, found = check_linearizability(run, model, steps_max)
    return Judgement(verdict, None if found is None else counterexample_svg(found))
