"""Healing: two sides of a partition that both went on, and what it costs to bring them together.

The same operations are run twice, with the partition and without; then all replicas are brought to
rest. In a cluster of three, two commit their operations meanwhile and the third can only speculate.
In a cluster of four that is cut in half, nobody commits anything: two long tentative lists meet.

`basic` executes in the order of its list, so a partition makes it execute much again: Algorithm 2,
not the protocol. It is kept apart, and reported.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from benchmarks.measuring import PATIENCE, without_collector
from benchmarks.network import Cluster
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.protocol.request import Operation
from creekdb.protocol.settings import Settings

BAR = 3.0
PER_TICK = 50
"""Operations at each side between two ticks: with 5 ms ticks, 10,000 in a second."""
ELECTION_TICKS = 40
REST_TICKS_MAX = 2_000
AT_ONCE_SHARE = 10
"""When `basic` executes at once what healing brings, it is measured at a tenth of the size."""
INCREMENT = Operation("increment", (1,))


class Split(NamedTuple):
    """A cluster, and how it is cut in two."""

    what: str
    how: str
    sides: tuple[tuple[int, ...], tuple[int, ...]]
    strong_every: tuple[int, int]
    """At each side, every so-manieth operation is strong; 0 is none."""
    settings: Settings


THREE = ((0, 1), (2,))
FOUR = ((0, 1), (2, 3))
NEVER = 1 << 40
SPLITS = (
    Split(
        "2 | 1, by snapshot",
        "a third replica missed much",
        THREE,
        (100, 0),
        Settings(members=(0, 1, 2)),
    ),
    Split(
        "2 | 1, by pulling",
        "a third replica missed much, and there are no checkpoints to send it",
        THREE,
        (100, 0),
        Settings(members=(0, 1, 2), checkpoint_every=NEVER),
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
        "two halves could not commit and strong operations piled up",
        FOUR,
        (10, 10),
        Settings(members=(0, 1, 2, 3)),
    ),
)


class Cost(NamedTuple):
    """Per operation."""

    protocol_ns: float
    healing_protocol_ns: float
    whole_ns: float
    executions: float


def run(split: Split, operations: int, partitioned: bool, at_once: bool = False) -> Cost:
    """`operations` at each side."""
    cluster = Cluster(split.settings, at_once)
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
        bring_to_rest(cluster)
    total = 2 * operations
    protocol_ns = cluster.protocol.ns - start_protocol_ns
    execution_ns = cluster.execution.ns - start_execution_ns
    return Cost(
        protocol_ns=protocol_ns / total,
        healing_protocol_ns=(cluster.protocol.ns - healed_ns) / total,
        whole_ns=(protocol_ns + execution_ns) / total,
        executions=cluster.executions / total / len(cluster.replicas),
    )


def bring_to_rest(cluster: Cluster) -> None:
    for _ in range(REST_TICKS_MAX):
        if cluster.is_at_rest():
            return
        cluster.tick()
    raise AssertionError("the cluster did not come to rest")


def _compare(
    split: Split, operations: int, repeats: int, bar: float | None, at_once: bool = False
) -> tuple[Cost, Cost]:
    """With a partition and without: in turns, of each number the least."""
    measure = partial(run, split, operations, at_once=at_once)
    best, base = measure(True), measure(False)
    for done in range(1, repeats * PATIENCE):
        if done >= repeats and (bar is None or best.protocol_ns <= bar * base.protocol_ns):
            break
        best, base = _least(best, measure(True)), _least(base, measure(False))
    return best, base


def _least(first: Cost, second: Cost) -> Cost:
    return Cost(*map(min, first, second))


def measure(scale: Scale) -> Iterator[Result]:
    for split in SPLITS:
        best, base = _compare(split, scale.heal_operations, scale.heal_repeats, BAR)
        yield Result(
            what=f"heal {split.what}: the whole run",
            explanation=f"What the protocol costs per operation when {split.how}, with "
            f"{scale.heal_operations:,} operations on each side, partition and healing included, "
            "against the same without a partition.",
            value=best.protocol_ns / base.protocol_ns,
            bar=BAR,
        )
        yield Result(
            what=f"heal {split.what}: the healing alone",
            explanation="What the protocol costs per operation from the end of the partition on, "
            "against the same operations without a partition.",
            value=best.healing_protocol_ns / base.protocol_ns,
            bar=BAR,
        )
        yield from _basic(f"heal {split.what}: basic", best, base, "when the network is quiet")
    few = max(PER_TICK, scale.heal_operations // AT_ONCE_SHARE)
    best, base = _compare(SPLITS[2], few, scale.heal_repeats, None, at_once=True)
    yield from _basic(
        f"heal {SPLITS[2].what}: basic at once",
        best,
        base,
        f"after each message, with {few:,} operations on each side",
    )


def _basic(what: str, best: Cost, base: Cost, when: str) -> Iterator[Result]:
    yield Result(
        what=what,
        explanation=f"The whole run with what `basic` executes, {when}, against the same without "
        "a partition.",
        value=best.whole_ns / base.whole_ns,
    )
    yield Result(
        what=f"{what}, executions",
        explanation="How often a replica executes an operation; without a partition "
        f"{base.executions:.2f} times.",
        value=best.executions,
        unit="times",
    )


BENCHMARK = Benchmark("heal", 4 * len(SPLITS) + 2, measure)
