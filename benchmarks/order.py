"""`protocol.order.RequestOrder` alone: the cost of an operation on a long tentative list.

Short lists are measured in many copies with few operations each, so that a list keeps its length.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import Timed, ratio
from benchmarks.workloads import late_requests, mixed_requests, weak_requests
from creekdb.protocol.order import RequestOrder
from creekdb.protocol.request import Request

BAR = 2.0
ENTRIES_PER_OPERATION = 5
"""Minimum number of entries per operation on a list."""


def _filled(requests: list[Request]) -> RequestOrder:
    order = RequestOrder()
    for request in requests:
        order.insert(request)
    return order


Trial: TypeAlias = tuple[RequestOrder, list[Request]]
"""An order, and the requests to insert or commit."""


def _insert_at_tail(length: int, count: int) -> Trial:
    return _filled(weak_requests(length)), weak_requests(count, start=length)


def _insert_in_middle(scattered: bool, length: int, count: int) -> Trial:
    return _filled(weak_requests(length)), late_requests(count, 1, length, scattered)


def _commit_strong(weak_per_strong: int, length: int, count: int) -> Trial:
    requests = list(islice(mixed_requests(weak_per_strong), length))
    strong = [each for each in requests if each.strong]
    return _filled(requests), strong[: max(1, count // (weak_per_strong + 1))]


def _insert_all(trials: list[Trial]) -> None:
    for order, requests in trials:
        for request in requests:
            order.insert(request)


def _commit_all(trials: list[Trial]) -> None:
    for order, requests in trials:
        for request in requests:
            order.commit(request)


def _prepare(
    make: Callable[[int, int], Trial],
    run_all: Callable[[list[Trial]], None],
    length: int,
    operations: int,
) -> Timed:
    count = min(operations, length // ENTRIES_PER_OPERATION)
    trials = [make(length, count) for _ in range(operations // count)]
    return Timed(sum(len(requests) for _, requests in trials), lambda: run_all(trials))


class Case(NamedTuple):
    what: str
    description: str
    make: Callable[[int, int], Trial]
    run_all: Callable[[list[Trial]], None]
    bar: float | None = BAR


CASES = (
    Case(
        "insert at the tail",
        "A request that is later than all others",
        _insert_at_tail,
        _insert_all,
    ),
    Case(
        "insert in the middle",
        "One of many late requests, which arrive in order as after a partition",
        partial(_insert_in_middle, False),
        _insert_all,
    ),
    Case(
        "insert anywhere",
        "One of many late requests, each far from the previous one and so from every cache "
        "(`replica: deliver late` has the bar)",
        partial(_insert_in_middle, True),
        _insert_all,
        bar=None,
    ),
    Case(
        "commit, 1 weak per strong",
        "The commit of a strong request and the 1 weak one before it",
        partial(_commit_strong, 1),
        _commit_all,
    ),
    Case(
        "commit, 10 weak per strong",
        "The commit of a strong request and the 10 weak ones before it",
        partial(_commit_strong, 10),
        _commit_all,
    ),
)


def measure(scale: Scale) -> Iterator[Result]:
    for case in CASES:
        prepare = partial(_prepare, case.make, case.run_all)
        yield Result(
            what=f"order: {case.what}",
            explanation=f"{case.description}: its cost with {scale.large:,} tentative requests, "
            f"relative to {scale.small:,}.",
            value=ratio(
                partial(prepare, scale.large, scale.timed),
                partial(prepare, scale.small, scale.timed),
                scale.repeats,
                case.bar,
            ),
            bar=case.bar,
        )


BENCHMARK = Benchmark("order", len(CASES), measure)
