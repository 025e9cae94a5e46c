"""The whole of `BasicReplica`: what an operation costs with many tentative ones, protocol and all.

`basic` executes in the order of its list and takes back everything after a request that comes late:
that is Algorithm 2, not a cost of the protocol. So late requests are measured where nothing after
them is executed yet, and what `basic` does again is counted separately.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from benchmarks.measuring import Timed, cheapest, ratio
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.workloads import (
    INCREMENT,
    SETTINGS,
    caught_up,
    decide,
    deliver,
    execute,
    late_requests,
    mixed_requests,
    weak_requests,
)
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast
from creekdb.protocol.request import Request

BAR = 2.0
SHARE = 5
"""A replica that is used up is used for at most one operation per so many tentative ones."""


class Subject(ABC):
    """A replica with `length` tentative requests, and something it is asked to do."""

    def __init__(self, length: int) -> None:
        self.length = length

    @abstractmethod
    def ready(self, count: int) -> int:
        """Get ready to `act` on `count` requests; how many operations that will be."""

    @abstractmethod
    def act(self) -> None: ...


class Invoke(Subject):
    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.replica = caught_up(weak_requests(length))
        self._count = 0

    def ready(self, count: int) -> int:
        self._count = count
        return count

    def act(self) -> None:
        for _ in range(self._count):
            self.replica.invoke(INCREMENT, False, 1, 0)
            execute(self.replica)


class Deliver(Subject):
    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.replica = caught_up(weak_requests(length))
        self._delivered = length
        self._casts: list[Cast] = []

    def ready(self, count: int) -> int:
        requests = weak_requests(count, start=self._delivered)
        self._casts = [Cast((each,)) for each in requests]
        self._delivered += count
        return count

    def act(self) -> None:
        for cast in self._casts:
            self.replica.receive(cast, cast.requests[0].id.replica, 0)
            execute(self.replica)


class DeliverLate(Subject):
    """The first half is executed, and a late request comes somewhere in the second."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        requests = weak_requests(length)
        self.replica = caught_up(requests[: length // 2])
        deliver(self.replica, requests[length // 2 :])
        self.replica.take_effects()
        self._late = 0
        self._casts: list[Cast] = []

    def ready(self, count: int) -> int:
        requests = late_requests(self._late + count, self.length // 2 + 2, self.length)
        self._casts = [Cast((each,)) for each in requests[self._late :]]
        self._late += count
        return count

    def act(self) -> None:
        for cast in self._casts:
            self.replica.receive(cast, cast.requests[0].id.replica, 0)
            self.replica.take_effects()


class Commit(Subject):
    """Strong requests that were executed in their places are committed, one by one."""

    def __init__(self, weak_per_strong: int, length: int) -> None:
        super().__init__(length)
        self.weak_per_strong = weak_per_strong
        self._stream = mixed_requests(weak_per_strong)
        first = list(islice(self._stream, length))
        self.replica = caught_up(first)
        self._open = deque(each.id for each in first if each.strong)
        self._instance = 0
        self._now: list[Dot] = []
        self._tentative = length

    def ready(self, count: int) -> int:
        more = self.length - self._tentative
        self._take(islice(self._stream, more))
        size = self.weak_per_strong + 1
        self._now = [self._open.popleft() for _ in range(max(1, count // size))]
        self._tentative = self.length - len(self._now) * size
        return len(self._now)

    def act(self) -> None:
        for id in self._now:
            decide(self.replica, self._instance, id)
            execute(self.replica)
            self._instance += 1

    def _take(self, requests: Iterator[Request]) -> None:
        while some := list(islice(requests, 100)):
            deliver(self.replica, some)
            execute(self.replica)
            self._open.extend(each.id for each in some if each.strong)


class Life(Commit):
    """Requests come, are executed, and are committed as many later as there are tentative ones."""

    def __init__(self, length: int) -> None:
        super().__init__(1, length)
        self._casts: list[Cast] = []

    def ready(self, count: int) -> int:
        requests = list(islice(self._stream, count // 2 * 2))
        self._casts = [Cast((each,)) for each in requests]
        self._open.extend(each.id for each in requests if each.strong)
        self._now = [self._open.popleft() for _ in range(count // 2)]
        return len(requests)

    def act(self) -> None:
        for index, id in enumerate(self._now):
            for cast in self._casts[2 * index : 2 * index + 2]:
                self.replica.receive(cast, cast.requests[0].id.replica, 0)
                execute(self.replica)
            decide(self.replica, self._instance, id)
            execute(self.replica)
            self._instance += 1


def use_up(make: Callable[[int], Subject], length: int, operations: int) -> Timed:
    """Fresh replicas, each used a little."""
    count = min(operations, max(1, length // SHARE))
    subjects = [make(length) for _ in range(operations // count)]
    acts = sum(subject.ready(count) for subject in subjects)
    return Timed(acts, lambda: [subject.act() for subject in subjects])


def use_again(subject: Subject, operations: int) -> Timed:
    return Timed(subject.ready(operations), subject.act)


def measure(scale: Scale) -> Iterator[Result]:
    sizes = f"with {scale.large:,} tentative requests, against {scale.small:,}."
    cases: tuple[tuple[str, str, Callable[[int], Subject]], ...] = (
        ("invoke", "a weak operation costs from its call to its answer", Invoke),
        ("deliver", "a peer's request costs from its arrival to its execution", Deliver),
        ("deliver late", "a request that comes late, before it is executed, costs", DeliverLate),
        ("commit, 1 weak per strong", "deciding on a strong request costs", partial(Commit, 1)),
        ("commit, 10 weak per strong", "deciding on a strong request costs", partial(Commit, 10)),
    )
    for what, which, make in cases:
        large = make(scale.large)
        yield Result(
            what=f"replica: {what}",
            explanation=f"What {which} at a replica {sizes}",
            value=ratio(
                partial(use_again, large, scale.timed),
                partial(use_up, make, scale.small, scale.timed),
                scale.repeats,
                BAR,
            ),
            bar=BAR,
        )
    yield _whole_life(scale, sizes)
    yield from _late(scale)


def _whole_life(scale: Scale, sizes: str) -> Result:
    operations = min(SETTINGS.checkpoint_every, scale.timed * 4)
    return Result(
        what="replica: a whole life",
        explanation="What a request costs from its arrival to its commitment, its share of the "
        f"checkpoints included, {sizes}",
        value=ratio(
            partial(use_again, Life(scale.large), operations),
            partial(use_again, Life(scale.small), operations),
            scale.repeats,
            BAR,
        ),
        bar=BAR,
    )


def _late(scale: Scale) -> Iterator[Result]:
    """A request that comes late, in the middle of what is executed: the worst that `basic` does."""
    done: list[int] = []

    def late() -> Timed:
        replica = caught_up(weak_requests(scale.late))
        (request,) = late_requests(1, scale.late // 2, scale.late)
        deliver(replica, [request])
        return Timed(scale.late // 2 + 1, lambda: done.append(execute(replica)))

    def in_time() -> Timed:
        replica = caught_up(weak_requests(scale.late))
        deliver(replica, weak_requests(scale.late // 2 + 1, start=scale.late))
        return Timed(scale.late // 2 + 1, lambda: execute(replica))

    again, once = cheapest((late, in_time), scale.repeats)
    yield Result(
        what="basic: executions for one late request",
        explanation=f"How many requests `basic` executes, or executes again, when one comes late "
        f"in the middle of {scale.late:,} executed ones; Algorithm 2 wants it so.",
        value=done[-1] - scale.late // 2,
        unit="executions",
    )
    yield Result(
        what="basic: the price of executing again",
        explanation="What rolling a request back and executing it again costs, against "
        "executing it once.",
        value=again / once,
    )


BENCHMARK = Benchmark("replica", 8, measure)
