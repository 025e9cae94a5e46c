"""Anomalies of transactions, from the responses to clients alone.

Reads prove dependencies between transactions (`version_orders`). A cycle of dependencies means that
no serial order explains the reads. Its kinds of dependencies name the anomaly, by Adya's and
Elle's terms. The strongest consistency model without that anomaly is still possible.

Transactions of unknown outcome count only if a committed transaction read their writes.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from creekdb.checkers.blackbox.anomalies.dependency_graph import (
    Cycle,
    DependencyGraph,
    Edge,
    EdgeKind,
)
from creekdb.checkers.blackbox.anomalies.transactions import (
    Transaction,
    UnusableTransactions,
    transactions_of,
)
from creekdb.checkers.blackbox.anomalies.version_orders import (
    KeyHistory,
    VersionOrder,
    key_histories,
)
from creekdb.checkers.blackbox.observations import ObservedRun
from creekdb.checkers.verdict import Illegal, Inconclusive, Ok, Verdict, Witness

CHECKER: Final = "transactions"
REAL_TIME_SUFFIX: Final = "-realtime"
STRONGEST_MODELS: Final = {
    "wrong response": "none",
    "garbage read": "none",
    "duplicate append": "none",
    "G0": "none",
    "dirty update": "read uncommitted",
    "G1a": "read uncommitted",
    "G1b": "read uncommitted",
    "incompatible order": "read uncommitted",
    "G1c": "read uncommitted",
    "internal": "read committed",
    "lost update": "read committed",
    "G-single": "read committed",
    "G-nonadjacent": "consistent view",
    "G2": "snapshot isolation",
    "lost append": "serializable",
    "G0-realtime": "serializable",
    "G1c-realtime": "serializable",
    "G-single-realtime": "serializable",
    "G-nonadjacent-realtime": "serializable",
    "G2-realtime": "serializable",
}
"""Strongest consistency model that permits each anomaly. The worst anomaly is first."""

_WRITES: Final = (EdgeKind.WW,)
_VERSIONS: Final = (EdgeKind.WW, EdgeKind.WR)
_READS: Final = (EdgeKind.RW, EdgeKind.RW_RT)
_SEARCHES: Final = (
    (_WRITES, _WRITES),
    ((EdgeKind.WR,), _VERSIONS),
    ((EdgeKind.RW,), _VERSIONS),
    ((EdgeKind.RW,), (*_VERSIONS, EdgeKind.RW)),
)
"""Kinds of the first edge and of all others, for G0, G1c, G-single and G2."""
_REAL_TIME_SEARCHES: Final = (
    (_WRITES, (*_WRITES, EdgeKind.RT)),
    ((EdgeKind.WR,), (*_VERSIONS, EdgeKind.RT)),
    (_READS, (*_VERSIONS, EdgeKind.RT)),
    (_READS, (*_VERSIONS, EdgeKind.RT, *_READS)),
)


class Anomaly(msgspec.Struct, frozen=True):
    """One anomaly, with the transactions that prove it."""

    name: str
    detail: str
    transactions: tuple[Transaction, ...]
    """Transactions of the cycle in its order, or the few that are involved."""
    cycle: Cycle = ()

    @property
    def strongest_model(self) -> str:
        return STRONGEST_MODELS[self.name]


class AnomalyResult(NamedTuple):
    """Verdict on the transactions, and the worst anomaly if it is illegal."""

    verdict: Verdict
    worst: Anomaly | None = None


def check_anomalies(run: ObservedRun) -> AnomalyResult:
    """Judge the transactions of the run. The worst anomaly is the evidence."""
    try:
        found = find_anomalies(run)
    except UnusableTransactions as error:
        return AnomalyResult(Inconclusive(CHECKER, str(error)))
    if not found:
        return AnomalyResult(Ok(CHECKER))
    worst, *others = found
    message = f"{worst.name}: {worst.detail}; strongest model left: {worst.strongest_model}"
    if others:
        message += f"; also found: {', '.join(each.name for each in others)}"
    return AnomalyResult(Illegal(CHECKER, message, _witnesses(worst)), worst)


def find_anomalies(run: ObservedRun) -> list[Anomaly]:
    """Return one anomaly per name, the worst first. Raise `UnusableTransactions`."""
    transactions = transactions_of(run)
    found: dict[str, Anomaly] = {}

    def report(name: str, detail: str, involved: Iterable[Transaction]) -> None:
        found.setdefault(name, Anomaly(name, detail, tuple(dict.fromkeys(involved))))

    for each in transactions:
        if each.wrong_response is not None:
            detail = f"the response to {each.describe()} does not repeat it: {each.wrong_response}"
            report("wrong response", detail, (each,))
    histories = key_histories(transactions, report)
    graph = DependencyGraph(len(transactions))
    certain = _certain_transactions(transactions, histories.values())
    for history in histories.values():
        VersionOrder(history, certain, graph, report).infer()
    graph.add_real_time([each for each in transactions if each.number in certain])
    for cycle in _find_cycles(graph):
        anomaly = _cycle_anomaly(cycle, transactions)
        found.setdefault(anomaly.name, anomaly)
    severity = list(STRONGEST_MODELS)
    return sorted(found.values(), key=lambda each: severity.index(each.name))


def _certain_transactions(
    transactions: Iterable[Transaction], histories: Iterable[KeyHistory]
) -> set[int]:
    """Return the transactions that took effect: the committed ones and those that were read."""
    certain = {each.number for each in transactions if each.is_committed}
    for history in histories:
        longest = (
            max((each.version for each in history.reads if each.version), key=len, default=())
            if history.is_list
            else [each.version for each in history.reads]
        )
        certain |= {
            write.writer.number
            for value in longest
            if (write := history.writes.get(value)) is not None
        }
    return certain


def _find_cycles(graph: DependencyGraph) -> list[Cycle]:
    """Return shortest cycles, at most one per search. Real time counts only if all others fail."""
    nodes = {each for component in graph.components(list(EdgeKind)) for each in component}
    if not nodes:
        return []
    for searches in (_SEARCHES, _REAL_TIME_SEARCHES):
        cycles = [graph.shortest_cycle(first, path, nodes) for first, path in searches]
        if any(cycles):
            return [each for each in cycles if each is not None]
    return []


def _cycle_anomaly(cycle: Cycle, transactions: Sequence[Transaction]) -> Anomaly:
    explained = tuple(_with_reason(each, transactions) for each in cycle)
    involved = tuple(transactions[each.source] for each in explained)
    path = " → ".join(each.name for each in (*involved, involved[0]))
    return Anomaly(cycle_name(cycle), f"cycle {path}", involved, explained)


def _with_reason(edge: Edge, transactions: Sequence[Transaction]) -> Edge:
    if edge.kind is not EdgeKind.RT:
        return edge
    source, target = transactions[edge.source], transactions[edge.target]
    assert source.completed_us is not None
    ended = f"{source.name} ended at {source.completed_us / 1000:.3f} ms"
    began = f"{target.name} began at {target.invoked_us / 1000:.3f} ms"
    return edge._replace(reason=f"{ended}, before {began}")


def cycle_name(cycle: Cycle) -> str:
    """Return the name of the anomaly that the kinds of the edges define."""
    kinds = [each.kind for each in cycle]
    reads = [each in _READS for each in kinds]
    if sum(reads) > 1:
        are_adjacent = any(reads[index - 1] and reads[index] for index in range(len(reads)))
        name = "G2" if are_adjacent else "G-nonadjacent"
    elif any(reads):
        name = "G-single"
    else:
        name = "G1c" if EdgeKind.WR in kinds else "G0"
    is_real_time = EdgeKind.RT in kinds or EdgeKind.RW_RT in kinds
    return name + REAL_TIME_SUFFIX if is_real_time else name


def _witnesses(anomaly: Anomaly) -> tuple[Witness, ...]:
    reasons = [f" — {each.kind.value}: {each.reason}" for each in anomaly.cycle]
    reasons += [""] * (len(anomaly.transactions) - len(reasons))
    return tuple(
        Witness(each.client, f"{each.describe()}{reason}", each.invoked_us)
        for each, reason in zip(anomaly.transactions, reasons, strict=True)
    )
