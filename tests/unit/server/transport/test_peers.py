"""Receiving from other replicas: snapshot parts, rejected peers, silence."""

import asyncio
import socket
from typing import Any, cast

import msgspec
import pytest

from creekdb.driver.checkpoint_writer import REGISTERS_PER_TURN_MAX
from creekdb.driver.snapshot_parts import snapshot_payloads
from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.protocol.checkpoint.stream import ArrayEncoder, AssembledSnapshot
from creekdb.protocol.messages import Progress
from creekdb.server.runtime.task_supervisor import TaskSupervisor
from creekdb.server.transport.peer_link import PeerSender
from creekdb.server.transport.peers import PeerNetwork, PeerPorts, PeerReceiver, discard_gradually
from creekdb.wire import messages
from creekdb.wire.counters import ServerCounter
from creekdb.wire.reject_reason import RejectReason
from tests.unit.driver.test_snapshot_parts import BARE, encoded_snapshot

OURS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 0, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)
THEIRS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 1, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)
REGISTERS = 5000


class StubTransport:
    """Transport that records whether reading is paused."""

    def __init__(self) -> None:
        self.is_reading = True
        self.is_closed = False
        self._socket = socket.socket()
        self._socket.close()

    def write(self, data: bytes) -> None:
        pass

    def get_extra_info(self, name: str) -> socket.socket:
        return self._socket

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class ReceiverFixture:
    """A receiver with a connected peer, and everything that it reports."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.counters: list[str] = []
        self.log: list[str] = []
        self.loader = StateLoader(EmptyBase(), with_digest=True)
        self.peers = PeerNetwork(
            OURS,
            {0: ("127.0.0.1", 1), 1: ("127.0.0.1", 2)},
            PeerPorts(
                receive=lambda message, sender: self.messages.append(message),
                new_loader=lambda: self.loader,
                count_failure=self.counters.append,
                spawn=TaskSupervisor(lambda error: None).spawn,
                log=lambda _, line: self.log.append(line),
                on_hello=lambda hello: None,
                on_duplicate=lambda message: None,
            ),
        )
        self.transport = StubTransport()
        self.receiver = PeerReceiver(self.peers, snapshot_turn_s=0.0)
        self.receiver.connection_made(cast(asyncio.BaseTransport, self.transport))
        self.receiver.data_received(messages.encode_frame(THEIRS))


def encoded_state() -> bytes:
    """Return the frames of a snapshot with many registers, and of one more message."""
    live = ArrayEncoder()
    for first in range(0, REGISTERS, 100):
        live.extend([(("item", first + each), "x" * 100) for each in range(100)])
    encoded = encoded_snapshot()._replace(live=live, deleted=ArrayEncoder())
    payloads = snapshot_payloads(encoded, messages.PEER_FRAME_BYTES_MAX)
    frames = map(messages.frame_payload, payloads)
    return b"".join(frames) + messages.encode_frame(Progress(7, 7))


async def test_snapshot_parts_that_arrive_together_are_loaded_in_separate_iterations() -> None:
    fixture = ReceiverFixture()
    fixture.receiver.data_received(encoded_state())
    loaded, loaded_max = 0, 0
    while not fixture.messages:
        loaded_max, loaded = (
            max(loaded_max, len(fixture.loader.registers) - loaded),
            len(fixture.loader.registers),
        )
        assert not fixture.transport.is_reading, "reading is paused while parts are loaded"
        await asyncio.sleep(0)
    assert 0 < loaded_max < REGISTERS // 10
    snapshot, progress = fixture.messages
    assert isinstance(snapshot, AssembledSnapshot)
    assert snapshot.live.count == REGISTERS
    assert progress == Progress(7, 7)
    assert fixture.transport.is_reading


async def test_data_that_arrives_while_reading_is_paused_is_handled_later() -> None:
    fixture, data = ReceiverFixture(), encoded_state()
    for first in range(0, len(data), 50_000):  # a transport that does not pause
        fixture.receiver.data_received(data[first : first + 50_000])
    while len(fixture.messages) < 2:
        await asyncio.sleep(0)
    assert fixture.messages[0].live.count == REGISTERS
    assert fixture.messages[1] == Progress(7, 7)


async def test_a_connection_that_is_closed_meanwhile_receives_nothing() -> None:
    fixture = ReceiverFixture()
    fixture.receiver.data_received(encoded_state())
    fixture.transport.close()
    for _ in range(100):
        await asyncio.sleep(0)
    assert fixture.messages == []
    assert fixture.loader.registers.keys() < {("item", each) for each in range(REGISTERS)}


async def test_an_empty_snapshot_has_no_parts_and_causes_no_pause() -> None:
    fixture = ReceiverFixture()
    fixture.receiver.data_received(
        messages.encode_frame(BARE) + messages.encode_frame(Progress(7, 7))
    )
    assert fixture.messages == [BARE, Progress(7, 7)]


@pytest.mark.parametrize(
    ("chunks", "counter"),
    [
        ([b"\x16\x03\x01\x02\x00\x01"], RejectReason.UNEXPECTED_TLS),
        ([b"\x16\x03", b"\x01\x02\x00\x01"], RejectReason.UNEXPECTED_TLS),
        ([b"GET / HTTP/1.1\r\n\r\n"], RejectReason.UNEXPECTED_HTTP),
        ([b"\xff" * 8], RejectReason.MALFORMED),
    ],
)
async def test_other_protocols_have_counters_of_their_own(
    chunks: list[bytes], counter: ServerCounter
) -> None:
    fixture, transport = ReceiverFixture(), StubTransport()
    receiver = PeerReceiver(fixture.peers)
    receiver.connection_made(cast(asyncio.BaseTransport, transport))
    for chunk in chunks:
        receiver.data_received(chunk)
    assert fixture.counters == [counter]
    assert transport.is_closed


async def test_the_silence_of_a_member_is_measured() -> None:
    fixture = ReceiverFixture()
    fixture.receiver.last_received_s -= 60
    assert fixture.peers.silence_by_member_s()[1] >= 60
    fixture.receiver.data_received(messages.encode_frame(Progress(7, 7)))
    assert fixture.peers.silence_by_member_s()[1] < 60


async def test_a_second_replica_with_the_number_of_a_connected_one_is_rejected() -> None:
    def is_accepted(fixture: ReceiverFixture, at: str) -> bool:
        transport = StubTransport()
        receiver = PeerReceiver(fixture.peers)
        receiver.connection_made(cast(asyncio.BaseTransport, transport))
        receiver.data_received(
            messages.encode_frame(msgspec.structs.replace(THEIRS, peer_address=at))
        )
        return not transport.is_closed

    fixture = ReceiverFixture()
    link = fixture.peers.links[1]
    assert is_accepted(fixture, "127.0.0.1:9"), "the replica may have moved"
    link._sender, link.peer_address = PeerSender(fixture.peers.hello), "127.0.0.1:2"
    assert not is_accepted(fixture, "127.0.0.1:9")
    assert not is_accepted(fixture, "127.0.0.1:9")
    assert fixture.counters == [ServerCounter.DUPLICATE_REPLICA] * 2
    (line,) = fixture.log
    assert (
        "two replicas have the number 1: one at 127.0.0.1:2, and a rejected one at 127.0.0.1:9;"
        in line
    )
    assert is_accepted(fixture, "127.0.0.1:2")
    assert is_accepted(fixture, ""), "an earlier version sends no address"


async def test_the_earlier_connection_of_a_returning_replica_is_closed_and_ignored() -> None:
    fixture = ReceiverFixture()
    transport, receiver = StubTransport(), PeerReceiver(fixture.peers)
    receiver.connection_made(cast(asyncio.BaseTransport, transport))
    receiver.data_received(messages.encode_frame(THEIRS))
    assert fixture.transport.is_closed
    assert not transport.is_closed
    fixture.receiver.data_received(messages.encode_frame(Progress(6, 6)))  # sent before the close
    receiver.data_received(messages.encode_frame(Progress(7, 7)))
    assert fixture.messages == [Progress(7, 7)]


async def test_unwanted_registers_are_discarded_gradually() -> None:
    loader = StateLoader(EmptyBase(), with_digest=False)
    loader.add([(each, each) for each in range(REGISTERS_PER_TURN_MAX * 3)], ())
    iterations = 0
    discard_gradually(loader)
    while loader.registers or loader.keys:
        before = len(loader.registers)
        await asyncio.sleep(0)
        assert before - len(loader.registers) <= REGISTERS_PER_TURN_MAX
        iterations += 1
    assert iterations == 2
