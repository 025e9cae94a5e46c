"""What is asked for: endless streams of operations, drawn from a seed."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import msgspec

from creekdb import tpcc
from creekdb.errors import BadValue
from creekdb.tpcc.workload import TransactionInputs, client_numbers


class WorkloadCall(msgspec.Struct, frozen=True, gc=False):
    operation: str
    arguments: tuple[Any, ...]
    strong: bool


Workload: TypeAlias = Callable[[int], WorkloadCall]
"""What is asked for next at the replica of that place."""


def kv_workload(*, keys: int, value_bytes: int, reads: float, strong: float, seed: int) -> Workload:
    """Puts and gets of keys that are all as likely."""
    for name, share in (("reads", reads), ("strong", strong)):
        if not 0 <= share <= 1:
            raise BadValue(f"{name} is {share:g}: it is a share, from 0 to 1")
    if keys < 1 or value_bytes < 1:
        raise BadValue("there must be at least one key, and a value of at least one byte")
    source = Random(f"kv {seed}")
    values = [source.randbytes(value_bytes) for _ in range(64)]
    random = source.random

    def asked(_: int) -> WorkloadCall:
        key = f"key{int(random() * keys):08}"
        is_strong = random() < strong
        if reads and random() < reads:
            return WorkloadCall("get", (key,), is_strong)
        return WorkloadCall("put", (key, values[int(random() * 64)]), is_strong)

    return asked


def tpcc_workload(datatype: str, replicas: int, strong: float | None, seed: int) -> Workload:
    """TPC-C's mix at the terminals of each replica. `strong`: the share of transactions, drawn at
    random; None: every Payment, and nothing else."""
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

    def asked(replica: int) -> WorkloadCall:
        mine = terminals[replica % replicas]
        given = next(mine[int(random.random() * len(mine))])
        is_strong = given.is_strong if strong is None else random.random() < strong
        return WorkloadCall(given.operation.name, given.operation.arguments, is_strong)

    return asked
