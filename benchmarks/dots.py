"""Dotted version vectors: a set of a million identifiers costs what a set of a thousand costs.

The sets are those of a cluster of five. Without holes nothing may grow with what was seen; with
holes the cost grows with their number, and no faster.
"""

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.measuring import Timed, ratio
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet

BAR = 1.5
HOLES_FACTOR = 10
HOLES_BAR = 1.5 * HOLES_FACTOR
"""Ten times the holes: linear is 10, quadratic is 100."""
REPLICAS = range(5)
NEWS = 10
"""By how much two replicas differ."""


def _whole(seen: int) -> Dots:
    each = seen // len(REPLICAS)
    return Dots(dict.fromkeys(REPLICAS, (1, each + 1)))


def _with_holes(holes: int) -> Dots:
    """Every second event is missing."""
    each = holes // len(REPLICAS)
    ranges = tuple(edge for event in range(1, 2 * each + 1, 2) for edge in (event, event + 1))
    return Dots(dict.fromkeys(REPLICAS, (*ranges, 2 * each + 1, 2 * each + 2)))


def _thawed(dots: Dots) -> DotSet:
    thawed = DotSet()
    thawed.update(dots)
    return thawed


def _ahead(dots: Dots) -> Dots:
    """What a peer has that is a few events ahead."""
    return Dots({replica: (*r[:-1], r[-1] + NEWS) for replica, r in dots.ranges.items()})


def _add(dots: Dots, count: int) -> Timed:
    mine = _thawed(dots)
    ends = {replica: mine.last(replica) for replica in REPLICAS}
    each = count // len(REPLICAS)
    news = [Dot(r, ends[r] + event) for event in range(1, each + 1) for r in REPLICAS]

    def run() -> None:
        for dot in news:
            mine.add(dot)

    return Timed(len(news), run)


def _repeat(call: Callable[[DotSet, Dots], object], dots: Dots, count: int) -> Timed:
    mine, theirs = _thawed(dots), _ahead(dots)

    def run() -> None:
        for _ in range(count):
            call(mine, theirs)

    return Timed(count, run)


def _behind(holes: int, count: int) -> Timed:
    """One that was away asks for what it lacks of a whole set: it has every second event."""
    mine = _thawed(_with_holes(holes))
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
    ("contains", "looking up an identifier", _contains),
    ("covers", "testing for a subset", _covers),
    ("some_missing", "finding an identifier that is missing", _some_missing),
    ("missing", "subtracting one set from another", _missing),
    ("update", "uniting two sets", _update),
    ("freeze", "copying a set into a message", _freeze),
)


def measure(scale: Scale) -> Iterator[Result]:
    prepares: list[tuple[str, str, Callable[[Dots, int], Timed]]] = [
        ("add", "adding the next identifier", _add),
        *((what, which, partial(_repeat, call)) for what, which, call in CALLS),
    ]
    for what, which, prepare in prepares:
        yield Result(
            what=f"dots: {what}",
            explanation=f"What {which} costs after {scale.dots_large:,} operations, "
            f"against {scale.dots_small:,}.",
            value=ratio(
                partial(prepare, _whole(scale.dots_large), scale.timed),
                partial(prepare, _whole(scale.dots_small), scale.timed),
                scale.repeats,
                BAR,
            ),
            bar=BAR,
        )
    yield Result(
        what="dots: some_missing, of much",
        explanation=f"What finding an identifier that is missing costs where "
        f"{scale.dots_small * HOLES_FACTOR:,} are, against {scale.dots_small:,}.",
        value=ratio(
            partial(_behind, scale.dots_small * HOLES_FACTOR, scale.timed),
            partial(_behind, scale.dots_small, scale.timed),
            scale.repeats,
            BAR,
        ),
        bar=BAR,
    )
    few = scale.dots_small
    count = max(1, scale.timed // 100)
    for what, which, prepare in prepares:
        yield Result(
            what=f"dots: {what}, with holes",
            explanation=f"What {which} costs with {few * HOLES_FACTOR:,} holes, "
            f"against {few:,}: linear is {HOLES_FACTOR}.",
            value=ratio(
                partial(prepare, _with_holes(few * HOLES_FACTOR), max(5, count)),
                partial(prepare, _with_holes(few), max(5, count)),
                scale.repeats,
                HOLES_BAR,
            ),
            bar=HOLES_BAR,
        )


BENCHMARK = Benchmark("dots", 2 * (1 + len(CALLS)) + 1, measure)
