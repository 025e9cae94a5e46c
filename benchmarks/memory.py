"""What `creek` keeps in memory: for ever, and while nothing can be committed.

Every object that can be reached from a replica is visited, and its bytes are summed up as Python
tells them. That costs the run nothing, and the numbers are the same each time.
"""

import gc
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

from benchmarks.heal import ELECTION_TICKS, PER_TICK, bring_to_rest
from benchmarks.network import Cluster
from benchmarks.registers import REGISTERS
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.versions import ALL, FEW, KEYS, Operations, new_replica, requests, spread
from benchmarks.workloads import catch_up
from creekdb.execution.mvcc.entry import RequestEntry, Version
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica

GROWTH_BAR = 1.2
STRETCHES_BAR = 0.9
STRONG_EVERY = 100
EARLY_SHARE = 100
"""The first look at the memory comes after a hundredth of the operations."""
FEW_KEYS = 50
MEMBERS = (0, 1, 2)

NOT_DATA = (type, ModuleType, FunctionType, BuiltinFunctionType)


class Memory(NamedTuple):
    bytes: int
    versions: int
    entries: int


def memory_of(root: Any) -> Memory:
    """Of all that can be reached from there, but for code."""
    seen = {id(root)}
    found = [root]
    bytes_ = versions = entries = 0
    while found:
        each = found.pop()
        bytes_ += sys.getsizeof(each)
        versions += type(each) is Version
        entries += isinstance(each, RequestEntry)
        for other in gc.get_referents(each):
            if id(other) not in seen and not isinstance(other, NOT_DATA):
                seen.add(id(other))
                found.append(other)
    return Memory(bytes_, versions, entries)


# --- committed ------------------------------------------------------------------------------------


def committed(operations: int) -> tuple[Memory, Memory]:
    """Of three replicas, after a few operations and after many; everything is committed."""
    cluster = Cluster(Settings(members=MEMBERS), scheme=CreekReplica, datatype=REGISTERS)
    for _ in range(ELECTION_TICKS):
        cluster.tick()
    early = operations // EARLY_SHARE
    return _memory_after(cluster, range(early)), _memory_after(cluster, range(early, operations))


def _memory_after(cluster: Cluster, numbers: range) -> Memory:
    for number in numbers:
        strong = number % STRONG_EVERY == 0
        cluster.invoke(number % len(MEMBERS), spread("register", number), strong)
        if number % PER_TICK == 0:
            cluster.tick()
    bring_to_rest(cluster)
    return memory_of(cluster.replicas)


def _committed(scale: Scale) -> Iterator[Result]:
    early, late = committed(scale.committed)
    after = f"after {scale.committed:,} committed operations on {KEYS:,} registers"
    yield Result(
        what="memory: committed operations",
        explanation=f"How much memory three replicas take {after}, against "
        f"{scale.committed // EARLY_SHARE:,}.",
        value=late.bytes / early.bytes,
        bar=GROWTH_BAR,
    )
    yield Result(
        what="memory: versions of committed operations",
        explanation=f"How many versions a replica has {after}: none, for the last values are kept.",
        value=late.versions / len(MEMBERS),
        unit="versions",
        bar=0,
        exact=True,
    )
    yield Result(
        what="memory: entries of committed operations",
        explanation=f"Of how many requests the version stores still know {after}: of none.",
        value=late.entries,
        unit="entries",
        bar=0,
        exact=True,
    )


# --- tentative ------------------------------------------------------------------------------------


def over(keys: int) -> Operations:
    def operation(word: str, number: int) -> Operation:
        return Operation("update", (f"{word} {number % keys}", number))

    return operation


class Kept(NamedTuple):
    memory: Memory
    stretches: int


def tentative(operations: int, keys: int, kept_apart: int) -> Kept:
    """What a replica keeps that has executed so many operations and cannot commit them."""
    replica = new_replica(kept_apart)
    catch_up(replica, requests(over(keys), operations))
    probes = replica.probes.counts
    taken_apart = probes.get(Probe.STRETCH_TAKEN_APART, 0)
    return Kept(memory_of(replica), probes.get(Probe.STRETCH_MERGED, 0) - taken_apart)


def _tentative(scale: Scale) -> Iterator[Result]:
    operations = scale.large
    alone = memory_of(list(requests(spread, operations)))
    yield _bytes("alone", "takes by itself, without a replica", alone.bytes, operations)
    for keys in (KEYS, FEW_KEYS):
        apart, kept = tentative(operations, keys, ALL), tentative(operations, keys, FEW)
        on = f"on {keys:,} registers"
        yield _bytes(
            f"{on}, apart", "takes when its versions are kept", apart.memory.bytes, operations
        )
        yield _bytes(
            f"{on}, in stretches",
            f"takes when the versions of all but {FEW:,} are in stretches",
            kept.memory.bytes,
            operations,
        )
        yield Result(
            what=f"memory: stretches {on}",
            explanation=f"How much memory a replica with {operations:,} tentative requests takes "
            "when their versions are in stretches, against when each is kept. The requests "
            "themselves, and their answers, are kept in any case.",
            value=kept.memory.bytes / apart.memory.bytes,
            bar=STRETCHES_BAR,
        )
        bound = keys * (1 + kept.stretches) + FEW
        yield Result(
            what=f"memory: versions in stretches {on}",
            explanation=f"How many versions there are with {kept.stretches:,} stretches: at most "
            "one per register and stretch, and those of the requests that are kept apart.",
            value=kept.memory.versions,
            unit="versions",
            bar=bound,
        )


def _bytes(which: str, what: str, taken: int, operations: int) -> Result:
    return Result(
        what=f"memory: a tentative request {which}",
        explanation=f"How much memory one of {operations:,} tentative requests {what}.",
        value=taken / operations,
        unit="bytes",
    )


def measure(scale: Scale) -> Iterator[Result]:
    yield from _committed(scale)
    yield from _tentative(scale)


BENCHMARK = Benchmark("memory", 3 + 1 + 2 * 4, measure)
