"""Registry of the checkers, in the order in which to read their verdicts.

`prefix_order` is first, because disagreement on the order causes violations of all other
properties.
"""

from creekdb.checkers import (
    commit_order,
    convergence,
    fluctuating_consistency,
    prefix_order,
    real_time,
    replay,
    responses,
    session_order,
)
from creekdb.checkers.broadcast import (
    conditional_atomic_broadcast,
    no_loss,
    paxos_safety,
    reliable_broadcast,
)
from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import Checker, Verdict
from creekdb.datatypes import DataType
from creekdb.history import History

CHECKERS: tuple[Checker, ...] = tuple(
    module.check
    for module in (
        prefix_order,
        reliable_broadcast,
        paxos_safety,
        no_loss,
        conditional_atomic_broadcast,
        commit_order,
        replay,
        real_time,
        session_order,
        responses,
        fluctuating_consistency,
        convergence,
    )
)


def check_all(history: History, datatype: DataType | None = None) -> list[Verdict]:
    """Return the verdict of every checker, in the order of the registry.

    `datatype` is required for custom data types. The built-in ones are found by name.
    """
    run = RunIndex(history, datatype)
    return [check(run) for check in CHECKERS]
