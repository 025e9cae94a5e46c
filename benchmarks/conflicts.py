"""What `creek` executes again, counted: what really conflicts, and nothing else.

Every number here is exact. Of k operations that are in the way, fewer than k executed again would
be as wrong as more.
"""

from collections.abc import Iterator

from benchmarks.heal import ELECTION_TICKS, FOUR, NEVER, PER_TICK, THREE, bring_to_rest
from benchmarks.network import Cluster
from benchmarks.registers import REGISTERS
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.versions import KEYS, new_replica, own
from benchmarks.workloads import GAP_US, STRONG, WEAK, catch_up, decide, deliver, execute
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.creek import CreekReplica
from creekdb.schemes.registry import Scheme

PARTS = 10


def _requests(count: int, conflicts: int, name: str, readers: bool) -> Iterator[Request]:
    """So many that have a register each; evenly among them some that make a `name` of the register
    `source`, each of these followed by its reader, if there are any."""
    every = count // conflicts if conflicts else count + 1
    yield _write(1, strong=False)
    for event in range(1, count + 1):
        timestamp, id = event * GAP_US, Dot(WEAK, event)
        if event % every:
            yield Request(timestamp, id, own("weak", event), strong=False)
            continue
        made = f"{name} {event}"
        yield Request(timestamp, id, Operation(name, ("source", made)), strong=False)
        if readers:
            operation = Operation("copy", (made, f"copy of {made}"))
            yield Request(timestamp + 1, Dot(STRONG, event // every + 1), operation, strong=False)


def _write(event: int, strong: bool) -> Request:
    """Comes before all others, and writes what some of them read. A strong one is issued last, and
    comes before the others because it has seen none of them."""
    operation = Operation("write", ("source", event))
    if not strong:
        return Request(1 if event == 1 else 2, Dot(STRONG, event), operation, strong=False)
    return Request(1 << 40, Dot(STRONG, event), operation, True, Dots({STRONG: (1, event)}))


def executed_again(
    count: int, conflicts: int, name: str = "copy", readers: bool = False, strong: bool = False
) -> int:
    """For one write of `source` that comes late or, if it is strong, is committed early."""
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
            what=f"conflicts: a late write, read by {conflicts:,} of {count:,}",
            explanation="How many executed operations are executed again, when a write comes late "
            f"that {conflicts:,} of {count:,} later ones have to read.",
            value=executed_again(count, conflicts),
            unit="again",
            bar=conflicts,
            exact=True,
        )
    conflicts = count // PARTS
    yield Result(
        what="conflicts: a late write, whose readers are read",
        explanation=f"The same with {conflicts:,} that have to read it, and for each of them "
        "another that reads what it writes: it writes something else now.",
        value=executed_again(count, conflicts, readers=True),
        unit="again",
        bar=2 * conflicts,
        exact=True,
    )
    yield Result(
        what="conflicts: a late write, whose readers write the same again",
        explanation=f"The same, but executed again the {conflicts:,} write what they wrote before: "
        "who read that is left alone.",
        value=executed_again(count, conflicts, name="is_set", readers=True),
        unit="again",
        bar=conflicts,
        exact=True,
    )
    yield Result(
        what="conflicts: an early commit",
        explanation=f"A strong write is committed before {count:,} tentative operations that came "
        f"before it, of which {conflicts:,} have to read it.",
        value=executed_again(count, conflicts, strong=True),
        unit="again",
        bar=conflicts,
        exact=True,
    )


# --- a partition ----------------------------------------------------------------------------------


def merged(
    sides: tuple[tuple[int, ...], tuple[int, ...]],
    strong_every: int,
    operations: int,
    disjoint: bool = True,
    scheme: Scheme = CreekReplica,
) -> int:
    """How often a replica executes something again, in all, when the sides of a partition meet that
    wrote so many times each. On the first side some operations are strong."""
    members = tuple(range(len(sides[0]) + len(sides[1])))
    cluster = Cluster(
        Settings(members=members, checkpoint_every=NEVER), scheme=scheme, datatype=REGISTERS
    )
    for _ in range(ELECTION_TICKS):
        cluster.tick()
    cluster.partition(sides[1])
    for number in range(operations):
        for side, replicas in enumerate(sides):
            word = f"side {side}" if disjoint else "both"
            operation = Operation("update", (f"{word} {number % KEYS}", (side, number)))
            strong = side == 0 and strong_every > 0 and number % strong_every == 0
            cluster.invoke(replicas[number // 3 % len(replicas)], operation, strong)
        if number % PER_TICK == 0:
            cluster.tick()
    cluster.heal()
    bring_to_rest(cluster)
    lengths = (replica.committed_length() for replica in cluster.replicas)
    return cluster.executions - sum(lengths)


def _partition(operations: int) -> Iterator[Result]:
    halves = f"two halves of a cluster wrote {operations:,} times each and could not commit"
    majority = f"a majority and the rest wrote {operations:,} times each"
    for how, sides, strong_every, what in (
        ("2 | 2", FOUR, 0, halves),
        ("2 | 1", THREE, 10, majority),
    ):
        yield Result(
            what=f"conflicts: a partition {how}, disjoint data",
            explanation=f"How often anything is executed again on any replica, from the start to "
            f"the end, when {what}, no register in common.",
            value=merged(sides, strong_every, operations),
            unit="again",
            bar=0,
            exact=True,
        )
        yield Result(
            what=f"conflicts: a partition {how}, the same data",
            explanation="The same when both sides wrote the same registers.",
            value=merged(sides, strong_every, operations, disjoint=False),
            unit="again",
        )
        yield Result(
            what=f"conflicts: a partition {how}, disjoint data, basic",
            explanation="What `basic` executes again for disjoint data.",
            value=merged(sides, strong_every, operations, scheme=BasicReplica),
            unit="again",
        )


def measure(scale: Scale) -> Iterator[Result]:
    yield from _late(scale.late)
    yield from _partition(scale.apart)


BENCHMARK = Benchmark("conflicts", 8 + 6, measure)
