"""Cost of a call for a replica, without disk, network and kernel: `python -m benchmarks.call`.

Three replicas run in this process, with all live components between the bytes from and to a client:
framing, dispatcher, driver, protocol, version store. Messages between them are encoded and decoded.
The disk has written everything by the next round. The load is that of 192 closed-loop clients: 64
calls at each replica in each round.

The measure is the processor time of this process, which other programs hardly change. With compiled
modules, `perf record -g python -m benchmarks.call` shows its distribution, and the difference
between two numbers of repeats under `valgrind --tool=callgrind` counts its instructions.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, Final, cast

import click

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import without_collector
from creekdb.datatypes.kv import KV
from creekdb.errors import StorageFault
from creekdb.execution.python_runtime import build_kind
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.messages import Message, Record
from creekdb.protocol.request import Operation
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica
from creekdb.server.backup.sessions import BackupSessions
from creekdb.server.calls.admission_control import (
    AdmissionControl,
    AdmissionLimits,
    OperationResolver,
)
from creekdb.server.calls.capabilities import Capabilities, DeduplicatingDataType
from creekdb.server.calls.dispatcher import CallDispatcher, CallLimits
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.changes.readers import ChangeReaders
from creekdb.server.changes.snapshots import LeasedSnapshots
from creekdb.server.changes.tables import SqlTables
from creekdb.server.observability.divergence import DIGEST_INTERVAL_REQUESTS, DivergenceDetector
from creekdb.server.runtime.config import (
    CONSENSUS_WINDOW,
    INLINE_TASKS_MAX,
    NOOP_TICKS,
    ServerConfig,
)
from creekdb.server.runtime.driver import Driver, DriverPorts
from creekdb.server.runtime.executors import InlineExecutor, Watchdog
from creekdb.server.security.authentication import AccessTokens
from creekdb.server.storage.segment_writer import CheckpointSlot
from creekdb.server.transport.client_connection import (
    ClientConnection,
    ClientService,
    ConnectionLimits,
    StateReaders,
)
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX
from creekdb.wire.event_log import EventLog
from creekdb.wire.event_loop import new_loop
from creekdb.wire.messages import (
    WIRE_VERSION,
    CallRequest,
    ClientHello,
    StateDigests,
    decode_peer_message,
    encode_frame,
)

MEMBERS: Final = (0, 1, 2)
CONNECTIONS: Final = 8
CALLS_PER_ROUND: Final = 8
"""Calls per connection and round."""
KEYS: Final = 10_000
VALUE_BYTES: Final = 256
FILL_ROUNDS: Final = CALLS_PER_CLIENT_MAX // CALLS_PER_ROUND
"""Rounds until every deduplication register is written."""
PREPARED_REPEATS_MIN: Final = 3
"""Least number of repeats whose calls are prepared in advance. Runs of up to so many repeats spend
the same time on this, and the difference between two of them contains none of it."""
BUSY_AFTER_S: Final = 86_400.0
"""Age of a queued call that no measurement reaches. An emulator such as valgrind is slow."""
TICK_S: Final = 0.02
LOOP_ITERATIONS: Final = 4
"""Least iterations of the event loop per round. More follow until all calls are executed, since an
emulator reaches the time limit of an iteration. A message is received in the next round."""


class Disk:
    """Disk with instant writes."""

    def __init__(self) -> None:
        self.durable_position = 0
        self.end_position = 0
        self.pending_bytes = 0
        self.fault: StorageFault | None = None

    def append(self, records: Sequence[Record], sync: bool = True) -> int:
        self.end_position += len(records)
        return self.end_position

    def subscribe(self, on_durable: Callable[[], None]) -> None:
        self._on_durable = on_durable

    def request_sync(self) -> None:
        pass

    def sync(self) -> None:
        if self.durable_position < self.end_position:
            self.durable_position = self.end_position
            self._on_durable()

    def append_checkpoint(self, chunks: Iterable[bytes]) -> int:
        raise NotImplementedError

    def reserve_checkpoint(self) -> CheckpointSlot:
        raise NotImplementedError

    def write_checkpoint(
        self, slot: CheckpointSlot, chunks: Iterable[bytes], on_done: Callable[[], None]
    ) -> None:
        raise NotImplementedError


class Membership:
    """Members that never change and are all connected."""

    configuration = Configuration(0, tuple((member, "127.0.0.1:1") for member in MEMBERS))
    is_member = accepts_calls = True

    def connected_members(self) -> list[int]:
        return [*MEMBERS]

    def can_commit(self, silence_s_max: float) -> bool:
        return True

    def blocked_reason(self) -> None:
        return None

    def validate_change(self, name: str, arguments: tuple[Any, ...]) -> Operation:
        raise NotImplementedError


class TransportStub:
    """Transport stub that counts the bytes written to a client."""

    def __init__(self) -> None:
        self.bytes_written = 0
        self._socket = socket.socket()

    def write(self, data: bytes) -> None:
        self.bytes_written += len(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> socket.socket:
        return self._socket

    def close(self) -> None:
        self._socket.close()


class Node:
    def __init__(self, index: int, changes: ChangeFeed | None = None) -> None:
        """`changes` receives the changes of the replica, if it should report them."""
        settings = Settings(
            report_changes=int(changes is not None),
            members=MEMBERS,
            checkpoint_every=1 << 30,
            digest_every=DIGEST_INTERVAL_REQUESTS,
            drafts=1,
            emit_events=0,
            noop_ticks=NOOP_TICKS,
            window=CONSENSUS_WINDOW,
            parallelism=INLINE_TASKS_MAX,
        )
        self.index = index
        self.replica = CreekReplica(index, settings, DeduplicatingDataType(KV))
        self.disk = Disk()
        self.digests = DivergenceDetector(index, MEMBERS)
        watchdog = Watchdog(10.0, EventLog(index))
        self.driver = Driver(
            self.replica,
            self.disk,
            InlineExecutor(watchdog, _unexpected),
            DriverPorts(
                send=self._send,
                send_snapshot=_unexpected,
                compare=lambda digest: self.digests.record(digest, self.disk.end_position),
                on_data_lost=_unexpected,
                on_internal_error=_unexpected,
            ),
            changes=changes,
        )
        self.service = self._build_service()
        self.peers: list[Node] = []
        self._inbox: list[tuple[bytes, int]] = []
        self.connections = [self._connect(each) for each in range(CONNECTIONS)]

    def _build_service(self) -> ClientService:
        members = dict.fromkeys(MEMBERS, "127.0.0.1:1")
        config = ServerConfig(
            replica=self.index, members=members, strong_max=1 << 30, busy_after=BUSY_AFTER_S
        )
        membership, tokens = Membership(), AccessTokens(config.security)
        self.admission = AdmissionControl(
            config, self.driver, self.disk, membership, AdmissionLimits()
        )
        dispatcher = CallDispatcher(
            self.driver,
            self.disk,
            membership,
            self.admission,
            OperationResolver(Capabilities(KV), tokens, membership),
            _count,
            CallLimits(),
        )
        sessions = BackupSessions(_unexpected, _unexpected)
        readers = StateReaders(
            sessions,
            ChangeReaders(None, _no_identity, _unexpected),
            LeasedSnapshots(
                self.driver, _no_identity, _unexpected, _unexpected, SqlTables(self.driver, KV)
            ),
        )
        return ClientService(config, dispatcher, tokens, readers, dict, ConnectionLimits())

    def _connect(self, number: int) -> ClientConnection:
        connection = ClientConnection(self.service)
        connection.connection_made(cast(asyncio.Transport, TransportStub()))
        connection.data_received(encode_frame(ClientHello(WIRE_VERSION, f"{self.index} {number}")))
        return connection

    def _send(self, to: tuple[int, ...], message: Message) -> None:
        frame = encode_frame(message)
        for node in self.peers:
            if node.index in to:
                node._inbox.append((frame[4:], self.index))

    def receive_all(self) -> None:
        inbox, self._inbox = self._inbox, []
        for payload, sender in inbox:
            message = decode_peer_message(payload)
            assert not isinstance(message, StateDigests)
            self.driver.receive(cast(Message, message), sender)


def _no_identity() -> None:
    return None


def _unexpected(*_: Any) -> Any:
    raise AssertionError


def _count(reason: str) -> None:
    raise AssertionError(reason)


def make_rounds(turns: int, first_number: int, strong: float) -> list[list[bytes]]:
    """Return the frames of each connection, for each round."""
    random = Random(first_number)
    values = [random.randbytes(VALUE_BYTES) for _ in range(64)]
    rounds = []
    for turn in range(turns):
        round_frames = []
        for _ in range(CONNECTIONS * len(MEMBERS)):
            frames = []
            for each in range(CALLS_PER_ROUND):
                key = f"key{random.randrange(KEYS):08}"
                number = first_number + turn * CALLS_PER_ROUND + each
                call = CallRequest(
                    number, "put", (key, random.choice(values)), random.random() < strong, each
                )
                frames.append(encode_frame(call))
            round_frames.append(b"".join(frames))
        rounds.append(round_frames)
    return rounds


async def measure_calls(
    turns: int,
    repeats: int,
    strong: float,
    fill_rounds: int = FILL_ROUNDS,
    make_node: Callable[[int], Node] = Node,
    after_round: Callable[[], Awaitable[None]] | None = None,
) -> list[float]:
    """Return the processor time of a call at one replica, in microseconds, per repetition.

    The time includes that of `after_round`, which runs after each round of calls.
    """
    nodes = [make_node(index) for index in MEMBERS]
    for node in nodes:
        node.peers = [other for other in nodes if other is not node]
    for _ in range(100):  # elect a leader
        await _run_round(nodes, None)
    calls: list[list[list[bytes]]] = []
    next_number = 1
    for repeat in range(max(repeats, PREPARED_REPEATS_MIN) + 1):
        count = turns if repeat else max(turns, fill_rounds)
        calls.append(make_rounds(count, next_number, strong))
        next_number += count * CALLS_PER_ROUND
    times_us = []
    with without_collector():
        for rounds in calls[: repeats + 1]:
            started_ns = time.process_time_ns()
            for each in rounds:
                await _run_round(nodes, each)
                if after_round is not None:
                    await after_round()
            times_us.append(
                (time.process_time_ns() - started_ns)
                / 1000
                / (len(rounds) * CALLS_PER_ROUND * CONNECTIONS * len(nodes) * len(nodes))
            )
    for _ in range(50):
        await _run_round(nodes, None)
    assert not any(node.replica.view.tentative_length() for node in nodes)
    assert len({node.replica.view.committed_length() for node in nodes}) == 1
    for node in nodes:
        for connection in node.connections:
            connection.close()
    return times_us[1:]  # the first repetition starts with empty registers


async def _run_round(nodes: list[Node], calls: list[bytes] | None) -> None:
    for node in nodes:
        if calls is not None:
            for number, connection in enumerate(node.connections):
                connection.data_received(calls[node.index * CONNECTIONS + number])
        node.receive_all()
    iterations = 0
    while iterations < LOOP_ITERATIONS or any(node.driver.backlog for node in nodes):
        iterations += 1
        await asyncio.sleep(0)
        for node in nodes:
            node.disk.sync()
    for node in nodes:
        node.admission.record_tick(TICK_S)
        node.driver.tick()


def measure(scale: Scale) -> Iterator[Result]:
    for name, strong in (("weak", 0.0), ("strong", 1.0)):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            turns, fill_rounds = max(1, scale.timed // 20), min(FILL_ROUNDS, scale.timed // 10)
            times_us = runner.run(measure_calls(turns, scale.repeats, strong, fill_rounds))
        yield Result(
            what=f"call: {name}",
            explanation=f"Processor time of a {name} put at each of three replicas, without disk, "
            "network and kernel.",
            value=min(times_us),
            unit="µs",
        )


BENCHMARK = Benchmark("call", 2, measure)


@click.command()
@click.option("--turns", default=100, show_default=True, help="Rounds of 192 calls each.")
@click.option("--repeats", default=5, show_default=True)
@click.option("--strong", default=0.0, show_default=True, help="Share of strong calls.")
def main(turns: int, repeats: int, strong: float) -> None:
    """Print the cost of a call at each replica.

    Example: python -m benchmarks.call --strong 1
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        times_us = runner.run(measure_calls(turns, repeats, strong))
    times = ", ".join(f"{each:.1f}" for each in times_us)
    click.echo(f"{build_kind()}: {min(times_us):.1f} µs per call at each replica ({times})")


if __name__ == "__main__":
    sys.exit(main(prog_name="python -m benchmarks.call"))
