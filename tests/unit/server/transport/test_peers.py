"""What another replica says: each in its turn, and a part of a state in a turn of its own."""

import asyncio
import socket
from typing import Any, cast

import msgspec
import pytest

from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.protocol.checkpoint.stream import ArrayEncoder, AssembledSnapshot
from creekdb.protocol.messages import Progress
from creekdb.server.runtime.task_supervisor import TaskSupervisor
from creekdb.server.transport.peer_link import PeerSender
from creekdb.server.transport.peers import PeerNetwork, PeerReceiver
from creekdb.server.transport.snapshot_transfer import snapshot_frames
from creekdb.wire import messages
from creekdb.wire.framing import UNEXPECTED_HTTP, UNEXPECTED_TLS
from tests.unit.server.transport.test_snapshot_transfer import BARE, drawn

OURS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 0, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)
THEIRS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 1, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)
REGISTERS = 5000


class Wire:
    """A transport that remembers whether it is read from."""

    def __init__(self) -> None:
        self.is_read = True
        self.is_closed = False
        self._socket = socket.socket()
        self._socket.close()

    def write(self, data: bytes) -> None:
        pass

    def get_extra_info(self, name: str) -> socket.socket:
        return self._socket

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class Heard:
    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.counted: list[str] = []
        self.told: list[str] = []
        self.arrivals = StateLoader(EmptyBase(), digested=True)
        self.peers = PeerNetwork(
            OURS,
            {0: ("127.0.0.1", 1), 1: ("127.0.0.1", 2)},
            lambda message, sender: self.messages.append(message),
            lambda: self.arrivals,
            self.counted.append,
            TaskSupervisor(lambda error: None).spawn,
            log=lambda _, line: self.told.append(line),
        )
        self.wire = Wire()
        self.listener = PeerReceiver(self.peers, parts_s=0.0)
        self.listener.connection_made(cast(asyncio.BaseTransport, self.wire))
        self.listener.data_received(messages.encode_frame(THEIRS))


def state() -> bytes:
    """Of many registers, and then a message."""
    held = ArrayEncoder()
    for first in range(0, REGISTERS, 100):
        held.extend([(("item", first + each), "x" * 100) for each in range(100)])
    frames = snapshot_frames(drawn()._replace(live=held, deleted=ArrayEncoder()))
    return b"".join(frames) + messages.encode_frame(Progress(7, 7))


def test_parts_of_a_state_that_come_at_once_are_taken_in_one_in_a_turn() -> None:
    async def story() -> None:
        heard = Heard()
        heard.listener.data_received(state())
        taken, most = 0, 0
        while not heard.messages:
            most, taken = (
                max(most, len(heard.arrivals.registers) - taken),
                len(heard.arrivals.registers),
            )
            assert not heard.wire.is_read, "nothing else is read before its turn"
            await asyncio.sleep(0)
        assert 0 < most < REGISTERS // 10
        brought, progress = heard.messages
        assert isinstance(brought, AssembledSnapshot)
        assert brought.live.count == REGISTERS
        assert progress == Progress(7, 7)
        assert heard.wire.is_read

    asyncio.run(story())


def test_what_comes_all_the_same_while_a_part_is_taken_in_has_its_turn_later() -> None:
    async def story() -> None:
        heard, data = Heard(), state()
        for first in range(0, len(data), 50_000):  # of a connection that cannot be held up
            heard.listener.data_received(data[first : first + 50_000])
        while len(heard.messages) < 2:
            await asyncio.sleep(0)
        assert heard.messages[0].held.count == REGISTERS
        assert heard.messages[1] == Progress(7, 7)

    asyncio.run(story())


def test_a_connection_that_is_closed_meanwhile_is_heard_no_more() -> None:
    async def story() -> None:
        heard = Heard()
        heard.listener.data_received(state())
        heard.wire.close()
        for _ in range(100):
            await asyncio.sleep(0)
        assert heard.messages == []
        assert heard.arrivals.registers.keys() < {("item", each) for each in range(REGISTERS)}

    asyncio.run(story())


def test_a_snapshot_of_nothing_is_no_part_and_holds_up_nothing() -> None:
    async def story() -> None:
        heard = Heard()
        heard.listener.data_received(
            messages.encode_frame(BARE) + messages.encode_frame(Progress(7, 7))
        )
        assert heard.messages == [BARE, Progress(7, 7)]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ([b"\x16\x03\x01\x02\x00\x01"], UNEXPECTED_TLS),
        ([b"\x16\x03", b"\x01\x02\x00\x01"], UNEXPECTED_TLS),
        ([b"GET / HTTP/1.1\r\n\r\n"], UNEXPECTED_HTTP),
        ([b"\xff" * 8], "malformed"),
    ],
)
def test_one_who_speaks_another_language_is_counted_as_such(
    pieces: list[bytes], reason: str
) -> None:
    async def story() -> None:
        heard, wired = Heard(), Wire()
        listener = PeerReceiver(heard.peers)
        listener.connection_made(cast(asyncio.BaseTransport, wired))
        for piece in pieces:
            listener.data_received(piece)
        assert heard.counted == [reason]
        assert wired.is_closed

    asyncio.run(story())


def test_how_long_one_has_said_nothing_is_known() -> None:
    async def story() -> None:
        heard = Heard()
        heard.listener.last_received_s -= 60
        assert heard.peers.silence_by_member_s()[1] >= 60
        heard.listener.data_received(messages.encode_frame(Progress(7, 7)))
        assert heard.peers.silence_by_member_s()[1] < 60

    asyncio.run(story())


def test_a_second_replica_with_the_number_of_one_that_is_there_is_not_heard() -> None:
    def dials(heard: Heard, at: str) -> bool:
        wired = Wire()
        listener = PeerReceiver(heard.peers)
        listener.connection_made(cast(asyncio.BaseTransport, wired))
        listener.data_received(
            messages.encode_frame(msgspec.structs.replace(THEIRS, peer_address=at))
        )
        return not wired.is_closed

    async def story() -> None:
        heard = Heard()
        link = heard.peers.links[1]
        assert dials(heard, "127.0.0.1:9"), "it may have moved"
        link._sender, link.peer_address = PeerSender(heard.peers.hello), "127.0.0.1:2"
        assert not dials(heard, "127.0.0.1:9")
        assert not dials(heard, "127.0.0.1:9")
        assert heard.counted == ["another replica with the same number"] * 2
        (said,) = heard.told
        assert "there are two replicas 1: one at 127.0.0.1:2, and one that says" in said
        assert dials(heard, "127.0.0.1:2")
        assert dials(heard, ""), "of an earlier version"

    asyncio.run(story())
