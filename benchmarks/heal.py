"""Healing: the cost of merging two sides of a partition that both continued.

The same operations run twice, with the partition and without, until all replicas have stabilised.
In a cluster of three, two replicas commit operations meanwhile and the third can only speculate. In
a cluster of four that is cut in half, no operation commits: two long tentative lists are merged.

`basic` executes in the order of its list, so a partition makes it re-execute many operations. This
cost belongs to Algorithm 2, not to the protocol, and is reported separately.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from benchmarks.network import Cluster
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import REPEATS_FACTOR_MAX, without_collector
from creekdb.protocol.request import Operation
from creekdb.protocol.settings import Settings

BAR = 3.0
PER_TICK = 50
"""Operations per side between two ticks: with ticks of 5 ms, 10,000 per second."""
ELECTION_TICKS = 40
STABILISE_TICKS_MAX = 2_000
IMMEDIATE_DIVISOR = 10
"""Divisor of the size for `basic` with immediate execution."""
INCREMENT = Operation("increment", (1,))


class Split(NamedTuple):
    """A cluster and its partition."""

    what: str
    how: str
    sides: tuple[tuple[int, ...], tuple[int, ...]]
    strong_every: tuple[int, int]
    """Interval between strong operations, per side; 0 for none."""
    settings: Settings


THREE = ((0, 1), (2,))
FOUR = ((0, 1), (2, 3))
NO_CHECKPOINTS = 1 << 40
SPLITS = (
    Split(
        "2 | 1, by snapshot",
        "a third replica missed many requests",
        THREE,
        (100, 0),
        Settings(members=(0, 1, 2)),
    ),
    Split(
        "2 | 1, by pulling",
        "a third replica missed many requests, and there are no checkpoints to send",
        THREE,
        (100, 0),
        Settings(members=(0, 1, 2), checkpoint_every=NO_CHECKPOINTS),
    ),
    Split(
        "2 | 2, weak",
        "two halves could not commit",
        FOUR,
        (0, 0),
        Settings(members=(0, 1, 2, 3)),
    ),
    Split(
        "2 | 2, 1 in 10 strong",
        "two halves could not commit and strong operations accumulated",
        FOUR,
        (10, 10),
        Settings(members=(0, 1, 2, 3)),
    ),
)


class Cost(NamedTuple):
    """Costs per operation."""

    protocol_ns: float
    healing_protocol_ns: float
    whole_ns: float
    executions: float


def run(split: Split, operations: int, partitioned: bool, immediate: bool = False) -> Cost:
    """Run `operations` on each side."""
    cluster = Cluster(split.settings, immediate)
    for _ in range(ELECTION_TICKS):
        cluster.tick()
    if partitioned:
        cluster.partition(split.sides[1])
    with without_collector():
        start_protocol_ns, start_execution_ns = cluster.protocol.ns, cluster.execution.ns
        for first in range(0, operations, PER_TICK):
            for number in range(first, min(first + PER_TICK, operations)):
                for side, every in zip(split.sides, split.strong_every, strict=True):
                    strong = every > 0 and number % every == every - 1
                    cluster.invoke(side[number // 3 % len(side)], INCREMENT, strong)
            cluster.tick()
        healed_ns = cluster.protocol.ns
        cluster.heal()
        run_until_stable(cluster)
    total = 2 * operations
    protocol_ns = cluster.protocol.ns - start_protocol_ns
    execution_ns = cluster.execution.ns - start_execution_ns
    return Cost(
        protocol_ns=protocol_ns / total,
        healing_protocol_ns=(cluster.protocol.ns - healed_ns) / total,
        whole_ns=(protocol_ns + execution_ns) / total,
        executions=cluster.executions / total / len(cluster.replicas),
    )


def run_until_stable(cluster: Cluster) -> None:
    for _ in range(STABILISE_TICKS_MAX):
        if cluster.is_stable():
            return
        cluster.tick()
    raise AssertionError("the cluster did not stabilise")


def _compare(
    split: Split, operations: int, repeats: int, bar: float | None, immediate: bool = False
) -> tuple[Cost, Cost]:
    """Measure with and without a partition, alternately; return the least value of each cost."""
    measure = partial(run, split, operations, immediate=immediate)
    best, base = measure(True), measure(False)
    for rounds in range(1, repeats * REPEATS_FACTOR_MAX):
        if rounds >= repeats and (bar is None or best.protocol_ns <= bar * base.protocol_ns):
            break
        best, base = _least(best, measure(True)), _least(base, measure(False))
    return best, base


def _least(first: Cost, second: Cost) -> Cost:
    return Cost(*map(min, first, second))


def measure(scale: Scale) -> Iterator[Result]:
    for split in SPLITS:
        best, base = _compare(split, scale.heal_operations, scale.heal_repeats, BAR)
        yield Result(
            what=f"heal {split.what}: whole run",
            explanation=f"Protocol cost per operation when {split.how}, with "
            f"{scale.heal_operations:,} operations on each side, including partition and healing, "
            "relative to the same run without a partition.",
            value=best.protocol_ns / base.protocol_ns,
            bar=BAR,
        )
        yield Result(
            what=f"heal {split.what}: healing alone",
            explanation="Protocol cost per operation from the end of the partition on, "
            "relative to the same operations without a partition.",
            value=best.healing_protocol_ns / base.protocol_ns,
            bar=BAR,
        )
        yield from _basic(f"heal {split.what}: basic", best, base, "when the network is quiet")
    small = max(PER_TICK, scale.heal_operations // IMMEDIATE_DIVISOR)
    best, base = _compare(SPLITS[2], small, scale.heal_repeats, None, immediate=True)
    yield from _basic(
        f"heal {SPLITS[2].what}: basic, immediate",
        best,
        base,
        f"after each message, with {small:,} operations on each side",
    )


def _basic(what: str, best: Cost, base: Cost, when: str) -> Iterator[Result]:
    yield Result(
        what=what,
        explanation=f"The whole run including executions by `basic`, {when}, relative to the same "
        "run without a partition.",
        value=best.whole_ns / base.whole_ns,
    )
    yield Result(
        what=f"{what}, executions",
        explanation="Executions per operation and replica; without a partition "
        f"{base.executions:.2f}.",
        value=best.executions,
        unit="executions",
    )


BENCHMARK = Benchmark("heal", 4 * len(SPLITS) + 2, measure)
