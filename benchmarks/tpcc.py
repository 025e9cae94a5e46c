"""TPC-C's transactions by themselves: on a bare dict, with every initial row computed beforehand.

This is what everything else is added to: the checks of a transaction, the version store, the
protocol and the simulator. A transaction is timed alone; of several repeats the cheapest counts,
for each kind.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from time import process_time_ns
from typing import Any, cast

from benchmarks.measuring import without_collector
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.shop import BareTransaction
from creekdb.execution.transaction import ABSENT, Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key
from creekdb.tpcc import (
    LAYOUTS,
    TRANSACTION_SHARES,
    OverlayState,
    Population,
    PopulationBase,
    TransactionInputs,
    tpcc_datatype,
)
from creekdb.tpcc.datatype import READ_TRANSACTIONS, UPDATE_TRANSACTIONS
from creekdb.tpcc.layout import TpccTables

SEED = 1
WAREHOUSES = 5
TERMINALS = 10 * WAREHOUSES

Functions = dict[str, Callable[..., Any]]


class Noted(OverlayState):
    """Remembers what was read of the initial data."""

    def __init__(self, base: PopulationBase) -> None:
        super().__init__(base)
        self.initial: dict[Key, Any] = {}

    def read(self, key: Key) -> Any:
        value = self.base.read(key)
        if value is not ABSENT:
            self.initial[key] = value
        return super().read(key)


def functions(layout: str) -> Functions:
    tables = TpccTables(layout)
    return {
        each.__name__: partial(each, tables) for each in (*UPDATE_TRANSACTIONS, *READ_TRANSACTIONS)
    }


def workload(layout: str, count: int) -> tuple[dict[Key, Any], list[Request]]:
    """The initial registers that are needed, and requests, without those that are rolled back."""
    declared, population = tpcc_datatype(layout), Population(SEED, WAREHOUSES)
    state = Noted(PopulationBase(population, layout))
    clients = [TransactionInputs(declared, population, SEED, client) for client in range(TERMINALS)]
    requests: list[Request] = []
    for event, client in enumerate(islice(cycle(clients), count), 1):
        request = Request(event, Dot(0, event), next(client).operation, strong=False)
        if state.apply(declared, request).error is None:
            requests.append(request)
    return state.initial, requests


def run(state: dict[Key, Any], requests: list[Request], called: Functions) -> dict[str, float]:
    """The nanoseconds that each kind took on average."""
    spent: dict[str, list[int]] = {}
    with without_collector():
        for request in requests:
            operation = request.operation
            start = process_time_ns()
            transaction = cast(Transaction, BareTransaction(state, request.timestamp))
            called[operation.name](transaction, *operation.arguments)
            spent.setdefault(operation.name, []).append(process_time_ns() - start)
    return {kind: sum(each) / len(each) for kind, each in spent.items()}


def measure(scale: Scale) -> Iterator[Result]:
    for layout in LAYOUTS:
        state, requests = workload(layout, scale.timed)
        called = functions(layout)
        rounds = [run(dict(state), requests, called) for _ in range(scale.repeats)]
        cheapest = {kind: min(each[kind] for each in rounds) / 1000 for kind in rounds[0]}
        told = ", ".join(
            f"{kind} {cheapest[kind]:.0f}" for kind in TRANSACTION_SHARES if kind in cheapest
        )
        share = sum(TRANSACTION_SHARES[kind] for kind in cheapest)
        yield Result(
            what=f"tpcc: a transaction, layout {layout}",
            explanation=f"What a transaction of the mix costs on a bare dict, in µs: {told}.",
            value=sum(TRANSACTION_SHARES[kind] * each for kind, each in cheapest.items()) / share,
            unit="µs",
        )


BENCHMARK = Benchmark("tpcc", len(LAYOUTS), measure)
