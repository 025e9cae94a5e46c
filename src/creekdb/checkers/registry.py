"""The checkers, in the order in which to read their verdicts: an order that replicas disagree on
comes first, because it makes noise in everything after it."""

from collections.abc import Callable
from typing import NamedTuple

from creekdb.checkers import (
    answers,
    commit_order,
    conditional_atomic_broadcast,
    convergence,
    fluctuating,
    no_loss,
    prefix_order,
    promises,
    real_time,
    reliable_broadcast,
    replay,
    session_order,
)
from creekdb.checkers.run import Run
from creekdb.checkers.verdict import Verdict
from creekdb.datatypes import DataType
from creekdb.history import History


class Checker(NamedTuple):
    name: str
    check: Callable[[Run], Verdict]


CHECKERS: tuple[Checker, ...] = tuple(
    Checker(module.NAME, module.check)
    for module in (
        prefix_order,
        reliable_broadcast,
        promises,
        no_loss,
        conditional_atomic_broadcast,
        commit_order,
        replay,
        real_time,
        session_order,
        answers,
        fluctuating,
        convergence,
    )
)


def check_all(history: History, datatype: DataType | None = None) -> list[Verdict]:
    """The verdict of every checker, in the order of the registry. A data type of your own must be
    passed along; those that come with Creek are known by name."""
    run = Run(history, datatype)
    return [checker.check(run) for checker in CHECKERS]
