"""Memory of `creek`: after commits, and while no commit is possible.

Every object reachable from a replica is visited, and its size as reported by Python is summed up.
This does not slow down the run, and the numbers are reproducible.
"""

import gc
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

from benchmarks.heal import ELECTION_TICKS, PER_TICK, run_until_stable
from benchmarks.network import Cluster
from benchmarks.registers import REGISTERS
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.versions import ALL, FEW, KEYS, Operations, new_replica, requests, update_shared
from benchmarks.workloads import catch_up
from creekdb.execution.mvcc.entry import RequestEntry, Version
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica

GROWTH_BAR = 1.2
MERGED_BAR = 0.9
STRONG_EVERY = 100
EARLY_SHARE = 100
"""Divisor of the operations before the first measurement."""
FEW_KEYS = 50
MEMBERS = (0, 1, 2)

NOT_DATA = (type, ModuleType, FunctionType, BuiltinFunctionType)


class Memory(NamedTuple):
    bytes: int
    versions: int
    entries: int


def memory_of(root: Any) -> Memory:
    """Return the memory of all objects reachable from `root`, except code."""
    seen = {id(root)}
    stack = [root]
    total_bytes = versions = entries = 0
    while stack:
        current = stack.pop()
        total_bytes += sys.getsizeof(current)
        versions += type(current) is Version
        entries += isinstance(current, RequestEntry)
        for referent in gc.get_referents(current):
            if id(referent) not in seen and not isinstance(referent, NOT_DATA):
                seen.add(id(referent))
                stack.append(referent)
    return Memory(total_bytes, versions, entries)


# --- committed ------------------------------------------------------------------------------------


def committed(operations: int) -> tuple[Memory, Memory]:
    """Return the memory of three replicas after few and after many operations, all committed."""
    cluster = Cluster(Settings(members=MEMBERS), scheme=CreekReplica, datatype=REGISTERS)
    for _ in range(ELECTION_TICKS):
        cluster.tick()
    early = operations // EARLY_SHARE
    return _memory_after(cluster, range(early)), _memory_after(cluster, range(early, operations))


def _memory_after(cluster: Cluster, numbers: range) -> Memory:
    for number in numbers:
        strong = number % STRONG_EVERY == 0
        cluster.invoke(number % len(MEMBERS), update_shared("register", number), strong)
        if number % PER_TICK == 0:
            cluster.tick()
    run_until_stable(cluster)
    return memory_of(cluster.replicas)


def _committed(scale: Scale) -> Iterator[Result]:
    early, late = committed(scale.committed)
    after = f"after {scale.committed:,} committed operations on {KEYS:,} registers"
    yield Result(
        what="memory: committed operations",
        explanation=f"Memory of three replicas {after}, relative to "
        f"{scale.committed // EARLY_SHARE:,}.",
        value=late.bytes / early.bytes,
        bar=GROWTH_BAR,
    )
    yield Result(
        what="memory: versions of committed operations",
        explanation=f"Versions per replica {after}: none, because only the last values remain.",
        value=late.versions / len(MEMBERS),
        unit="versions",
        bar=0,
        exact=True,
    )
    yield Result(
        what="memory: entries of committed operations",
        explanation=f"Requests that the version stores still refer to {after}: none.",
        value=late.entries,
        unit="entries",
        bar=0,
        exact=True,
    )


# --- tentative ------------------------------------------------------------------------------------


def operations_on(keys: int) -> Operations:
    def operation(prefix: str, number: int) -> Operation:
        return Operation("update", (f"{prefix} {number % keys}", number))

    return operation


class TentativeMemory(NamedTuple):
    memory: Memory
    merged_runs: int


def tentative(operations: int, keys: int, kept_apart: int) -> TentativeMemory:
    """Return the memory of a replica that has executed `operations` and cannot commit them."""
    replica = new_replica(kept_apart)
    catch_up(replica, requests(operations_on(keys), operations))
    probes = replica.view.probes.counts
    split_runs = probes.get(Probe.RUN_SPLIT, 0)
    return TentativeMemory(memory_of(replica), probes.get(Probe.RUN_MERGED, 0) - split_runs)


def _tentative(scale: Scale) -> Iterator[Result]:
    operations = scale.large
    alone = memory_of(list(requests(update_shared, operations)))
    yield _bytes("alone", "without a replica", alone.bytes, operations)
    for keys in (KEYS, FEW_KEYS):
        separate, merged = tentative(operations, keys, ALL), tentative(operations, keys, FEW)
        on = f"on {keys:,} registers"
        yield _bytes(f"{on}, separate", "with separate versions", separate.memory.bytes, operations)
        yield _bytes(
            f"{on}, merged",
            f"with the versions of all but {FEW:,} in merged runs",
            merged.memory.bytes,
            operations,
        )
        yield Result(
            what=f"memory: merged runs {on}",
            explanation=f"Memory of a replica with {operations:,} tentative requests whose "
            "versions are in merged runs, relative to separate versions. Both include the "
            "requests themselves and their responses.",
            value=merged.memory.bytes / separate.memory.bytes,
            bar=MERGED_BAR,
        )
        bound = keys * (1 + merged.merged_runs) + FEW
        yield Result(
            what=f"memory: versions in merged runs {on}",
            explanation=f"Number of versions with {merged.merged_runs:,} merged runs: at most "
            "one per register and run, and those of the unmerged requests.",
            value=merged.memory.versions,
            unit="versions",
            bar=bound,
        )


def _bytes(variant: str, description: str, total_bytes: int, operations: int) -> Result:
    return Result(
        what=f"memory: a tentative request {variant}",
        explanation=f"Memory per request, of {operations:,} tentative requests, {description}.",
        value=total_bytes / operations,
        unit="bytes",
    )


def measure(scale: Scale) -> Iterator[Result]:
    yield from _committed(scale)
    yield from _tentative(scale)


BENCHMARK = Benchmark("memory", 3 + 1 + 2 * 4, measure)
