"""What is asked for: endless streams of operations, drawn from a seed."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import msgspec

from creekdb import tpcc
from creekdb.errors import BadValue
from creekdb.tpcc.workload import Inputs, clients_of


class Asked(msgspec.Struct, frozen=True, gc=False):
    operation: str
    arguments: tuple[Any, ...]
    strong: bool


Stream: TypeAlias = Callable[[int], Asked]
"""What is asked for next at the replica of that place."""


def kv_stream(*, keys: int, value_bytes: int, reads: float, strong: float, seed: int) -> Stream:
    """Puts and gets of keys that are all as likely."""
    for name, share in (("reads", reads), ("strong", strong)):
        if not 0 <= share <= 1:
            raise BadValue(f"{name} is {share:g}: it is a share, from 0 to 1")
    if keys < 1 or value_bytes < 1:
        raise BadValue("there must be at least one key, and a value of at least one byte")
    source = Random(f"kv {seed}")
    values = [source.randbytes(value_bytes) for _ in range(64)]
    random = source.random

    def asked(_: int) -> Asked:
        key = f"key{int(random() * keys):08}"
        is_strong = random() < strong
        if reads and random() < reads:
            return Asked("get", (key,), is_strong)
        return Asked("put", (key, values[int(random() * 64)]), is_strong)

    return asked


def tpcc_stream(datatype: str, replicas: int, strong: float | None, seed: int) -> Stream:
    """TPC-C's mix at the terminals of each replica. `strong`: the share of transactions, drawn at
    random; None: every Payment, and nothing else."""
    populated = tpcc.populated(datatype)
    assert isinstance(populated.base, tpcc.PopulationBase)
    population = populated.base.population
    random = Random(f"tpcc {seed}")
    terminals = [
        [
            Inputs(populated, population, seed, client)
            for client in clients_of(replica, replicas, population.warehouses)
        ]
        for replica in range(replicas)
    ]

    def asked(replica: int) -> Asked:
        mine = terminals[replica % replicas]
        given = next(mine[int(random.random() * len(mine))])
        is_strong = given.strong if strong is None else random.random() < strong
        return Asked(given.operation.name, given.operation.arguments, is_strong)

    return asked
