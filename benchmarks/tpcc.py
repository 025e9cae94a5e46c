"""TPC-C's transactions alone: on a plain dict, with all initial rows computed beforehand.

All other costs come on top: the checks of a transaction, the version store, the protocol and the
simulator. Each transaction is timed alone, and the cheapest of several repetitions counts, per
kind.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from itertools import cycle, islice
from pathlib import Path
from time import process_time_ns
from types import ModuleType
from typing import Any, cast
from unittest.mock import patch

import creekdb
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.shop import BareTransaction
from benchmarks.timing import without_collector
from creekdb.execution.datatype import DataType
from creekdb.execution.sequential import Sequential
from creekdb.execution.transaction import ABSENT, Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key
from creekdb.tpcc import (
    TRANSACTION_SHARES,
    Population,
    TransactionInputs,
    datatype_on_population,
    transactions,
)
from creekdb.tpcc import layout as compiled_layout
from creekdb.tpcc.datatype import READ_TRANSACTIONS, UPDATE_TRANSACTIONS

PYTHON_LAYOUTS = ("rows", "fine")
"""Layouts whose transactions need no SQL engine; benchmark `sql` measures the other one."""
SEED = 1
WAREHOUSES = 5
TERMINALS = 10 * WAREHOUSES

Functions = dict[str, Callable[..., Any]]


class RecordingState(Sequential):
    """State that records the initial registers that were read."""

    def __init__(self, datatype: DataType) -> None:
        super().__init__(datatype)
        self.initial: dict[Key, Any] = {}

    def read(self, key: Key) -> Any:
        value = self.datatype.base.read(key)
        if value is not ABSENT:
            self.initial[key] = value
        return super().read(key)


def functions(layout: str) -> Functions:
    """Return the transactions. Their modules are interpreted, since compiled code accepts only a
    `Transaction`."""
    interpreted_layout = _interpreted(compiled_layout)
    with patch.dict(sys.modules, {compiled_layout.__name__: interpreted_layout}):
        interpreted = _interpreted(transactions)
    tables = interpreted_layout.TpccTables(layout)
    names = (*UPDATE_TRANSACTIONS, *READ_TRANSACTIONS)
    return {name: partial(getattr(interpreted, name), tables) for name in names}


def _interpreted(module: ModuleType) -> ModuleType:
    """Return another copy of the module, from its source."""
    _, *packages, name = module.__name__.split(".")
    path = Path(creekdb.__file__).parent.joinpath(*packages, f"{name}.py")
    spec = spec_from_file_location(f"interpreted_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    copy = module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


def workload(layout: str, count: int) -> tuple[dict[Key, Any], list[Request]]:
    """Return the initial registers that the requests need, and requests that do not roll back."""
    population = Population(SEED, WAREHOUSES)
    datatype = datatype_on_population(population, layout)
    state = RecordingState(datatype)
    clients = [TransactionInputs(datatype, population, SEED, client) for client in range(TERMINALS)]
    requests: list[Request] = []
    for event, client in enumerate(islice(cycle(clients), count), 1):
        request = Request(event, Dot(0, event), next(client).operation, strong=False)
        if state.apply(request).error is None:
            requests.append(request)
    return state.initial, requests


def run(state: dict[Key, Any], requests: list[Request], by_name: Functions) -> dict[str, float]:
    """Return the average nanoseconds of each kind."""
    durations_ns: dict[str, list[int]] = {}
    with without_collector():
        for request in requests:
            operation = request.operation
            start = process_time_ns()
            transaction = cast(Transaction, BareTransaction(state, request.timestamp))
            by_name[operation.name](transaction, *operation.arguments)
            durations_ns.setdefault(operation.name, []).append(process_time_ns() - start)
    return {kind: sum(each) / len(each) for kind, each in durations_ns.items()}


def measure(scale: Scale) -> Iterator[Result]:
    for layout in PYTHON_LAYOUTS:
        state, requests = workload(layout, scale.timed)
        by_name = functions(layout)
        repetitions = [run(dict(state), requests, by_name) for _ in range(scale.repeats)]
        cheapest = {kind: min(each[kind] for each in repetitions) / 1000 for kind in repetitions[0]}
        costs_text = ", ".join(
            f"{kind} {cheapest[kind]:.0f}" for kind in TRANSACTION_SHARES if kind in cheapest
        )
        share = sum(TRANSACTION_SHARES[kind] for kind in cheapest)
        yield Result(
            what=f"tpcc: a transaction, layout {layout}",
            explanation=f"Cost of a transaction on a plain dict; by kind, in µs: {costs_text}.",
            value=sum(TRANSACTION_SHARES[kind] * each for kind, each in cheapest.items()) / share,
            unit="µs",
        )


BENCHMARK = Benchmark("tpcc", len(PYTHON_LAYOUTS), measure)
