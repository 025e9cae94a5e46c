"""Longest stalls of the event loop when a replica writes, receives or scans a large state.

A replica in this process, with a real disk, starts with many registers and writes a checkpoint of
them, while a client keeps calling. Of two other replicas, one starts with an older state of the
same size, receives the state of the other, and writes it to disk. A third case is the first scan of
a few registers after a start. A callback runs in every iteration of the loop. The longest interval
between two callbacks is the longest stall, including delays by other processes.
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
from creekdb.schemes.creek import CreekReplica
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.server import Server
from creekdb.server.storage.journal import Journal
from creekdb.wire.event_loop import new_loop

REGISTERS: Final = 200_000
AHEAD_INSTANCE: Final = 5
"""First open consensus instance of the replica that sends its state."""
BAR_MS: Final = 20.0
"""A tenth of the time after which a leader is suspected, in milliseconds."""


class LoopMonitor:
    """Longest interval between two iterations of the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last = time.perf_counter()
        self._is_running = True
        self.stall_s = 0.0
        self._loop.call_soon(self._observe)

    def stop(self) -> None:
        self._is_running = False

    def _observe(self) -> None:
        now = time.perf_counter()
        self.stall_s = max(self.stall_s, now - self._last)
        self._last = now
        if self._is_running:
            self._loop.call_soon(self._observe)


def _write_initial_state(directory: Path, registers: int, instance: int = 1) -> None:
    state = [(f"key {each:09}", (instance, "x" * 32)) for each in range(registers)]
    Random(instance).shuffle(state)
    ids = Dots({0: (1, instance)}) if instance > 1 else Dots()
    checkpoint = Checkpoint(instance, ids.count(), ids, 1, tuple(state), ())
    journal = Journal(directory)
    journal.open()
    journal.append((CheckpointRecord(checkpoint, Ballot(1, 0), (), (), ()),))
    journal.flush()
    journal.close()


def _single_replica_config(directory: Path) -> ServerConfig:
    return ServerConfig(
        replica=0,
        members={0: f"127.0.0.1:{free_port()}"},
        clients=f"127.0.0.1:{free_port()}",
        data=str(directory),
    )


async def _scan_stall_s(directory: Path) -> float:
    config = _single_replica_config(directory)
    server = Server(config)
    await server.start()
    async with connect(config.clients) as db:
        await db.strong.put("key", 0)
        monitor = LoopMonitor()
        assert len(await db.weak.scan("key 00000123")) == 10
        monitor.stop()
    await server.stop()
    return monitor.stall_s


async def _checkpoint_stall_s(directory: Path) -> float:
    config = _single_replica_config(directory)
    server = Server(config)
    await server.start()
    replica = server.driver.replica
    assert isinstance(replica, CreekReplica)
    first = min(directory.glob("*.journal"))
    async with connect(config.clients) as db:
        await db.strong.put("key", 0)
        monitor = LoopMonitor()
        replica._stack.compact(*replica.view.lazy_checkpoint())
        server.driver.apply_effects()
        while first.exists():
            await db.strong.increment("calls")
        monitor.stop()
    await server.stop()
    return monitor.stall_s


async def _snapshot_stall_s(directory: Path) -> float:
    peers = {each: f"127.0.0.1:{free_port()}" for each in range(2)}
    ahead, behind = (
        Server(
            ServerConfig(
                replica=each,
                members=peers,
                clients=f"127.0.0.1:{free_port()}",
                data=str(directory / str(each)),
            )
        )
        for each in range(2)
    )
    await behind.start()
    await ahead.start()
    replica = behind.driver.replica
    assert isinstance(replica, CreekReplica)
    monitor = LoopMonitor()
    while (
        replica.view.stable_instances()[replica.index] < AHEAD_INSTANCE
        or behind.journal.durable_position < behind.journal.end_position
    ):
        await asyncio.sleep(0.01)
    monitor.stop()
    await behind.stop()
    await ahead.stop()
    return monitor.stall_s


def _measure_snapshot_stall_s(runner: asyncio.Runner) -> float:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory_name:
        _write_initial_state(Path(directory_name) / "0", REGISTERS, AHEAD_INSTANCE)
        _write_initial_state(Path(directory_name) / "1", REGISTERS)
        return runner.run(_snapshot_stall_s(Path(directory_name)))


def measure(scale: Scale) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as directory_name,
        asyncio.Runner(loop_factory=new_loop) as runner,
        reduced_gc(),
    ):
        directory = Path(directory_name)
        _write_initial_state(directory, REGISTERS)
        scan_s = min(runner.run(_scan_stall_s(directory)) for _ in range(scale.repeats))
        stall_s = min(runner.run(_checkpoint_stall_s(directory)) for _ in range(scale.repeats))
        snapshot_s = min(_measure_snapshot_stall_s(runner) for _ in range(scale.repeats))
    yield _result(
        ", snapshot received",
        "While a replica receives the state of another one and writes it to disk in place of its "
        "own",
        snapshot_s,
    )
    yield _result(
        ", first scan",
        "While a restarted replica answers a first scan of ten registers",
        scan_s,
    )
    yield _result(
        ", checkpoint written",
        "While a replica writes a checkpoint of its state and executes calls",
        stall_s,
    )


def _result(case: str, when: str, stall_s: float) -> Result:
    return Result(
        what=f"longest stall of the event loop, {REGISTERS:,} registers{case}",
        explanation=f"{when}, its event loop stalls for at most this long.",
        value=stall_s * 1000,
        unit="ms",
        bar=BAR_MS,
    )


BENCHMARK = Benchmark("turns", 3, measure)
