"""The whole `CreekReplica`: the cost of an operation with many tentative ones, all executed.

Every case is measured with *separate* versions, up to the default number, and with *merged* ones:
only the last few requests keep versions of their own. No operations conflict;
`benchmarks.conflicts` counts the re-executions of those that do.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

from benchmarks.registers import REGISTERS
from benchmarks.replica import Subject, measure_fresh, measure_reused
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import ratio
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
"""Returns the operation of a request, by number. The word separates disjoint sets of registers."""


def update_shared(prefix: str, number: int) -> Operation:
    """Return an operation that reads and writes one of many registers."""
    return Operation("update", (f"{prefix} {number % KEYS}", number))


def update_own(prefix: str, number: int) -> Operation:
    """Return an operation that reads and writes a register of its own."""
    return Operation("update", (f"{prefix} {number}", number))


def add_common(_prefix: str, _number: int) -> Operation:
    """Return an operation that adds to a common register."""
    return Operation("add", ("counter", 1))


def new_replica(kept_apart: int = ALL) -> CreekReplica:
    settings = Settings(members=SETTINGS.members, kept_apart=kept_apart)
    return CreekReplica(ME, settings, REGISTERS)


def requests(operations: Operations, count: int, start: int = 0) -> Iterator[Request]:
    """Yield weak requests of one replica, in order."""
    for event in range(start + 1, start + count + 1):
        yield Request(event * GAP_US, Dot(WEAK, event), operations("weak", event), strong=False)


class TailRequests(Subject):
    """Requests that are later than all others."""

    def __init__(self, kept_apart: int, operations: Operations, length: int) -> None:
        super().__init__(length)
        self.replica = new_replica(kept_apart)
        self._operations = operations
        catch_up(self.replica, requests(operations, length))
        self._casts: list[Cast] = []

    def prepare(self, count: int) -> int:
        self._casts = [Cast((each,)) for each in self._next(count)]
        return count

    def perform(self) -> None:
        for cast in self._casts:
            self.replica.receive(cast, cast.requests[0].id.replica, 0)
            execute(self.replica)

    def _next(self, count: int) -> Iterator[Request]:
        start, self.length = self.length, self.length + count
        return requests(self._operations, count, start)


class LateRequests(TailRequests):
    """Requests with positions in the middle of the executed ones."""

    def __init__(
        self,
        kept_apart: int,
        operations: Operations,
        length: int,
        late_operations: Operations = update_own,
    ) -> None:
        super().__init__(kept_apart, operations, length)
        self._late_operations = late_operations
        self._late = 0

    def _next(self, count: int) -> Iterator[Request]:
        for event in range(self._late + 1, self._late + count + 1):
            position = self.length // 4 + event * SCATTER % (self.length // 2)
            operation = self._late_operations("late", event)
            yield Request(
                position * GAP_US + GAP_US // 2, Dot(STRONG, event), operation, strong=False
            )
        self._late += count


class LocalReads(TailRequests):
    """Weak read-only operations, answered immediately."""

    def __init__(self, kept_apart: int, operations: Operations, length: int) -> None:
        super().__init__(kept_apart, operations, length)
        self._reads: list[Operation] = []
        self.response_count = 0

    def prepare(self, count: int) -> int:
        self._reads = [Operation("read", (f"weak {each % KEYS}",)) for each in range(count)]
        return count

    def perform(self) -> None:
        for operation in self._reads:
            self.replica.invoke(operation, False, 1, 0)
            for task in self.replica.take_effects().tasks:
                self.replica.completed(task, self.replica.run(task), 0)
            self.response_count += len(self.replica.take_effects().respond)


class SkippingCommits(TailRequests):
    """Strong requests, executed after all others and committed before all others."""

    def __init__(self, kept_apart: int, operations: Operations, length: int) -> None:
        super().__init__(kept_apart, operations, length)
        self._strong = 0
        self._ids: list[Dot] = []

    def prepare(self, count: int) -> int:
        catch_up(self.replica, self._next(count))
        return count

    def perform(self) -> None:
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


class CommitsInOrder(SkippingCommits):
    """Strong requests whose causal contexts grow by one weak request each, from the earliest."""

    def __init__(self, kept_apart: int, operations: Operations, length: int) -> None:
        super().__init__(kept_apart, operations, length)
        self._context_length = 0

    def _next(self, count: int) -> Iterator[Request]:
        for request in super()._next(count):
            self._context_length += 1
            context = Dots({WEAK: (1, self._context_length + 1)})
            yield Request(
                self._context_length * GAP_US + 1, request.id, request.operation, True, context
            )


class Case(NamedTuple):
    what: str
    description: str
    make: Callable[[int, Operations, int], Subject]
    operations: Operations = update_shared


CASES = (
    Case("tail", "a request that is later than all others", TailRequests),
    Case("late", "a late request, in the middle of the executed ones", LateRequests),
    Case("local read", "a weak read-only operation", LocalReads),
    Case("skip", "the commit of a strong request before all earlier ones", SkippingCommits),
    Case("in order", "the commit of a strong request and the weak one before it", CommitsInOrder),
    Case("tail, one register", "an addition to a common register", TailRequests, add_common),
    Case(
        "late, one register",
        "a late addition to a common register",
        partial(LateRequests, late_operations=add_common),
        add_common,
    ),
    Case(
        "skip, one register",
        "the commit of an addition before all others",
        SkippingCommits,
        add_common,
    ),
    Case(
        "in order, one register",
        "the commit of two additions whose predecessors are committed",
        CommitsInOrder,
        add_common,
    ),
)


def measure(scale: Scale) -> Iterator[Result]:
    for name, kept_apart in (("separate", SETTINGS.kept_apart), ("merged", FEW)):
        for case in CASES:
            make = partial(case.make, kept_apart, case.operations)
            yield Result(
                what=f"creek: {case.what}, {name}",
                explanation=f"Cost of {case.description}, from its arrival to its execution, at a "
                f"replica with {scale.large:,} tentative requests, with separate versions of the "
                f"last {kept_apart:,}, relative to {scale.small:,}.",
                value=ratio(
                    partial(measure_reused, make(scale.large), scale.timed),
                    partial(measure_fresh, make, scale.small, scale.timed),
                    scale.repeats,
                    BAR,
                ),
                bar=BAR,
            )


BENCHMARK = Benchmark("versions", 2 * len(CASES), measure)
