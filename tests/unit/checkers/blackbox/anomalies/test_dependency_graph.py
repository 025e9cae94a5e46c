"""Components and shortest cycles of graphs of dependencies."""

from random import Random

import pytest

from creekdb.checkers.blackbox.anomalies import dependency_graph
from creekdb.checkers.blackbox.anomalies.dependency_graph import DependencyGraph, EdgeKind
from creekdb.checkers.blackbox.anomalies.transactions import Transaction, TransactionOutcome

SIZE = 9
ALL = list(EdgeKind)


def graph_of(edges: set[tuple[int, int]]) -> DependencyGraph:
    graph = DependencyGraph(SIZE)
    for source, target in edges:
        graph.add(source, target, EdgeKind.WW, f"{source} before {target}")
    return graph


def reachable(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    closure = set(edges)
    for middle in range(SIZE):
        closure |= {(a, c) for a, b in closure if b == middle for d, c in closure if d == middle}
    return closure


@pytest.mark.parametrize("seed", range(30))
def test_components_are_the_sets_of_mutually_reachable_nodes(seed: int) -> None:
    random = Random(seed)
    edges = {(random.randrange(SIZE), random.randrange(SIZE)) for _ in range(12)}
    edges = {(source, target) for source, target in edges if source != target}

    found = graph_of(edges).components(ALL)

    closure = reachable(edges)
    mutual = {frozenset(b for b in range(SIZE) if {(a, b), (b, a)} <= closure) for a in range(SIZE)}
    assert {frozenset(each) for each in found} == {each for each in mutual if len(each) > 1}


def test_the_shortest_cycle_of_a_component_is_found() -> None:
    ring = {(node, (node + 1) % 6) for node in range(6)}
    cycle = graph_of(ring | {(3, 1)}).shortest_cycle([EdgeKind.WW], ALL, range(SIZE))

    assert cycle is not None
    assert [(each.source, each.target) for each in cycle] == [(1, 2), (2, 3), (3, 1)]
    assert cycle[0].reason == "1 before 2"


def test_a_cycle_contains_an_edge_of_the_demanded_kind() -> None:
    graph = graph_of({(0, 1), (1, 0), (2, 3)})
    graph.add(3, 2, EdgeKind.RW, "read")

    cycle = graph.shortest_cycle([EdgeKind.RW], [EdgeKind.WW], range(SIZE))

    assert cycle is not None
    assert [(each.source, each.kind) for each in cycle] == [(3, EdgeKind.RW), (2, EdgeKind.WW)]


def test_cycles_of_a_component_with_more_sources_than_bits_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dependency_graph, "SOURCES_AT_A_TIME", 2)
    graph = graph_of({(node, node + 1) for node in range(6)})
    graph.add(6, 0, EdgeKind.RW, "read")

    cycle = graph.shortest_cycle([EdgeKind.RW], [EdgeKind.WW], range(SIZE))

    assert cycle is not None
    assert [each.source for each in cycle] == [6, 0, 1, 2, 3, 4, 5]


def test_edges_between_many_nodes_are_contracted_in_a_cycle() -> None:
    graph = graph_of({(5, 1)})
    graph.add_all((0, 1, 2), (3, 4, 5), EdgeKind.RW, "all before all")

    cycle = graph.shortest_cycle([EdgeKind.RW], ALL, range(SIZE + 1))

    assert cycle is not None
    assert [(each.source, each.target) for each in cycle] == [(1, 5), (5, 1)]
    assert cycle[0].reason == "all before all"


def completed(number: int, begin_us: int, end_us: int | None) -> Transaction:
    return Transaction(number, "c", (), TransactionOutcome.COMMITTED, begin_us, end_us)


@pytest.mark.parametrize("seed", range(20))
def test_real_time_connects_exactly_the_transactions_that_do_not_overlap(seed: int) -> None:
    random = Random(seed)
    transactions = []
    for number in range(SIZE):
        begin_us = random.randrange(30)
        end_us = None if random.random() < 0.2 else begin_us + 1 + random.randrange(12)
        transactions.append(completed(number, begin_us, end_us))

    for earlier in transactions:
        for later in transactions:
            graph = DependencyGraph(SIZE)
            graph.add_real_time(transactions)
            graph.add(later.number, earlier.number, EdgeKind.WW, "")
            cycle = graph.shortest_cycle([EdgeKind.WW], [EdgeKind.RT], range(3 * SIZE))
            is_before = earlier.completed_us is not None and earlier.completed_us < later.invoked_us
            assert (cycle is not None) == is_before
            assert cycle is None or len(cycle) == 2
