"""TPC-C's consistency conditions on what the replicas of a run end with."""

from typing import Any

from creekdb import tpcc
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import ABSENT
from creekdb.history import History, Key


def violated(history: History, datatype: DataType) -> list[str]:
    """Each condition that does not hold, with the replicas on which it does not. Replicas that end
    with equal states are looked at together."""
    assert isinstance(datatype.base, tpcc.PopulationBase)
    found: list[str] = []
    for state, replicas in _by_state(history):
        overrides = {key: ABSENT if value is None else value for key, value in state.items()}
        who = ", ".join(map(str, replicas))
        problems = tpcc.problems(datatype.base, overrides, only_touched=True)
        found += [f"replica {who}: {problem}" for problem in problems]
    return found


def _by_state(history: History) -> list[tuple[dict[Key, Any], list[int]]]:
    groups: list[tuple[dict[Key, Any], list[int]]] = []
    for final in history.finals:
        state = dict(final.state)
        same = next((replicas for other, replicas in groups if other == state), None)
        if same is None:
            groups.append((state, [final.replica]))
        else:
            same.append(final.replica)
    return groups
