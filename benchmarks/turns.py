"""A replica that writes down a large state, or is brought one: for how long its loop does nothing
else.

One replica in this process, with real disk, begins with so many registers, draws an image of them
and puts it on disk, while a client goes on calling. Of two others one begins with as many registers
of before, is brought those of the other, and has them on its disk. And one that has just begun is
asked for a few registers in order. The loop beats as often as it can; the longest time between two
beats is its longest turn, whatever else the machine does meanwhile.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.client import connect
from creekdb.execution.python_runtime import reduced_gc
from creekdb.load.local_cluster import free_port
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import Ballot, Checkpoint, CheckpointRecord
from creekdb.schemes.core.ordering import OrderingReplica
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.server import Server
from creekdb.server.storage.journal import Journal
from creekdb.wire.event_loop import new_loop

REGISTERS: Final = 200_000
AHEAD: Final = 5
"""Instances of consensus that the replica which brings its state has seen, and one more."""
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


def _begin_with(folder: Path, registers: int, instance: int = 1) -> None:
    state = [(f"key {each:09}", (instance, "x" * 32)) for each in range(registers)]
    Random(instance).shuffle(state)
    ids = Dots({0: (1, instance)}) if instance > 1 else Dots()
    checkpoint = Checkpoint(instance, ids.count(), ids, 1, tuple(state), ())
    journal = Journal(folder)
    journal.open()
    journal.append((CheckpointRecord(checkpoint, Ballot(1, 0), (), (), ()),))
    journal.flush()
    journal.close()


def _alone(folder: Path) -> ServerConfig:
    return ServerConfig(
        replica=0,
        members={0: f"127.0.0.1:{free_port()}"},
        clients=f"127.0.0.1:{free_port()}",
        data=str(folder),
    )


async def _longest_turn_when_asked_in_order_s(folder: Path) -> float:
    config = _alone(folder)
    server = Server(config)
    await server.start()
    async with connect(config.clients) as db:
        await db.strong.put("key", 0)
        beats = Beats()
        assert len(await db.weak.scan("key 00000123")) == 10
        beats.stop()
    await server.stop()
    return beats.longest_s


async def _longest_turn_s(folder: Path) -> float:
    config = _alone(folder)
    server = Server(config)
    await server.start()
    replica = server.driver.replica
    assert isinstance(replica, OrderingReplica)
    first = min(folder.glob("*.journal"))
    async with connect(config.clients) as db:
        await db.strong.put("key", 0)
        beats = Beats()
        replica._stack.compact(*replica.lazy_checkpoint())
        server.driver.apply_effects()
        while first.exists():
            await db.strong.increment("calls")
        beats.stop()
    await server.stop()
    return beats.longest_s


async def _longest_turn_when_brought_s(folder: Path) -> float:
    peers = {each: f"127.0.0.1:{free_port()}" for each in range(2)}
    ahead, behind = (
        Server(
            ServerConfig(
                replica=each,
                members=peers,
                clients=f"127.0.0.1:{free_port()}",
                data=str(folder / str(each)),
            )
        )
        for each in range(2)
    )
    await behind.start()
    await ahead.start()
    replica = behind.driver.replica
    assert isinstance(replica, OrderingReplica)
    beats = Beats()
    while (
        replica.stable_instance() < AHEAD
        or behind.journal.durable_position < behind.journal.end_position
    ):
        await asyncio.sleep(0.01)
    beats.stop()
    await behind.stop()
    await ahead.stop()
    return beats.longest_s


def _brought_s(runner: asyncio.Runner) -> float:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as made:
        _begin_with(Path(made) / "0", REGISTERS, AHEAD)
        _begin_with(Path(made) / "1", REGISTERS)
        return runner.run(_longest_turn_when_brought_s(Path(made)))


def measure(scale: Scale) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as made,
        asyncio.Runner(loop_factory=new_loop) as runner,
        reduced_gc(),
    ):
        folder = Path(made)
        _begin_with(folder, REGISTERS)
        asked_s = min(
            runner.run(_longest_turn_when_asked_in_order_s(folder)) for _ in range(scale.repeats)
        )
        longest_s = min(runner.run(_longest_turn_s(folder)) for _ in range(scale.repeats))
        brought_s = min(_brought_s(runner) for _ in range(scale.repeats))
    yield _result(
        " brought",
        "While a replica is brought the state of another one, and puts it on disk in place of its "
        "own",
        brought_s,
    )
    yield _result(
        " asked for in order",
        "While a replica that has just begun answers a first scan, of ten registers",
        asked_s,
    )
    yield _result(
        "",
        "While a replica draws an image of its state and puts it on disk, and calls go on",
        longest_s,
    )


def _result(which: str, when: str, longest_s: float) -> Result:
    return Result(
        what=f"longest turn of the loop, {REGISTERS:,} registers{which}",
        explanation=f"{when}, its loop is held up for so long at most.",
        value=longest_s * 1000,
        unit="ms",
        bar=BAR_MS,
    )


BENCHMARK = Benchmark("turns", 3, measure)
