"""Re-executions of `creek`, counted: exactly the conflicting operations are executed again.

Every number is exact. If k operations conflict, fewer than k re-executions would be as wrong as
more.
"""

from collections.abc import Iterator

from benchmarks.heal import ELECTION_TICKS, FOUR, NO_CHECKPOINTS, PER_TICK, THREE, run_until_stable
from benchmarks.network import Cluster
from benchmarks.registers import REGISTERS
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.versions import KEYS, new_replica, update_own
from benchmarks.workloads import GAP_US, STRONG, WEAK, catch_up, decide, deliver, execute
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.core.spec import Scheme
from creekdb.schemes.creek import CreekReplica

PARTS = 10


def _requests(count: int, conflicts: int, name: str, readers: bool) -> Iterator[Request]:
    """Yield `count` requests with a register each. `conflicts` of them, evenly distributed, apply
    `name` to the register `source`; with `readers`, a request that reads the result follows."""
    every = count // conflicts if conflicts else count + 1
    yield _write(1, strong=False)
    for event in range(1, count + 1):
        timestamp, id = event * GAP_US, Dot(WEAK, event)
        if event % every:
            yield Request(timestamp, id, update_own("weak", event), strong=False)
            continue
        result = f"{name} {event}"
        yield Request(timestamp, id, Operation(name, ("source", result)), strong=False)
        if readers:
            operation = Operation("copy", (result, f"copy of {result}"))
            yield Request(timestamp + 1, Dot(STRONG, event // every + 1), operation, strong=False)


def _write(event: int, strong: bool) -> Request:
    """Return a request that precedes all others and writes a register that some of them read. A
    strong one is issued last, and precedes the others because its causal context is empty."""
    operation = Operation("write", ("source", event))
    if not strong:
        return Request(1 if event == 1 else 2, Dot(STRONG, event), operation, strong=False)
    return Request(1 << 40, Dot(STRONG, event), operation, True, Dots({STRONG: (1, event)}))


def reexecutions_after_write(
    count: int, conflicts: int, name: str = "copy", readers: bool = False, strong: bool = False
) -> int:
    """Return the re-executions after a write of `source` that arrives late or, if strong, is
    committed early."""
    replica = new_replica()
    catch_up(replica, _requests(count, conflicts, name, readers))
    write = _write(conflicts + 2 if readers else 2, strong)
    deliver(replica, [write])
    if not strong:
        return execute(replica) - 1
    assert execute(replica) == 1
    decide(replica, 0, write.id)
    return execute(replica)


def _late(count: int) -> Iterator[Result]:
    for conflicts in (0, 1, count // PARTS, count // 2, count):
        yield Result(
            what=f"conflicts: late write, {conflicts:,} readers among {count:,}",
            explanation="Re-executed operations after the late arrival of a write that "
            f"{conflicts:,} of {count:,} later operations read.",
            value=reexecutions_after_write(count, conflicts),
            unit="re-executions",
            bar=conflicts,
            exact=True,
        )
    conflicts = count // PARTS
    yield Result(
        what="conflicts: late write, transitive readers",
        explanation=f"The same with {conflicts:,} readers, each followed by an operation that "
        "reads its output, which changes.",
        value=reexecutions_after_write(count, conflicts, readers=True),
        unit="re-executions",
        bar=2 * conflicts,
        exact=True,
    )
    yield Result(
        what="conflicts: late write, readers with unchanged output",
        explanation=f"The same, but the {conflicts:,} readers write the same value again: "
        "operations that read it are not executed again.",
        value=reexecutions_after_write(count, conflicts, name="is_set", readers=True),
        unit="re-executions",
        bar=conflicts,
        exact=True,
    )
    yield Result(
        what="conflicts: early commit",
        explanation=f"A strong write is committed before {count:,} tentative operations that "
        f"preceded it, of which {conflicts:,} read it.",
        value=reexecutions_after_write(count, conflicts, strong=True),
        unit="re-executions",
        bar=conflicts,
        exact=True,
    )


# --- partitions -----------------------------------------------------------------------------------


def reexecutions_after_healing(
    sides: tuple[tuple[int, ...], tuple[int, ...]],
    strong_every: int,
    operations: int,
    disjoint: bool = True,
    scheme: Scheme = CreekReplica,
) -> int:
    """Return the re-executions of all replicas when a partition heals after `operations` writes on
    each side. Some operations of the first side are strong."""
    members = tuple(range(len(sides[0]) + len(sides[1])))
    cluster = Cluster(
        Settings(members=members, checkpoint_every=NO_CHECKPOINTS),
        scheme=scheme,
        datatype=REGISTERS,
    )
    for _ in range(ELECTION_TICKS):
        cluster.tick()
    cluster.partition(sides[1])
    for number in range(operations):
        for side, replicas in enumerate(sides):
            prefix = f"side {side}" if disjoint else "both"
            operation = Operation("update", (f"{prefix} {number % KEYS}", (side, number)))
            strong = side == 0 and strong_every > 0 and number % strong_every == 0
            cluster.invoke(replicas[number // 3 % len(replicas)], operation, strong)
        if number % PER_TICK == 0:
            cluster.tick()
    cluster.heal()
    run_until_stable(cluster)
    lengths = (replica.view.committed_length() for replica in cluster.replicas)
    return cluster.executions - sum(lengths)


def _partition(operations: int) -> Iterator[Result]:
    halves = f"two halves of a cluster wrote {operations:,} times each and could not commit"
    majority = f"a majority and a minority wrote {operations:,} times each"
    for sides_text, sides, strong_every, situation in (
        ("2 | 2", FOUR, 0, halves),
        ("2 | 1", THREE, 10, majority),
    ):
        yield Result(
            what=f"conflicts: partition {sides_text}, disjoint data",
            explanation=f"Re-executions at all replicas during the whole run, when {situation}, to "
            f"disjoint registers.",
            value=reexecutions_after_healing(sides, strong_every, operations),
            unit="re-executions",
            bar=0,
            exact=True,
        )
        yield Result(
            what=f"conflicts: partition {sides_text}, same data",
            explanation="The same when both sides wrote the same registers.",
            value=reexecutions_after_healing(sides, strong_every, operations, disjoint=False),
            unit="re-executions",
        )
        yield Result(
            what=f"conflicts: partition {sides_text}, disjoint data, basic",
            explanation="Re-executions of `basic` for disjoint data.",
            value=reexecutions_after_healing(sides, strong_every, operations, scheme=BasicReplica),
            unit="re-executions",
        )


def measure(scale: Scale) -> Iterator[Result]:
    yield from _late(scale.late)
    yield from _partition(scale.partition_operations)


BENCHMARK = Benchmark("conflicts", 8 + 6, measure)
