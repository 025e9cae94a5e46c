"""What simulating TPC-C costs, beside executing the same transactions on a bare dict.

A whole simulation stands on one side: clients, five replicas of scheme `creek`, the network, what
is executed again, and the states in the end. On the other side the same transactions run five
times, one after the other, with nothing around them and every initial row at hand.
"""

from collections.abc import Iterator
from typing import Any, cast

from benchmarks.measuring import Timed, cheapest
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.shop import BareTransaction
from benchmarks.tpcc import Functions, Noted, functions
from creekdb.evaluation import Experiment, build_simulation, resolve_datatype
from creekdb.execution.transaction import Transaction
from creekdb.history import History
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.tpcc import PopulationBase

LAYOUT = "rows"
WAREHOUSES = 5
REPLICAS = 5
LOAD_TPS = 10_000
BAR = 3.0
SHARE_OF_A_SECOND = 5
"""A fifth of what other benchmarks simulate is enough: nothing about it changes with time."""
REPEATS_MAX = 2


def scenario(duration_us: int) -> Scenario:
    """As `creek simulate --workload tpcc --scheme creek --load 10000` has it."""
    return Experiment(
        scheme="creek",
        warehouses=WAREHOUSES,
        load_tps=LOAD_TPS,
        replicas=REPLICAS,
        layout=LAYOUT,
        duration_us=duration_us,
        warm_up_us=0,
    ).to_scenario()


def transactions(history: History) -> tuple[dict[Key, Any], list[Request]]:
    """What clients asked for, without what is rolled back, and the initial registers it needs."""
    datatype = resolve_datatype(history.datatype)
    assert isinstance(datatype.base, PopulationBase)
    state = Noted(datatype.base)
    requests: list[Request] = []
    for event, record in enumerate(history.operations, 1):
        request = Request(event, Dot(0, event), record.operation, strong=False)
        if state.apply(datatype, request).error is None:
            requests.append(request)
    return state.initial, requests


def bare(initial: dict[Key, Any], requests: list[Request], called: Functions) -> Timed:
    state = dict(initial)

    def run() -> None:
        for request in requests:
            operation = request.operation
            transaction = cast(Transaction, BareTransaction(state, request.timestamp))
            called[operation.name](transaction, *operation.arguments)

    return Timed(1, run)


def measure(scale: Scale) -> Iterator[Result]:
    simulated = scenario(scale.simulated_us // SHARE_OF_A_SECOND)
    initial, requests = transactions(build_simulation(simulated).run().history)
    called = functions(LAYOUT)
    simulation_ns, bare_ns = cheapest(
        (
            lambda: Timed(1, build_simulation(simulated).run),
            lambda: bare(initial, requests, called),
        ),
        min(scale.repeats, REPEATS_MAX),
    )
    yield Result(
        what="tpcc: a simulated second",
        explanation="What simulating TPC-C with 10,000 transactions per second on five replicas of "
        "creek costs, beside executing the same transactions five times on a bare dict.",
        value=simulation_ns / bare_ns / REPLICAS,
        bar=BAR,
    )
    yield Result(
        what="tpcc: a simulated transaction",
        explanation="What a transaction costs in that simulation, on all five replicas.",
        value=simulation_ns / len(requests) / 1000,
        unit="µs",
    )


BENCHMARK = Benchmark("tpcc-simulation", 2, measure)
