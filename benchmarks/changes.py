"""Cost of the change feed for a replica, relative to a weak put: `python -m benchmarks.changes`.

Two clusters of three processes receive weak puts from many clients, one without a feed and one with
a feed. The clients send the next put after a response, so that the rate of puts is the throughput.
It is measured in both clusters, and with a process that follows the feed. That process and the
clients run on the same machine. So the processor time of the replicas per put is measured, too. Its
share is the loss of throughput of replicas that have the processors for themselves. The
measurements alternate, so that a busy machine affects all of them.

The same is reported for the replicas of `benchmarks.call`, in one process, without network and
kernel. Their segments are real files, and each replica has a reader. A put costs them much less.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import click

from benchmarks.call import FILL_ROUNDS, Node, measure_calls
from benchmarks.comparison import Measurements, System
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.execution.python_runtime import build_kind
from creekdb.load.connection import ReplicaDialer
from creekdb.load.local_cluster import LocalCluster
from creekdb.server.changes.feed import ChangeFeed, loop_ports
from creekdb.server.changes.log import ChangeLog
from creekdb.server.changes.readers import ChangeReaders, ChangesQuery
from creekdb.server.changes.retention import Retention
from creekdb.wire.event_loop import new_loop, run_in_new_loop
from creekdb.wire.messages import ChangesPart, encode_frame

FEED_BAR: Final = 0.10
READER_BAR: Final = 0.20
RETENTION: Final = Retention(3600.0)


# --- live clusters ----------------------------------------------------------------------------


class LiveCost(NamedTuple):
    """Cost of the feed of live replicas, as shares."""

    throughput: float
    """Share of the throughput of weak puts that is lost."""
    cpu: float
    """Share of the processor time of a put that the feed takes."""


class LiveCosts(NamedTuple):
    feed: LiveCost
    reader: LiveCost
    """With one reader of the feed."""


@contextmanager
def _reader(address: str) -> Iterator[None]:
    """Follow the feed of a replica in another process."""
    command = ["changes", "--follow", "--json", "--at", address]
    process = subprocess.Popen(
        [sys.executable, "-m", "creekdb", *command], stdout=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _replica_cpu_us(puts: Measurements, system: System) -> float:
    """Return the processor time of all replicas per put, in microseconds."""
    used_s = sum(cpu.used_s[name] for cpu in puts.cpu for name in system.processes)
    return used_s * 1e6 / sum(meter.completed for meter in puts.meters)


def measure_live_costs(seconds: float, rounds: int) -> LiveCosts:
    with tempfile.TemporaryDirectory(prefix=".feed-", dir=Path.cwd()) as name, ExitStack() as stack:
        systems = []
        for kind, options in (("plain", ()), ("feed", ("--keep-changes", "1h"))):
            (Path(name) / kind).mkdir()
            cluster = LocalCluster(Path(name) / kind, replicas=3, options=options)
            stack.callback(cluster.stop)
            cluster.start()
            run_in_new_loop(cluster.wait_until_ready())
            dial = ReplicaDialer(is_single_response=True)
            systems.append(System(kind, cluster.addresses, cluster.processes, dial, 0.0))
        plain, feed = systems
        without, with_feed, with_reader = (Measurements([], []) for _ in range(3))
        for seed in range(rounds):
            without.measure(plain, seconds, seed)
            with_feed.measure(feed, seconds, seed)
            with _reader(feed.addresses[0]):
                with_reader.measure(feed, seconds, seed)
        base = _replica_cpu_us(without, plain)
        costs = [
            LiveCost(
                1 - each.per_second / without.per_second, 1 - base / _replica_cpu_us(each, feed)
            )
            for each in (with_feed, with_reader)
        ]
        return LiveCosts(*costs)


# --- replicas in one process ------------------------------------------------------------------


class FollowedNodes:
    """Nodes that keep changes, each with a reader that follows them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._readers: list[ChangeReaders] = []
        self._positions: list[int] = []

    def make_node(self, index: int) -> Node:
        directory = self._directory / str(index)
        log = ChangeLog(directory, RETENTION)
        log.open()
        feed = ChangeFeed(log, loop_ports(asyncio.get_running_loop(), _unexpected))
        self._readers.append(ChangeReaders(feed, lambda: "benchmark", _unexpected))
        self._positions.append(1)
        return Node(index, feed)

    async def read_all(self) -> None:
        """Read all new changes at each node, as a connection does."""
        for number, readers in enumerate(self._readers):
            while True:
                part = await readers.read(ChangesQuery(self._positions[number]))
                if part.end == self._positions[number]:
                    break
                self._positions[number] = part.end
                encode_frame(ChangesPart(1, *part))


def _unexpected(*_: object) -> NoReturn:
    raise AssertionError


def measure_once(turns: int, fill_rounds: int, has_feed: bool, has_reader: bool) -> float:
    """Return the processor time of a weak put at one replica, in microseconds."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="creek-changes-"))
        runner = stack.enter_context(asyncio.Runner(loop_factory=new_loop))
        followed = FollowedNodes(Path(directory))
        return min(
            runner.run(
                measure_calls(
                    turns,
                    2,
                    0.0,
                    fill_rounds,
                    followed.make_node if has_feed else Node,
                    followed.read_all if has_reader else None,
                )
            )
        )


def measure_shares(turns: int, fill_rounds: int, repeats: int) -> tuple[float, float]:
    """Return the shares that the feed, and the feed with a reader, add to the cost of a put."""
    plain, feed, reader = [], [], []
    for _ in range(repeats):
        plain.append(measure_once(turns, fill_rounds, False, False))
        feed.append(measure_once(turns, fill_rounds, True, False))
        reader.append(measure_once(turns, fill_rounds, True, True))
    return min(feed) / min(plain) - 1, min(reader) / min(plain) - 1


def measure(scale: Scale) -> Iterator[Result]:
    live = measure_live_costs(scale.live_s, scale.live_rounds)
    for what, cost, bar in (
        ("change feed", live.feed, FEED_BAR),
        ("change feed with a reader", live.reader, READER_BAR),
    ):
        yield Result(
            what=f"{what}, throughput",
            explanation="Share of the throughput of weak puts that three replicas lose. The "
            "clients, and the process that follows the feed, run on the same machine.",
            value=cost.throughput,
            bar=bar,
        )
        yield Result(
            what=f"{what}, processor time",
            explanation="Share of the processor time of three replicas per weak put.",
            value=cost.cpu,
            bar=bar,
        )
    turns, fill_rounds = max(1, scale.timed // 20), min(FILL_ROUNDS, scale.timed // 10)
    feed, reader = measure_shares(turns, fill_rounds, scale.repeats)
    yield Result(
        what="change feed without network",
        explanation="Processor time that the change feed adds to a weak put at each of three "
        "replicas, without network and kernel.",
        value=feed,
    )
    yield Result(
        what="change feed with readers, without network",
        explanation="The same, with a reader that follows the feed of every replica.",
        value=reader,
    )


BENCHMARK = Benchmark("changes", 6, measure)


@click.command()
@click.option("--turns", default=100, show_default=True, help="Rounds of 192 calls each.")
@click.option("--fill", default=FILL_ROUNDS, show_default=True, help="Rounds before the first.")
@click.option("--repeats", default=3, show_default=True)
@click.option("--seconds", default=3.0, show_default=True, help="Duration of a live round.")
@click.option("--only-live", is_flag=True, help="Measure live clusters only.")
def main(turns: int, fill: int, repeats: int, seconds: float, only_live: bool) -> None:
    """Print the cost of the change feed, as a share of a weak put."""
    live = measure_live_costs(seconds, repeats)
    for what, cost, bar in (
        ("the feed", live.feed, FEED_BAR),
        ("the feed with a reader", live.reader, READER_BAR),
    ):
        click.echo(
            f"{build_kind()}, live: {what} takes {cost.throughput:.1%} of the throughput and "
            f"{cost.cpu:.1%} of the processor time (bar {bar:.0%})"
        )
    if not only_live:
        feed, reader = measure_shares(turns, fill, repeats)
        click.echo(f"without network: feed {feed:+.1%}, with readers {reader:+.1%} of a weak put")


if __name__ == "__main__":
    sys.exit(main(prog_name="python -m benchmarks.changes"))
