"""Graph of dependencies between transactions, and its shortest cycles.

Nodes from the number of transactions upwards are auxiliary. They join many transactions to many
others with few edges, so that the graph grows linearly with the run. The edge that leaves a
transaction has the kind and the reason of a path through auxiliary nodes.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from creekdb.checkers.blackbox.anomalies.transactions import Transaction

SEARCH_EDGES_MAX: Final = 500_000
"""Number of edges after which the search for a shorter cycle ends."""
SOURCES_AT_A_TIME: Final = 4096


class EdgeKind(Enum):
    """Reason why one transaction precedes another in every serial order."""

    WW = "ww"
    """The second overwrites, or appends to, a version of the first."""
    WR = "wr"
    """The second reads a version of the first."""
    RW = "rw"
    """The first reads a version that precedes one of the second."""
    RT = "rt"
    """The first ended before the second began."""
    RW_RT = "rw by real time"
    """Like RW. The order of the versions follows from real time."""


class Edge(NamedTuple):
    source: int
    target: int
    kind: EdgeKind
    reason: str


Cycle: TypeAlias = tuple[Edge, ...]


class DependencyGraph:
    def __init__(self, size: int) -> None:
        self._size = size
        """Number of transactions."""
        self._nodes = size
        self._successors: dict[EdgeKind, defaultdict[int, dict[int, str]]] = {
            kind: defaultdict(dict) for kind in EdgeKind
        }
        self._joined: defaultdict[int, list[int]] = defaultdict(list)
        """Successors of the auxiliary nodes."""

    def add(self, source: int, target: int, kind: EdgeKind, reason: str) -> None:
        if source != target:
            self._successors[kind][source].setdefault(target, reason)

    def add_all(
        self, sources: Collection[int], targets: Collection[int], kind: EdgeKind, reason: str
    ) -> None:
        """Add an edge from each source to each target. No node may be both."""
        if len(sources) > 1 < len(targets):
            (joint,) = self._new_nodes(1)
            self._joined[joint] += targets
            targets = (joint,)
        for source in sources:
            for target in targets:
                self.add(source, target, kind, reason)

    def add_real_time(self, transactions: Sequence[Transaction]) -> None:
        """Add the order of real time, with one auxiliary node per completed transaction."""
        completed = sorted(
            (each.completed_us, each.number)
            for each in transactions
            if each.completed_us is not None
        )
        times = self._new_nodes(len(completed))
        done = 0
        for each in sorted(transactions, key=lambda each: each.invoked_us):
            while done < len(completed) and completed[done][0] < each.invoked_us:
                self.add(completed[done][1], times[done], EdgeKind.RT, "")
                if done:
                    self._joined[times[done - 1]].append(times[done])
                done += 1
            if done:
                self._joined[times[done - 1]].append(each.number)

    def _new_nodes(self, count: int) -> range:
        self._nodes += count
        return range(self._nodes - count, self._nodes)

    def successors(self, node: int, kinds: Sequence[EdgeKind]) -> Iterator[tuple[int, EdgeKind]]:
        """Yield the targets of edges of these kinds. An auxiliary node leads to all its targets."""
        for target in self._joined.get(node, ()):
            yield target, kinds[0]
        for kind in kinds:
            for target in self._successors[kind].get(node, ()):
                yield target, kind

    def components(
        self, kinds: Sequence[EdgeKind], nodes: Collection[int] | None = None
    ) -> list[set[int]]:
        """Return the strongly connected components with several nodes, by default of all nodes."""
        return [each for each in self._all_components(kinds, nodes) if len(each) > 1]

    def _all_components(
        self, kinds: Sequence[EdgeKind], nodes: Collection[int] | None
    ) -> Iterator[set[int]]:
        """Yield all components, each after those that its edges lead to."""
        allowed = range(self._nodes) if nodes is None else nodes

        def successors(node: int) -> Iterator[int]:
            return (each for each, _ in self.successors(node, kinds) if each in allowed)

        return _Tarjan(successors).components(allowed)

    def shortest_cycle(
        self,
        first_kinds: Sequence[EdgeKind],
        path_kinds: Sequence[EdgeKind],
        nodes: Collection[int],
    ) -> Cycle | None:
        """Return a short cycle of one edge of `first_kinds` and a path of `path_kinds`, or None.

        It is the shortest one, unless the search ends early after `SEARCH_EDGES_MAX` edges.
        """
        best: Cycle | None = None
        budget = [SEARCH_EDGES_MAX]
        for component in self.components([*dict.fromkeys((*first_kinds, *path_kinds))], nodes):
            for source, target, kind in self._closing_edges(first_kinds, path_kinds, component):
                path = self._shortest_path(target, source, path_kinds, component, budget)
                cycle = self._contract([(source, kind), *path])
                if best is None or len(cycle) < len(best):
                    best = cycle
                if len(best) == 2 or budget[0] <= 0:
                    return best
        return best

    def _closing_edges(
        self, first_kinds: Sequence[EdgeKind], path_kinds: Sequence[EdgeKind], component: set[int]
    ) -> Iterator[tuple[int, int, EdgeKind]]:
        """Yield the edges of `first_kinds` whose target reaches their source by `path_kinds`.

        Sets of reachable sources are the bits of integers, for some of the sources at a time.
        """
        order = list(self._all_components(path_kinds, component))
        sources = sorted(each for each in component if each < self._size)
        for begin in range(0, len(sources), SOURCES_AT_A_TIME):
            chosen = sources[begin : begin + SOURCES_AT_A_TIME]
            bits = {source: 1 << index for index, source in enumerate(chosen)}
            reached: dict[int, int] = {}
            for nodes in order:
                union = 0
                for node in nodes:
                    union |= bits.get(node, 0)
                    for target, _ in self.successors(node, path_kinds):
                        union |= reached.get(target, 0)
                reached.update(dict.fromkeys(nodes, union))
            for source in chosen:
                for target, kind in self.successors(source, first_kinds):
                    if reached.get(target, 0) & bits[source]:
                        yield source, target, kind

    def _shortest_path(
        self,
        start: int,
        end: int,
        kinds: Sequence[EdgeKind],
        component: set[int],
        budget: list[int],
    ) -> list[tuple[int, EdgeKind]]:
        """Return the nodes of a path with the kind of each edge. Auxiliary nodes cost nothing."""
        origin: dict[int, tuple[int, EdgeKind]] = {}
        distance = {start: 0}
        queue = deque([start])
        while (node := queue.popleft()) != end:
            is_transaction = node < self._size
            far = distance[node] + is_transaction
            for target, kind in self.successors(node, kinds):
                budget[0] -= 1
                if target in component and far < distance.get(target, far + 1):
                    distance[target], origin[target] = far, (node, kind)
                    (queue.append if is_transaction else queue.appendleft)(target)
        return _path_to(end, start, origin)

    def _contract(self, steps: list[tuple[int, EdgeKind]]) -> Cycle:
        """Return the cycle through these nodes without the auxiliary ones."""
        edges: list[Edge] = []
        for position, (node, kind) in enumerate(steps):
            if node >= self._size:
                continue
            first = steps[(position + 1) % len(steps)][0]
            after = position + 1
            while steps[after % len(steps)][0] >= self._size:
                after += 1
            target = steps[after % len(steps)][0]
            edges.append(Edge(node, target, kind, self._successors[kind][node][first]))
        return tuple(edges)


class _Tarjan:
    """Tarjan's algorithm without recursion."""

    def __init__(self, successors: Callable[[int], Iterator[int]]) -> None:
        self._successors = successors
        self._index: dict[int, int] = {}
        self._low: dict[int, int] = {}
        self._path: list[int] = []
        self._on_path: set[int] = set()

    def components(self, nodes: Iterable[int]) -> Iterator[set[int]]:
        for root in nodes:
            if root not in self._index:
                yield from self._explore(root)

    def _explore(self, root: int) -> Iterator[set[int]]:
        low = self._low
        work = [(root, self._enter(root))]
        while work:
            node, targets = work[-1]
            child = next((each for each in targets if self._is_new(node, each)), None)
            if child is not None:
                work.append((child, self._enter(child)))
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == self._index[node]:
                yield self._leave(node)

    def _enter(self, node: int) -> Iterator[int]:
        self._index[node] = self._low[node] = len(self._index)
        self._path.append(node)
        self._on_path.add(node)
        return self._successors(node)

    def _is_new(self, node: int, target: int) -> bool:
        """True if the target was not entered yet. Otherwise update the low link of the node."""
        if target not in self._index:
            return True
        if target in self._on_path:
            self._low[node] = min(self._low[node], self._index[target])
        return False

    def _leave(self, node: int) -> set[int]:
        component: set[int] = set()
        while node not in component:
            component.add(self._path.pop())
        self._on_path -= component
        return component


def _path_to(
    end: int, start: int, origin: dict[int, tuple[int, EdgeKind]]
) -> list[tuple[int, EdgeKind]]:
    """Return each node of the path but the last, with the kind of the edge that leaves it."""
    steps: list[tuple[int, EdgeKind]] = []
    node = end
    while node != start:
        node, kind = origin[node]
        steps.append((node, kind))
    return steps[::-1]
