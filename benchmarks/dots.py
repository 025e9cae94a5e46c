"""Dotted version vectors: a set of a million identifiers costs as much as a set of a thousand.

The sets are those of a cluster of five. Without gaps, costs must not grow with the number of
identifiers. With gaps they grow with the number of gaps, and no faster.
"""

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import Timed, ratio
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet

BAR = 1.5
GAPS_FACTOR = 10
GAPS_BAR = 1.5 * GAPS_FACTOR
"""Bound for ten times the gaps: linear growth is 10, quadratic growth is 100."""
REPLICAS = range(5)
LEAD = 10
"""Number of identifiers by which two replicas differ."""


def _complete(count: int) -> Dots:
    each = count // len(REPLICAS)
    return Dots(dict.fromkeys(REPLICAS, (1, each + 1)))


def _with_gaps(gaps: int) -> Dots:
    """Return a set in which every second event is missing."""
    each = gaps // len(REPLICAS)
    ranges = tuple(edge for event in range(1, 2 * each + 1, 2) for edge in (event, event + 1))
    return Dots(dict.fromkeys(REPLICAS, (*ranges, 2 * each + 1, 2 * each + 2)))


def _as_dot_set(dots: Dots) -> DotSet:
    dot_set = DotSet()
    dot_set.update(dots)
    return dot_set


def _ahead(dots: Dots) -> Dots:
    """Return the set of a peer that is a few events ahead."""
    return Dots({replica: (*r[:-1], r[-1] + LEAD) for replica, r in dots.ranges.items()})


def _add(dots: Dots, count: int) -> Timed:
    mine = _as_dot_set(dots)
    ends = {replica: mine.last(replica) for replica in REPLICAS}
    each = count // len(REPLICAS)
    new_dots = [Dot(r, ends[r] + event) for event in range(1, each + 1) for r in REPLICAS]

    def run() -> None:
        for dot in new_dots:
            mine.add(dot)

    return Timed(len(new_dots), run)


def _repeat(call: Callable[[DotSet, Dots], object], dots: Dots, count: int) -> Timed:
    mine, theirs = _as_dot_set(dots), _ahead(dots)

    def run() -> None:
        for _ in range(count):
            call(mine, theirs)

    return Timed(count, run)


def _search_missing(gaps: int, count: int) -> Timed:
    """Search for a missing identifier of a complete set, at a replica that has every second one."""
    mine = _as_dot_set(_with_gaps(gaps))
    theirs = Dots({replica: (1, mine.last(replica) + 1) for replica in REPLICAS})

    def run() -> None:
        for _ in range(count):
            mine.find_missing(theirs)

    return Timed(count, run)


def _covers(mine: DotSet, theirs: Dots) -> object:
    return mine.covers(theirs)


def _some_missing(mine: DotSet, theirs: Dots) -> object:
    return mine.find_missing(theirs)


def _missing(mine: DotSet, theirs: Dots) -> object:
    return mine.missing(theirs)


def _update(mine: DotSet, theirs: Dots) -> object:
    mine.update(theirs)
    return mine


def _freeze(mine: DotSet, _theirs: Dots) -> object:
    return mine.freeze()


def _contains(mine: DotSet, theirs: Dots) -> object:
    return [Dot(replica, ranges[-1] - 1) in mine for replica, ranges in theirs.ranges.items()]


CALLS: tuple[tuple[str, str, Callable[[DotSet, Dots], object]], ...] = (
    ("contains", "Lookup of an identifier", _contains),
    ("covers", "Subset test", _covers),
    ("some_missing", "Search for a missing identifier", _some_missing),
    ("missing", "Difference of two sets", _missing),
    ("update", "Union of two sets", _update),
    ("freeze", "Copy of a set into a message", _freeze),
)


def measure(scale: Scale) -> Iterator[Result]:
    prepares: list[tuple[str, str, Callable[[Dots, int], Timed]]] = [
        ("add", "Addition of the next identifier", _add),
        *((what, description, partial(_repeat, call)) for what, description, call in CALLS),
    ]
    for what, description, prepare in prepares:
        yield Result(
            what=f"dots: {what}",
            explanation=f"{description}: its cost after {scale.dots_large:,} operations, "
            f"relative to {scale.dots_small:,}.",
            value=ratio(
                partial(prepare, _complete(scale.dots_large), scale.timed),
                partial(prepare, _complete(scale.dots_small), scale.timed),
                scale.repeats,
                BAR,
            ),
            bar=BAR,
        )
    yield Result(
        what="dots: some_missing, many gaps",
        explanation=f"Search for a missing identifier: its cost with "
        f"{scale.dots_small * GAPS_FACTOR:,} gaps, relative to {scale.dots_small:,}.",
        value=ratio(
            partial(_search_missing, scale.dots_small * GAPS_FACTOR, scale.timed),
            partial(_search_missing, scale.dots_small, scale.timed),
            scale.repeats,
            BAR,
        ),
        bar=BAR,
    )
    base_gaps = scale.dots_small
    count = max(1, scale.timed // 100)
    for what, description, prepare in prepares:
        yield Result(
            what=f"dots: {what}, with gaps",
            explanation=f"{description}: its cost with {base_gaps * GAPS_FACTOR:,} gaps, "
            f"relative to {base_gaps:,}. Linear growth is {GAPS_FACTOR}.",
            value=ratio(
                partial(prepare, _with_gaps(base_gaps * GAPS_FACTOR), max(5, count)),
                partial(prepare, _with_gaps(base_gaps), max(5, count)),
                scale.repeats,
                GAPS_BAR,
            ),
            bar=GAPS_BAR,
        )


BENCHMARK = Benchmark("dots", 2 * (1 + len(CALLS)) + 1, measure)
