"""`protocol.order.Order` alone: what an operation costs on a long tentative list.

Short lists are measured in many copies, each used a little, so that a list keeps its length.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from benchmarks.measuring import Timed, ratio
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.workloads import late_requests, mixed_requests, weak_requests
from creekdb.protocol.order import RequestOrder
from creekdb.protocol.request import Request

BAR = 2.0
SHARE = 5
"""A list is used for at most one operation per so many entries."""


def _filled(requests: list[Request]) -> RequestOrder:
    order = RequestOrder()
    for request in requests:
        order.insert(request)
    return order


Use: TypeAlias = tuple[RequestOrder, list[Request]]
"""An order, and what is to be inserted or committed."""


def _tail(length: int, count: int) -> Use:
    return _filled(weak_requests(length)), weak_requests(count, start=length)


def _middle(scattered: bool, length: int, count: int) -> Use:
    return _filled(weak_requests(length)), late_requests(count, 1, length, scattered)


def _commit(weak_per_strong: int, length: int, count: int) -> Use:
    requests = list(islice(mixed_requests(weak_per_strong), length))
    strong = [each for each in requests if each.strong]
    return _filled(requests), strong[: max(1, count // (weak_per_strong + 1))]


def _insert_all(uses: list[Use]) -> None:
    for order, requests in uses:
        for request in requests:
            order.insert(request)


def _commit_all(uses: list[Use]) -> None:
    for order, requests in uses:
        for request in requests:
            order.commit(request)


def _prepare(
    make: Callable[[int, int], Use],
    use_all: Callable[[list[Use]], None],
    length: int,
    operations: int,
) -> Timed:
    count = min(operations, length // SHARE)
    uses = [make(length, count) for _ in range(operations // count)]
    return Timed(sum(len(requests) for _, requests in uses), lambda: use_all(uses))


class Case(NamedTuple):
    what: str
    which: str
    make: Callable[[int, int], Use]
    use_all: Callable[[list[Use]], None]
    bar: float | None = BAR


CASES = (
    Case("insert at the tail", "A request that is later than all others", _tail, _insert_all),
    Case(
        "insert in the middle",
        "One of many late requests, which come in their order as after a partition",
        partial(_middle, False),
        _insert_all,
    ),
    Case(
        "insert anywhere",
        "One of many late requests, each far from the one before and so from every cache "
        "(`replica: deliver late` has the bar)",
        partial(_middle, True),
        _insert_all,
        bar=None,
    ),
    Case(
        "commit, 1 weak per strong",
        "Committing a strong request and the 1 weak one before it",
        partial(_commit, 1),
        _commit_all,
    ),
    Case(
        "commit, 10 weak per strong",
        "Committing a strong request and the 10 weak ones before it",
        partial(_commit, 10),
        _commit_all,
    ),
)


def measure(scale: Scale) -> Iterator[Result]:
    for case in CASES:
        prepare = partial(_prepare, case.make, case.use_all)
        yield Result(
            what=f"order: {case.what}",
            explanation=f"{case.which}: what it costs with {scale.large:,} tentative requests, "
            f"against {scale.small:,}.",
            value=ratio(
                partial(prepare, scale.large, scale.timed),
                partial(prepare, scale.small, scale.timed),
                scale.repeats,
                case.bar,
            ),
            bar=case.bar,
        )


BENCHMARK = Benchmark("order", len(CASES), measure)
