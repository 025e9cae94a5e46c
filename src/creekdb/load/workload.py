"""Workloads: endless streams of calls, drawn from a seed."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import msgspec

from creekdb import tpcc
from creekdb.errors import BadValue
from creekdb.tpcc.workload import TransactionInputs, client_numbers


class WorkloadCall(msgspec.Struct, frozen=True, gc=False):
    """One call of a workload."""

    operation: str
    arguments: tuple[Any, ...]
    strong: bool


Workload: TypeAlias = Callable[[int], WorkloadCall]
"""Function that returns the next call for the replica with that index."""


def kv_workload(*, keys: int, value_bytes: int, reads: float, strong: float, seed: int) -> Workload:
    """Return a workload of puts and gets on uniformly distributed keys."""
    for name, fraction in (("reads", reads), ("strong", strong)):
        if not 0 <= fraction <= 1:
            raise BadValue(f"{name} must be a fraction from 0 to 1, not {fraction:g}")
    if keys < 1 or value_bytes < 1:
        raise BadValue("the number of keys and the value size in bytes must be at least 1")
    source = Random(f"kv {seed}")
    values = [source.randbytes(value_bytes) for _ in range(64)]
    random = source.random

    def next_call(_: int) -> WorkloadCall:
        key = f"key{int(random() * keys):08}"
        is_strong = random() < strong
        if reads and random() < reads:
            return WorkloadCall("get", (key,), is_strong)
        return WorkloadCall("put", (key, values[int(random() * 64)]), is_strong)

    return next_call


def tpcc_workload(datatype: str, replicas: int, strong: float | None, seed: int) -> Workload:
    """Return a workload with the transaction mix of TPC-C, from the terminals of each replica.

    `strong` is the fraction of strong transactions, chosen at random. None makes every Payment
    strong, and no other transaction.
    """
    populated = tpcc.populated_datatype(datatype)
    assert isinstance(populated.base, tpcc.PopulationBase)
    population = populated.base.population
    random = Random(f"tpcc {seed}")
    terminals = [
        [
            TransactionInputs(populated, population, seed, client)
            for client in client_numbers(replica, replicas, population.warehouses)
        ]
        for replica in range(replicas)
    ]

    def next_call(replica: int) -> WorkloadCall:
        own_terminals = terminals[replica % replicas]
        transaction = next(own_terminals[int(random.random() * len(own_terminals))])
        is_strong = transaction.is_strong if strong is None else random.random() < strong
        operation = transaction.operation
        return WorkloadCall(operation.name, operation.arguments, is_strong)

    return next_call
