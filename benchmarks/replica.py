"""The whole `BasicReplica`: the cost of an operation with many tentative ones, including protocol.

`basic` executes in the order of its list and rolls back everything after a late request. This cost
belongs to Algorithm 2, not to the protocol. So late requests are measured where no later request is
executed yet, and the re-executions of `basic` are counted separately.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import Timed, cheapest, ratio
from benchmarks.workloads import (
    INCREMENT,
    SETTINGS,
    decide,
    deliver,
    execute,
    executed_replica,
    late_requests,
    mixed_requests,
    weak_requests,
)
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast
from creekdb.protocol.request import Request

BAR = 2.0
TENTATIVE_PER_OPERATION = 5
"""Minimum number of tentative requests per operation on a replica that is used up."""


class Subject(ABC):
    """A replica with `length` tentative requests, and an action on it."""

    def __init__(self, length: int) -> None:
        self.length = length

    @abstractmethod
    def prepare(self, count: int) -> int:
        """Prepare `perform` for `count` requests; return the number of operations."""

    @abstractmethod
    def perform(self) -> None: ...


class Invoke(Subject):
    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.replica = executed_replica(weak_requests(length))
        self._count = 0

    def prepare(self, count: int) -> int:
        self._count = count
        return count

    def perform(self) -> None:
        for _ in range(self._count):
            self.replica.invoke(INCREMENT, False, 1, 0)
            execute(self.replica)


class Deliver(Subject):
    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.replica = executed_replica(weak_requests(length))
        self._delivered = length
        self._casts: list[Cast] = []

    def prepare(self, count: int) -> int:
        requests = weak_requests(count, start=self._delivered)
        self._casts = [Cast((each,)) for each in requests]
        self._delivered += count
        return count

    def perform(self) -> None:
        for cast in self._casts:
            self.replica.receive(cast, cast.requests[0].id.replica, 0)
            execute(self.replica)


class DeliverLate(Subject):
    """Late requests in the second half of the list, of which only the first half is executed."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        requests = weak_requests(length)
        self.replica = executed_replica(requests[: length // 2])
        deliver(self.replica, requests[length // 2 :])
        self.replica.take_effects()
        self._late = 0
        self._casts: list[Cast] = []

    def prepare(self, count: int) -> int:
        requests = late_requests(self._late + count, self.length // 2 + 2, self.length)
        self._casts = [Cast((each,)) for each in requests[self._late :]]
        self._late += count
        return count

    def perform(self) -> None:
        for cast in self._casts:
            self.replica.receive(cast, cast.requests[0].id.replica, 0)
            self.replica.take_effects()


class Commit(Subject):
    """Commits of strong requests that were executed at their positions, one by one."""

    def __init__(self, weak_per_strong: int, length: int) -> None:
        super().__init__(length)
        self.weak_per_strong = weak_per_strong
        self._stream = mixed_requests(weak_per_strong)
        first = list(islice(self._stream, length))
        self.replica = executed_replica(first)
        self._undecided = deque(each.id for each in first if each.strong)
        self._instance = 0
        self._batch: list[Dot] = []
        self._tentative = length

    def prepare(self, count: int) -> int:
        missing = self.length - self._tentative
        self._deliver_all(islice(self._stream, missing))
        size = self.weak_per_strong + 1
        self._batch = [self._undecided.popleft() for _ in range(max(1, count // size))]
        self._tentative = self.length - len(self._batch) * size
        return len(self._batch)

    def perform(self) -> None:
        for id in self._batch:
            decide(self.replica, self._instance, id)
            execute(self.replica)
            self._instance += 1

    def _deliver_all(self, requests: Iterator[Request]) -> None:
        while batch := list(islice(requests, 100)):
            deliver(self.replica, batch)
            execute(self.replica)
            self._undecided.extend(each.id for each in batch if each.strong)


class LifeCycle(Commit):
    """Arrivals, executions and commits in equal numbers, with `length` tentative requests."""

    def __init__(self, length: int) -> None:
        super().__init__(1, length)
        self._casts: list[Cast] = []

    def prepare(self, count: int) -> int:
        requests = list(islice(self._stream, count // 2 * 2))
        self._casts = [Cast((each,)) for each in requests]
        self._undecided.extend(each.id for each in requests if each.strong)
        self._batch = [self._undecided.popleft() for _ in range(count // 2)]
        return len(requests)

    def perform(self) -> None:
        for index, id in enumerate(self._batch):
            for cast in self._casts[2 * index : 2 * index + 2]:
                self.replica.receive(cast, cast.requests[0].id.replica, 0)
                execute(self.replica)
            decide(self.replica, self._instance, id)
            execute(self.replica)
            self._instance += 1


def measure_fresh(make: Callable[[int], Subject], length: int, operations: int) -> Timed:
    """Return a measurement of new replicas with few operations each."""
    count = min(operations, max(1, length // TENTATIVE_PER_OPERATION))
    subjects = [make(length) for _ in range(operations // count)]
    operation_count = sum(subject.prepare(count) for subject in subjects)
    return Timed(operation_count, lambda: [subject.perform() for subject in subjects])


def measure_reused(subject: Subject, operations: int) -> Timed:
    return Timed(subject.prepare(operations), subject.perform)


def measure(scale: Scale) -> Iterator[Result]:
    sizes = f"with {scale.large:,} tentative requests, relative to {scale.small:,}."
    cases: tuple[tuple[str, str, Callable[[int], Subject]], ...] = (
        ("invoke", "a weak operation, from its call to its response,", Invoke),
        ("deliver", "a peer's request, from its arrival to its execution,", Deliver),
        ("deliver late", "a late request, before its execution,", DeliverLate),
        ("commit, 1 weak per strong", "the decision on a strong request", partial(Commit, 1)),
        ("commit, 10 weak per strong", "the decision on a strong request", partial(Commit, 10)),
    )
    for what, description, make in cases:
        large = make(scale.large)
        yield Result(
            what=f"replica: {what}",
            explanation=f"Cost of {description} at a replica {sizes}",
            value=ratio(
                partial(measure_reused, large, scale.timed),
                partial(measure_fresh, make, scale.small, scale.timed),
                scale.repeats,
                BAR,
            ),
            bar=BAR,
        )
    yield _life_cycle(scale, sizes)
    yield from _late(scale)


def _life_cycle(scale: Scale, sizes: str) -> Result:
    operations = min(SETTINGS.checkpoint_every, scale.timed * 4)
    return Result(
        what="replica: whole life cycle",
        explanation="Cost of a request from its arrival to its commit, with its share of the "
        f"checkpoints, {sizes}",
        value=ratio(
            partial(measure_reused, LifeCycle(scale.large), operations),
            partial(measure_reused, LifeCycle(scale.small), operations),
            scale.repeats,
            BAR,
        ),
        bar=BAR,
    )


def _late(scale: Scale) -> Iterator[Result]:
    """Measure a late request in the middle of the executed ones: the worst case of `basic`."""
    executions: list[int] = []

    def late() -> Timed:
        replica = executed_replica(weak_requests(scale.late))
        (request,) = late_requests(1, scale.late // 2, scale.late)
        deliver(replica, [request])
        return Timed(scale.late // 2 + 1, lambda: executions.append(execute(replica)))

    def in_time() -> Timed:
        replica = executed_replica(weak_requests(scale.late))
        deliver(replica, weak_requests(scale.late // 2 + 1, start=scale.late))
        return Timed(scale.late // 2 + 1, lambda: execute(replica))

    again, once = cheapest((late, in_time), scale.repeats)
    yield Result(
        what="basic: executions for one late request",
        explanation=f"Requests that `basic` executes, or executes again, for one late request "
        f"in the middle of {scale.late:,} executed ones, as Algorithm 2 requires.",
        value=executions[-1] - scale.late // 2,
        unit="executions",
    )
    yield Result(
        what="basic: cost of a re-execution",
        explanation="Cost of rolling back a request and executing it again, relative to "
        "executing it once.",
        value=again / once,
    )


BENCHMARK = Benchmark("replica", 8, measure)
