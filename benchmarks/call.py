"""What a call costs a replica, but for disk, network and system: `python -m benchmarks.call`.

Three replicas in this process, with all that live ones have between the bytes of a client and the
bytes for it: frames, desk, driver, protocol, versions. What they say to each other is encoded and
decoded; a disk is there that has written everything by the next turn. Calls come as they do from
192 clients that wait for their answers: 64 at each replica in each turn.

The processor time of this process is counted, so it can be told on a busy machine, too. Compiled,
`perf record -g python -m benchmarks.call` shows where it goes.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, Final, cast

import click

from benchmarks.measuring import without_collector
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.datatypes.kv import KV
from creekdb.errors import StorageFault
from creekdb.execution.python_runtime import build_kind
from creekdb.protocol.effects import Event
from creekdb.protocol.messages import Message, Record
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica
from creekdb.server.backup.sessions import BackupSessions
from creekdb.server.calls.admission_control import PendingStrongCalls
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.server.calls.dispatcher import CallDispatcher
from creekdb.server.calls.relay import CallRelay
from creekdb.server.observability.divergence import DIGEST_INTERVAL_REQUESTS, DivergenceDetector
from creekdb.server.observability.latency import CallLatencies
from creekdb.server.runtime.config import SecurityConfig
from creekdb.server.runtime.driver import Driver
from creekdb.server.runtime.executors import InlineExecutor, Watchdog
from creekdb.server.runtime.startup import CONSENSUS_WINDOW, INLINE_TASKS_MAX, NOOP_TICKS
from creekdb.server.security.authentication import AccessTokens
from creekdb.server.storage.segment_writer import CheckpointSlot
from creekdb.server.transport.client_connection import ClientConnection
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
LINES: Final = 8
CALLS: Final = 8
"""Of a line, in a turn."""
KEYS: Final = 10_000
VALUE_BYTES: Final = 256
FILLING: Final = CALLS_PER_CLIENT_MAX // CALLS
"""Turns until every register is written to."""
EVENTS: Final = 4
"""Turns of the loop until all of a turn is done: what is said, is heard in the next."""


class Disk:
    """As quick as it gets."""

    def __init__(self) -> None:
        self.durable_position = 0
        self.end = 0
        self.fault: StorageFault | None = None

    def append(self, records: Sequence[Record], hurry: bool = True) -> int:
        self.end += len(records)
        return self.end

    def request_sync(self) -> None:
        pass

    def append_checkpoint(self, pieces: Iterable[bytes]) -> int:
        raise NotImplementedError

    def reserve_checkpoint(self) -> CheckpointSlot:
        raise NotImplementedError

    def write_checkpoint(
        self, room: CheckpointSlot, pieces: Iterable[bytes], over: Callable[[], None]
    ) -> None:
        raise NotImplementedError


class Wire:
    """In the place of a transport: counts what is written to a client."""

    def __init__(self) -> None:
        self.written = 0
        self._socket = socket.socket()

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> socket.socket:
        return self._socket

    def close(self) -> None:
        self._socket.close()


class Node:
    def __init__(self, index: int) -> None:
        settings = Settings(
            members=MEMBERS,
            checkpoint_every=1 << 30,
            digest_every=DIGEST_INTERVAL_REQUESTS,
            drafts=1,
            noop_ticks=NOOP_TICKS,
            window=CONSENSUS_WINDOW,
            parallelism=INLINE_TASKS_MAX,
        )
        self.index = index
        self.replica = CreekReplica(index, settings, DeduplicatingDataType(KV))
        self.disk = Disk()
        self.digests = DivergenceDetector(index, MEMBERS)
        self.undecided = PendingStrongCalls(1 << 30)
        self.traffic = CallRelay(CallLatencies(), self.undecided)
        watchdog = Watchdog(10.0, EventLog(index))
        self.driver = self.traffic.driver = Driver(
            self.replica,
            self.disk,
            InlineExecutor(watchdog, _broke),
            send=self._send,
            send_snapshot=_broke,
            respond=self.traffic.respond,
            observe=_observe,
            compare=lambda digest: self.digests.record(digest, self.disk.end),
            broke=_broke,
        )
        self.desk = self.traffic.dispatcher = CallDispatcher(
            "here",
            index,
            KV,
            invoke=self.traffic.invoke,
            has=self.replica.has_request,
            alone=self.replica.can_respond_locally,
            refusal=lambda strong, alone: None,
            who_cannot=lambda name, count: None,
            change_members=_broke,
            status=dict,
            count=_count,
            copies=BackupSessions(_broke, _broke),
            tokens=AccessTokens(SecurityConfig()),
        )
        self.others: list[Node] = []
        self._heard: list[tuple[bytes, int]] = []
        self.lines = [self._line(each) for each in range(LINES)]

    def _line(self, number: int) -> ClientConnection:
        line = ClientConnection(self.desk)
        line.connection_made(cast(asyncio.Transport, Wire()))
        line.data_received(encode_frame(ClientHello(WIRE_VERSION, f"{self.index} {number}")))
        return line

    def _send(self, to: tuple[int, ...], message: Message) -> None:
        frame = encode_frame(message)
        for node in self.others:
            if node.index in to:
                node._heard.append((frame[4:], self.index))

    def hear(self) -> None:
        heard, self._heard = self._heard, []
        for payload, sender in heard:
            message = decode_peer_message(payload)
            assert not isinstance(message, StateDigests)
            self.driver.receive(cast(Message, message), sender)

    def write(self) -> None:
        if self.disk.durable_position < self.disk.end:
            self.disk.durable_position = self.disk.end
            self.driver.release()


def _broke(*_: Any) -> Any:
    raise AssertionError


def _observe(events: tuple[Event, ...]) -> None:
    pass


def _count(reason: str) -> None:
    raise AssertionError(reason)


def asked(turns: int, first: int, strong: float) -> list[list[bytes]]:
    """For each line of each turn, what its clients call."""
    random = Random(first)
    values = [random.randbytes(VALUE_BYTES) for _ in range(64)]
    found = []
    for turn in range(turns):
        of_turn = []
        for _ in range(LINES * len(MEMBERS)):
            frames = []
            for each in range(CALLS):
                key = f"key{random.randrange(KEYS):08}"
                number = first + turn * CALLS + each
                call = CallRequest(
                    number, "put", (key, random.choice(values)), random.random() < strong, each
                )
                frames.append(encode_frame(call))
            of_turn.append(b"".join(frames))
        found.append(of_turn)
    return found


async def measure_calls(
    turns: int, repeats: int, strong: float, filling: int = FILLING
) -> list[float]:
    """What a call takes of one replica, in microseconds, each time that it was measured."""
    nodes = [Node(index) for index in MEMBERS]
    for node in nodes:
        node.others = [other for other in nodes if other is not node]
    for _ in range(100):  # until there is a leader
        await _turn(nodes, None)
    found = []
    done = 1
    for repeat in range(repeats + 1):
        count = turns if repeat else max(turns, filling)
        calls = asked(count, done, strong)
        done += count * CALLS
        with without_collector():
            begun = time.process_time_ns()
            for each in calls:
                await _turn(nodes, each)
            found.append(
                (time.process_time_ns() - begun)
                / 1000
                / (count * CALLS * LINES * len(nodes) * len(nodes))
            )
    for _ in range(50):
        await _turn(nodes, None)
    assert not any(node.replica.tentative_length() for node in nodes)
    assert len({node.replica.committed_length() for node in nodes}) == 1
    for node in nodes:
        for line in node.lines:
            line.close()
    return found[1:]  # the first one finds everything empty


async def _turn(nodes: list[Node], calls: list[bytes] | None) -> None:
    for node in nodes:
        if calls is not None:
            for number, line in enumerate(node.lines):
                line.data_received(calls[node.index * LINES + number])
        node.hear()
    for _ in range(EVENTS):
        await asyncio.sleep(0)
        for node in nodes:
            node.write()
    for node in nodes:
        node.driver.tick()


def measure(scale: Scale) -> Iterator[Result]:
    for name, strong in (("weak", 0.0), ("strong", 1.0)):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            turns, filling = max(1, scale.timed // 20), min(FILLING, scale.timed // 10)
            found = runner.run(measure_calls(turns, scale.repeats, strong, filling))
        yield Result(
            what=f"call: {name}",
            explanation=f"What a {name} put takes of the processor at each of three replicas, but "
            "for disk, network and system.",
            value=min(found),
            unit="µs",
        )


BENCHMARK = Benchmark("call", 2, measure)


@click.command()
@click.option("--turns", default=100, show_default=True, help="Of 192 calls, at a time.")
@click.option("--repeats", default=5, show_default=True)
@click.option("--strong", default=0.0, show_default=True, help="The share of strong calls.")
def main(turns: int, repeats: int, strong: float) -> None:
    """Print what a call costs each replica.

    Example: python -m benchmarks.call --strong 1
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        found = runner.run(measure_calls(turns, repeats, strong))
    times = ", ".join(f"{each:.1f}" for each in found)
    click.echo(f"{build_kind()}: {min(found):.1f} µs of each replica for a call ({times})")


if __name__ == "__main__":
    sys.exit(main(prog_name="python -m benchmarks.call"))
