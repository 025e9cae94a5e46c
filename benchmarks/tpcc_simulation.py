"""Cost of simulating TPC-C, relative to executing the same transactions on a plain dict.

The measured side is a whole simulation: clients, five replicas of scheme `creek`, the network,
re-executions, and the final states. The reference executes the same transactions five times, one
after the other, with all initial rows computed beforehand.
"""

from collections.abc import Iterable, Iterator
from typing import Any, cast

from msgspec.structs import replace

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.shop import BareTransaction
from benchmarks.timing import Timed, cheapest, ratio
from benchmarks.tpcc import Functions, RecordingState, functions
from creekdb.evaluation import EXTENSIONS, Experiment, build_simulation
from creekdb.execution.transaction import Transaction
from creekdb.history import History
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.kernel.scenario import Scenario

LAYOUT = "rows"
WAREHOUSES = 5
REPLICAS = 5
LOAD_TPS = 10_000
BAR = 3.0
EXTENSIONS_BAR = 1.15
TIME_DIVISOR = 5
"""Divisor of the simulated time of other benchmarks; the costs do not change over time."""
REPEATS_MAX = 2


def scenario(duration_us: int, extensions: Iterable[str] = ()) -> Scenario:
    """Return the scenario of `creek simulate --workload tpcc --scheme creek --load 10000`."""
    experiment = Experiment(
        scheme="creek",
        warehouses=WAREHOUSES,
        load_tps=LOAD_TPS,
        replicas=REPLICAS,
        layout=LAYOUT,
        duration_us=duration_us,
        warm_up_us=0,
    )
    return replace(experiment, **dict.fromkeys(extensions, True)).to_scenario()


def transactions(history: History) -> tuple[dict[Key, Any], list[Request]]:
    """Return the initial registers that the calls need, and the requests that do not roll back."""
    datatype = load_datatype(history.datatype)
    state = RecordingState(datatype)
    requests: list[Request] = []
    for event, record in enumerate(history.operations, 1):
        request = Request(event, Dot(0, event), record.operation, strong=False)
        if state.apply(request).error is None:
            requests.append(request)
    return state.initial, requests


def time_on_dict(
    initial: dict[Key, Any], requests: list[Request], functions_by_name: Functions
) -> Timed:
    state = dict(initial)

    def run() -> None:
        for request in requests:
            operation = request.operation
            transaction = cast(Transaction, BareTransaction(state, request.timestamp))
            functions_by_name[operation.name](transaction, *operation.arguments)

    return Timed(1, run)


def measure(scale: Scale) -> Iterator[Result]:
    simulated = scenario(scale.simulated_us // TIME_DIVISOR)
    initial, requests = transactions(build_simulation(simulated).run().history)
    functions_by_name = functions(LAYOUT)
    simulation_ns, bare_ns = cheapest(
        (
            lambda: Timed(1, build_simulation(simulated).run),
            lambda: time_on_dict(initial, requests, functions_by_name),
        ),
        min(scale.repeats, REPEATS_MAX),
    )
    yield Result(
        what="tpcc: a simulated second",
        explanation="Cost of simulating TPC-C with 10,000 transactions per second on five replicas "
        "of creek, relative to executing the same transactions five times on a plain dict.",
        value=simulation_ns / bare_ns / REPLICAS,
        bar=BAR,
    )
    yield Result(
        what="tpcc: a simulated transaction",
        explanation="Cost of a transaction in that simulation, on all five replicas.",
        value=simulation_ns / len(requests) / 1000,
        unit="µs",
    )
    extended = scenario(simulated.duration_us, EXTENSIONS)
    yield Result(
        what="tpcc: a simulated transaction with all extensions",
        explanation="Relative to the same transactions without extensions.",
        value=ratio(
            lambda: Timed(1, build_simulation(extended).run),
            lambda: Timed(1, build_simulation(simulated).run),
            min(scale.repeats, REPEATS_MAX),
            EXTENSIONS_BAR,
        ),
        bar=EXTENSIONS_BAR,
    )


BENCHMARK = Benchmark("tpcc-simulation", 3, measure)
