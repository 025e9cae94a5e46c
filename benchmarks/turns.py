"""A replica that writes down a large state: for how long its loop does nothing else.

One replica in this process, with real disk, begins with so many registers, draws an image of them
and puts it on disk, while a client goes on calling. The loop beats as often as it can; the longest
time between two beats is its longest turn, whatever else the machine does meanwhile.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creek.client import connect
from creek.cluster.config import ServerConfig
from creek.cluster.journal import Journal
from creek.cluster.loop import new_loop
from creek.cluster.server import Server
from creek.evaluation.garbage import seldom_collecting
from creek.load.ports import free_port
from creek.protocol.dots import Dots
from creek.protocol.messages import Ballot, Checkpoint, Image
from creek.schemes.ordering import OrderingReplica

REGISTERS: Final = 200_000
BAR_MS: Final = 20.0
"""A tenth of the time after which a leader is suspected."""


class Beats:
    """The longest time between two turns of the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last = time.perf_counter()
        self._goes_on = True
        self.longest_s = 0.0
        self._loop.call_soon(self._beat)

    def stop(self) -> None:
        self._goes_on = False

    def _beat(self) -> None:
        now = time.perf_counter()
        self.longest_s = max(self.longest_s, now - self._last)
        self._last = now
        if self._goes_on:
            self._loop.call_soon(self._beat)


def _begin_with(folder: Path, registers: int) -> None:
    state = tuple((f"key {each:09}", "x" * 32) for each in range(registers))
    checkpoint = Checkpoint(1, 0, Dots(), 1, state, ())
    journal = Journal(folder)
    journal.open()
    journal.append((Image(checkpoint, Ballot(1, 0), (), (), ()),))
    journal.flush()
    journal.close()


async def _longest_turn_s(folder: Path) -> float:
    config = ServerConfig(
        replica=0,
        members={0: f"127.0.0.1:{free_port()}"},
        clients=f"127.0.0.1:{free_port()}",
        data=str(folder),
    )
    server = Server(config)
    await server.start()
    replica = server.driver.replica
    assert isinstance(replica, OrderingReplica)
    first = min(folder.glob("*.journal"))
    async with connect(config.clients) as db:
        await db.strong.put("key", 0)
        beats = Beats()
        replica._broadcasts.compact(*replica.draft())
        server.driver.carry_out()
        while first.exists():
            await db.strong.increment("calls")
        beats.stop()
    await server.stop()
    return beats.longest_s


def measure(scale: Scale) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as made,
        asyncio.Runner(loop_factory=new_loop) as runner,
        seldom_collecting(),
    ):
        folder = Path(made)
        _begin_with(folder, REGISTERS)
        longest_s = min(runner.run(_longest_turn_s(folder)) for _ in range(scale.repeats))
    yield Result(
        what=f"longest turn of the loop, {REGISTERS:,} registers",
        explanation="While a replica draws an image of its state and puts it on disk, and calls go "
        "on, its loop is held up for so long at most.",
        value=longest_s * 1000,
        unit="ms",
        bar=BAR_MS,
    )


BENCHMARK = Benchmark("turns", 1, measure)
