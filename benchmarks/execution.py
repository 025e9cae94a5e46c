"""Executing through the version store, against the same operations on a bare dict.

Uncontended: requests are executed in their order, one after the other, and each is settled once
`LAG` more are executed, as when commits follow soon. What is timed is what a replica does between
having a request in its place and being done with it for good, without protocol, messages and disk.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import msgspec
from sortedcontainers import SortedDict

from benchmarks import shop
from benchmarks.measuring import Timed, ratio
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import RequestEntry, committed_position, tentative_position
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key

BAR = 2.5
LAG = 50

COUNTED = DataType("shop, its lines counted", count_lines=True)
for name, function in shop.FUNCTIONS.items():
    COUNTED.operation(name=name)(function)


class Subject(Protocol):
    answers: list[Any]

    def run(self, asked: list[Request]) -> None: ...


Make: TypeAlias = Callable[[dict[Key, Any], bool], Subject]
"""From what is there, and whether it must be found in order."""


def requests(calls: shop.Calls, before: int = 0) -> list[Request]:
    return [
        Request(event, Dot(0, event), Operation(name, arguments), strong=False)
        for event, (name, arguments) in enumerate(calls, before + 1)
    ]


class Versioned:
    """A version store, used as `schemes.creek` uses it."""

    def __init__(
        self, state: dict[Key, Any], in_order: bool = True, datatype: DataType = shop.SHOP
    ) -> None:
        self.datatype = datatype
        self.store = VersionStore()
        arrived = StateLoader(datatype.base, digested=False)
        arrived.add(tuple(state.items()), ())
        self.store.load(arrived)
        self.answers: list[Any] = []
        self._executed: deque[RequestEntry] = deque()
        self._settled = 0

    def run(self, asked: list[Request]) -> None:
        store, executed, answers = self.store, self._executed, self.answers
        for request in asked:
            entry = RequestEntry(request, tentative_position(request))
            snapshot = store.snapshot(entry.position)
            execution = self.datatype.run(request, snapshot)
            execution = msgspec.structs.replace(execution, read_set=snapshot)
            assert store.install(entry, snapshot, execution)
            answers.append(execution.outcome.value)
            executed.append(entry)
            if len(executed) > LAG:
                self._settle()

    def settle_all(self) -> None:
        while self._executed:
            self._settle()

    def _settle(self) -> None:
        entry = self._executed.popleft()
        entry.position = committed_position(self._settled)
        self.store.stabilise(entry)
        self._settled += 1


class Bare:
    """A dict. Only where the operations scan, it is a sorted one."""

    def __init__(self, state: dict[Key, Any], in_order: bool = False) -> None:
        self.state = cast("dict[Key, Any]", SortedDict(state)) if in_order else dict(state)
        self.answers: list[Any] = []

    def run(self, asked: list[Request]) -> None:
        state, answers, functions = self.state, self.answers, shop.FUNCTIONS
        for request in asked:
            transaction = shop.BareTransaction(state, request.timestamp)
            operation = request.operation
            function = functions[operation.name]
            answers.append(function(cast(Transaction, transaction), *operation.arguments))


class Alone:
    """The data type, straight on a dict: without the version store."""

    def __init__(self, state: dict[Key, Any], in_order: bool = False) -> None:
        self.machine = shop.SHOP.sequential()
        self.machine.state = state
        self.answers: list[Any] = []

    def run(self, asked: list[Request]) -> None:
        self.answers += [self.machine.apply(request).value for request in asked]


class Case(NamedTuple):
    what: str
    explanation: str
    calls: Callable[[int], shop.Calls]
    before: Callable[[int], shop.Calls] | None = None
    """What is executed first, so that there is something to ask about."""
    in_order: bool = False
    measured: Make = Versioned
    against: Make = Bare
    bar: float | None = None


CASES = (
    Case(
        "several rows",
        "What an operation costs that is executed on the version store, validated and settled, "
        "against the same operation of the same data type on a bare dict: the price of versions. "
        "TPC-C's New-Order, Payment and Order-Status, 45 : 43 : 12; New-Order reads and writes "
        "some 30 rows.",
        shop.mix,
        against=Alone,
        bar=BAR,
    ),
    Case(
        "several rows, against hand-written code",
        "The same against the same function with a transaction of one-line methods on a dict: no "
        "checks of keys and values, no buffered writes, no errors caught, no steps counted.",
        shop.mix,
    ),
    Case(
        "several rows, without the store",
        "The part of it that is not the version store's: the data type on a bare dict, against the "
        "hand-written transaction.",
        shop.mix,
        measured=Alone,
    ),
    Case(
        "one row",
        "An operation that reads and writes one integer, on the version store against the same "
        "data type on a bare dict: mostly what is paid once per operation.",
        shop.touches,
        against=Alone,
    ),
    Case(
        "scans",
        "An operation that scans the lines of an order, on the version store against a dict that "
        "is kept sorted.",
        shop.questions,
        before=shop.new_orders,
        in_order=True,
    ),
    Case(
        "lines counted",
        "What counting lines costs an operation of several rows on the version store, against "
        "none counted.",
        shop.mix,
        measured=partial(Versioned, datatype=COUNTED),
        against=Versioned,
    ),
)


def prepare(case: Case, make: Make, count: int) -> Timed:
    subject = make(shop.population(), case.in_order)
    first = case.before(count) if case.before is not None else []
    subject.run(requests(first))
    asked = requests(case.calls(count), len(first))
    return Timed(len(asked), lambda: subject.run(asked))


def measure(scale: Scale) -> Iterator[Result]:
    for case in CASES:
        yield Result(
            what=f"execution: {case.what}",
            explanation=case.explanation,
            value=ratio(
                partial(prepare, case, case.measured, scale.timed),
                partial(prepare, case, case.against, scale.timed),
                scale.repeats,
                case.bar,
            ),
            bar=case.bar,
        )


BENCHMARK = Benchmark("execution", len(CASES), measure)
