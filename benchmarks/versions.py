"""The whole of `CreekReplica`: what an operation costs with many tentative ones, all executed.

Every case is measured with the versions *apart*, as many as are kept apart by default, and *in
stretches*: all but those of the last few requests. Nothing here conflicts; `benchmarks.conflicts`
counts what happens when something does.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

from benchmarks.measuring import ratio
from benchmarks.registers import REGISTERS
from benchmarks.replica import Subject, use_again, use_up
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.workloads import (
    GAP_US,
    ME,
    SCATTER,
    SETTINGS,
    STRONG,
    WEAK,
    catch_up,
    decide,
    execute,
)
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Cast
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica

BAR = 2.0
KEYS = 1_000
ALL = 1 << 30
FEW = 1_024

Operations: TypeAlias = Callable[[str, int], Operation]
"""What the request with that number does; the word tells apart what must not conflict."""


def spread(word: str, number: int) -> Operation:
    """Reads and writes one of many registers."""
    return Operation("update", (f"{word} {number % KEYS}", number))


def own(word: str, number: int) -> Operation:
    """Reads and writes a register that nobody else does."""
    return Operation("update", (f"{word} {number}", number))


def counted(_word: str, _number: int) -> Operation:
    """Adds to the one register that all add to."""
    return Operation("add", ("counter", 1))


def new_replica(kept_apart: int = ALL) -> CreekReplica:
    settings = Settings(members=SETTINGS.members, kept_apart=kept_apart)
    return CreekReplica(ME, settings, REGISTERS)


def requests(operations: Operations, count: int, start: int = 0) -> Iterator[Request]:
    """Weak ones, of one replica, in their order."""
    for event in range(start + 1, start + count + 1):
        yield Request(event * GAP_US, Dot(WEAK, event), operations("weak", event), strong=False)


class Tail(Subject):
    """Requests that are later than all others."""

    def __init__(self, kept_apart: int, operations: Operations, length: int) -> None:
        super().__init__(length)
        self.replica = new_replica(kept_apart)
        self._operations = operations
        catch_up(self.replica, requests(operations, length))
        self._casts: list[Cast] = []

    def ready(self, count: int) -> int:
        self._casts = [Cast((each,)) for each in self._next(count)]
        return count

    def act(self) -> None:
        for cast in self._casts:
            self.replica.receive(cast, cast.requests[0].id.replica, 0)
            execute(self.replica)

    def _next(self, count: int) -> Iterator[Request]:
        start, self.length = self.length, self.length + count
        return requests(self._operations, count, start)


class Late(Tail):
    """Requests whose place is anywhere in the middle of what is executed."""

    def __init__(
        self, kept_apart: int, operations: Operations, length: int, late: Operations = own
    ) -> None:
        super().__init__(kept_apart, operations, length)
        self._late_operations = late
        self._late = 0

    def _next(self, count: int) -> Iterator[Request]:
        for event in range(self._late + 1, self._late + count + 1):
            place = self.length // 4 + event * SCATTER % (self.length // 2)
            operation = self._late_operations("late", event)
            yield Request(place * GAP_US + GAP_US // 2, Dot(STRONG, event), operation, strong=False)
        self._late += count


class Read(Tail):
    """Weak operations that only read, answered on the spot."""

    def __init__(self, kept_apart: int, operations: Operations, length: int) -> None:
        super().__init__(kept_apart, operations, length)
        self._reads: list[Operation] = []
        self.answers = 0

    def ready(self, count: int) -> int:
        self._reads = [Operation("read", (f"weak {each % KEYS}",)) for each in range(count)]
        return count

    def act(self) -> None:
        for operation in self._reads:
            self.replica.invoke(operation, False, 1, 0)
            for task in self.replica.take_effects().tasks:
                self.replica.completed(task, self.replica.run(task), 0)
            self.answers += len(self.replica.take_effects().respond)


class Skip(Tail):
    """Strong requests, executed after all others, that are committed before all others."""

    def __init__(self, kept_apart: int, operations: Operations, length: int) -> None:
        super().__init__(kept_apart, operations, length)
        self._strong = 0
        self._ids: list[Dot] = []

    def ready(self, count: int) -> int:
        catch_up(self.replica, self._next(count))
        return count

    def act(self) -> None:
        for instance, id in enumerate(self._ids, self._strong - len(self._ids)):
            decide(self.replica, instance, id)
            execute(self.replica)

    def _next(self, count: int) -> Iterator[Request]:
        self._ids = [Dot(STRONG, self._strong + event) for event in range(1, count + 1)]
        self._strong += count
        for id in self._ids:
            timestamp = self.length * GAP_US + id.event
            operation = self._operations("strong", id.event)
            yield Request(timestamp, id, operation, True, Dots({}))


class InOrder(Skip):
    """Strong requests, each of which has seen one of the weak ones: the earliest, then the next."""

    def __init__(self, kept_apart: int, operations: Operations, length: int) -> None:
        super().__init__(kept_apart, operations, length)
        self._seen = 0

    def _next(self, count: int) -> Iterator[Request]:
        for request in super()._next(count):
            self._seen += 1
            context = Dots({WEAK: (1, self._seen + 1)})
            yield Request(self._seen * GAP_US + 1, request.id, request.operation, True, context)


class Case(NamedTuple):
    what: str
    which: str
    make: Callable[[int, Operations, int], Subject]
    operations: Operations = spread


CASES = (
    Case("tail", "a request costs that is later than all others", Tail),
    Case("late", "a request costs that comes late, in the middle of what is executed", Late),
    Case("local read", "a weak operation costs that only reads", Read),
    Case("skip", "committing a strong request before all that came before it costs", Skip),
    Case("in order", "committing a strong request and the weak one before it costs", InOrder),
    Case("tail, one register", "adding to a register costs that all add to", Tail, counted),
    Case(
        "late, one register",
        "adding to it costs when it comes late",
        partial(Late, late=counted),
        counted,
    ),
    Case("skip, one register", "committing an addition before all others costs", Skip, counted),
    Case(
        "in order, one register",
        "committing two additions costs, when all before them are committed",
        InOrder,
        counted,
    ),
)


def measure(scale: Scale) -> Iterator[Result]:
    for name, kept_apart in (("apart", SETTINGS.kept_apart), ("in stretches", FEW)):
        for case in CASES:
            make = partial(case.make, kept_apart, case.operations)
            yield Result(
                what=f"creek: {case.what}, {name}",
                explanation=f"What {case.which}, from its arrival to its execution, at a replica "
                f"with {scale.large:,} tentative requests, the versions of the last {kept_apart:,} "
                f"kept apart, against {scale.small:,}.",
                value=ratio(
                    partial(use_again, make(scale.large), scale.timed),
                    partial(use_up, make, scale.small, scale.timed),
                    scale.repeats,
                    BAR,
                ),
                bar=BAR,
            )


BENCHMARK = Benchmark("versions", 2 * len(CASES), measure)
