"""Execution on the version store, relative to the same operations on a plain dict.

Requests execute in order without conflicts. Each one stabilises after `LAG` more are executed, as
if commits followed soon. The timed part is that between a request's arrival at its position and its
stabilisation, without protocol, messages and disk.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from sortedcontainers import SortedDict

from benchmarks import shop
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import Timed, ratio
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

COUNTED = DataType("shop with line counts", count_lines=True)
for name, function in shop.FUNCTIONS.items():
    COUNTED.operation(name=name)(function)


class Subject(Protocol):
    responses: list[Any]

    def run(self, batch: list[Request]) -> None: ...


MakeSubject: TypeAlias = Callable[[dict[Key, Any], bool], Subject]
"""Creates a subject from its initial state and a flag for sorted keys."""


def requests(calls: shop.Calls, before: int = 0) -> list[Request]:
    return [
        Request(event, Dot(0, event), Operation(name, arguments), strong=False)
        for event, (name, arguments) in enumerate(calls, before + 1)
    ]


class VersionStoreSubject:
    """A version store, used as `schemes.creek` uses it."""

    def __init__(
        self, state: dict[Key, Any], sorted_keys: bool = True, datatype: DataType = shop.SHOP
    ) -> None:
        self.datatype = datatype
        self.store = VersionStore(datatype.base)
        loader = StateLoader(datatype.base, with_digest=False)
        loader.add(tuple(state.items()), ())
        self.store.load(loader)
        self.responses: list[Any] = []
        self._executed: deque[RequestEntry] = deque()
        self._stable_count = 0

    def run(self, batch: list[Request]) -> None:
        store, executed, responses = self.store, self._executed, self.responses
        for request in batch:
            entry = RequestEntry(request, tentative_position(request))
            snapshot = store.snapshot(entry.position)
            execution = self.datatype.run(request, snapshot)
            execution = execution.with_read_set(snapshot)
            assert store.install(entry, snapshot, execution)
            responses.append(execution.outcome.value)
            executed.append(entry)
            if len(executed) > LAG:
                self._stabilise()

    def stabilise_all(self) -> None:
        while self._executed:
            self._stabilise()

    def _stabilise(self) -> None:
        entry = self._executed.popleft()
        entry.position = committed_position(self._stable_count)
        self.store.stabilise(entry)
        self._stable_count += 1


class DictSubject:
    """A plain dict; sorted if operations scan."""

    def __init__(self, state: dict[Key, Any], sorted_keys: bool = False) -> None:
        self.state = cast("dict[Key, Any]", SortedDict(state)) if sorted_keys else dict(state)
        self.responses: list[Any] = []

    def run(self, batch: list[Request]) -> None:
        state, responses, functions = self.state, self.responses, shop.FUNCTIONS
        for request in batch:
            transaction = shop.BareTransaction(state, request.timestamp)
            operation = request.operation
            function = functions[operation.name]
            responses.append(function(cast(Transaction, transaction), *operation.arguments))


class SequentialSubject:
    """The data type on a dict, without the version store."""

    def __init__(self, state: dict[Key, Any], sorted_keys: bool = False) -> None:
        self.sequential = shop.SHOP.sequential()
        self.sequential.state = state
        self.responses: list[Any] = []

    def run(self, batch: list[Request]) -> None:
        self.responses += [self.sequential.apply(request).value for request in batch]


class Case(NamedTuple):
    what: str
    explanation: str
    calls: Callable[[int], shop.Calls]
    before: Callable[[int], shop.Calls] | None = None
    """Calls that are executed first, to create rows for the measured ones."""
    sorted_keys: bool = False
    measured: MakeSubject = VersionStoreSubject
    against: MakeSubject = DictSubject
    bar: float | None = None


CASES = (
    Case(
        "several rows",
        "Execution, validation and stabilisation of an operation on the version store, relative to "
        "the same operation of the same data type on a plain dict: the cost of versions. "
        "TPC-C's New-Order, Payment and Order-Status, 45 : 43 : 12; a New-Order reads and writes "
        "some 30 rows.",
        shop.transaction_mix,
        against=SequentialSubject,
        bar=BAR,
    ),
    Case(
        "several rows, relative to hand-written code",
        "The same, relative to the same function with a transaction of one-line methods on a dict. "
        "It has no checks of keys and values, no buffered writes, caught errors or counted steps.",
        shop.transaction_mix,
    ),
    Case(
        "several rows, without the store",
        "The share outside of the version store: the data type on a plain dict, relative to the "
        "hand-written transaction.",
        shop.transaction_mix,
        measured=SequentialSubject,
    ),
    Case(
        "one row",
        "An operation that reads and writes one integer, on the version store relative to the same "
        "data type on a plain dict: mostly the fixed cost per operation.",
        shop.increments,
        against=SequentialSubject,
    ),
    Case(
        "scans",
        "An operation that scans the lines of an order, on the version store relative to a sorted "
        "dict.",
        shop.order_line_queries,
        before=shop.new_orders,
        sorted_keys=True,
    ),
    Case(
        "lines counted",
        "The cost of counting lines for an operation of several rows on the version store, "
        "relative to no counting.",
        shop.transaction_mix,
        measured=partial(VersionStoreSubject, datatype=COUNTED),
        against=VersionStoreSubject,
    ),
)


def prepare(case: Case, make: MakeSubject, count: int) -> Timed:
    subject = make(shop.population(), case.sorted_keys)
    first = case.before(count) if case.before is not None else []
    subject.run(requests(first))
    batch = requests(case.calls(count), len(first))
    return Timed(len(batch), lambda: subject.run(batch))


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
