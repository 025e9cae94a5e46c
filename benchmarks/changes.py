"""Cost of the change feed for a replica, relative to a weak put: `python -m benchmarks.changes`.

The replicas are those of `benchmarks.call`, in one process, without network. The segments of the
feed are real files. The processor time of a put is measured without a feed, with one, and with one
reader at every replica. The measurements alternate, so that a busy machine affects all of them.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.call import FILL_ROUNDS, Node, measure_calls
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.execution.python_runtime import build_kind
from creekdb.server.changes.feed import ChangeFeed, loop_ports
from creekdb.server.changes.log import ChangeLog
from creekdb.server.changes.readers import ChangeReaders, ChangesQuery
from creekdb.server.changes.retention import Retention
from creekdb.wire.event_loop import new_loop
from creekdb.wire.messages import ChangesPart, encode_frame

FEED_BAR: Final = 0.10
READER_BAR: Final = 0.20
RETENTION: Final = Retention(3600.0)


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


def _unexpected(*_: object) -> Any:
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
    turns, fill_rounds = max(1, scale.timed // 20), min(FILL_ROUNDS, scale.timed // 10)
    feed, reader = measure_shares(turns, fill_rounds, scale.repeats)
    yield Result(
        what="change feed",
        explanation="Processor time that the change feed adds to a weak put at each of three "
        "replicas, without network and kernel.",
        value=feed,
        bar=FEED_BAR,
    )
    yield Result(
        what="change feed with a reader",
        explanation="The same, with a reader that follows the feed of every replica.",
        value=reader,
        bar=READER_BAR,
    )


BENCHMARK = Benchmark("changes", 2, measure)


@click.command()
@click.option("--turns", default=100, show_default=True, help="Rounds of 192 calls each.")
@click.option("--fill", default=FILL_ROUNDS, show_default=True, help="Rounds before the first.")
@click.option("--repeats", default=3, show_default=True)
def main(turns: int, fill: int, repeats: int) -> None:
    """Print the cost of the change feed, as a share of a weak put."""
    feed, reader = measure_shares(turns, fill, repeats)
    click.echo(f"{build_kind()}: feed {feed:+.1%}, feed with a reader {reader:+.1%} of a weak put")


if __name__ == "__main__":
    sys.exit(main(prog_name="python -m benchmarks.changes"))
