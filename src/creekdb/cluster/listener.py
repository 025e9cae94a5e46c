"""A connection that another replica dialled to us: it says hello, then the protocol's messages."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from creekdb.cluster.frames import Frames, another_language
from creekdb.cluster.parts import Assembly, give_up
from creekdb.cluster.silence import UntilHello, notice_silence
from creekdb.cluster.wire import (
    HELLO_FRAME_MAX,
    PEER_FRAME_MAX,
    FromPeer,
    Part,
    PeerHello,
    frame_of,
    from_peer,
    peer_hello,
)
from creekdb.errors import FrameTooLong, MalformedMessage
from creekdb.protocol.checkpoint.stream import Brought
from creekdb.protocol.messages import Snapshot

if TYPE_CHECKING:
    from creekdb.cluster.peers import Peers

PARTS_S: Final = 0.004
"""For how long parts of a snapshot are taken in before others have their turn."""


class Listener:
    """An `asyncio.Protocol` by its methods; it does not inherit from it, so that it can be
    compiled."""

    def __init__(self, peers: "Peers", parts_s: float = PARTS_S) -> None:
        self._peers = peers
        self._parts_s = parts_s
        self._frames = Frames(HELLO_FRAME_MAX)
        self._assembly = Assembly(peers.intake)
        self._transport: asyncio.Transport | None = None
        self._until_hello = UntilHello()
        self.sender: int | None = None
        self.heard_at = time.monotonic()
        """When it last said something."""
        self._data: deque[bytes] = deque()
        """What came while it was paused, or just now."""
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        notice_silence(self._transport)
        self._until_hello.begin(self._leave_silent)
        self._peers.heard.add(self)
        self._transport.write(frame_of(self._peers.hello))

    def data_received(self, data: bytes) -> None:
        self._data.append(data)
        if not self._is_paused:
            self._hear_all(self._payloads())

    def _payloads(self) -> Iterator[bytes]:
        while self._data:
            yield from self._frames.feed(self._data.popleft())

    def _hear_all(self, payloads: Iterator[bytes]) -> None:
        self.heard_at = begun = time.monotonic()
        try:
            for payload in payloads:
                if self._transport is None or self._transport.is_closing():
                    return
                if self.sender is None:
                    hello = peer_hello(payload)
                    self._greet(hello)
                    continue
                message = from_peer(payload)
                self._hear(message, self.sender)
                if isinstance(message, Part) and time.monotonic() >= begun + self._parts_s:
                    self._pause(payloads)
                    return
        except FrameTooLong as error:
            language = another_language(error.begins) if self.sender is None else None
            self._peers.count(language or "malformed")
            self.close()
        except MalformedMessage:
            self._peers.count("malformed")
            self.close()

    def _pause(self, payloads: Iterator[bytes]) -> None:
        """To take in parts takes a while: what comes behind them is heard in another turn."""
        self._is_paused = True
        if self._transport is not None:
            self._transport.pause_reading()
        asyncio.get_running_loop().call_soon(self._go_on, payloads)

    def _go_on(self, payloads: Iterator[bytes]) -> None:
        self._is_paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._hear_all(payloads)

    def connection_lost(self, exc: Exception | None) -> None:
        self._until_hello.end()
        self._peers.heard.discard(self)

    def eof_received(self) -> None:
        """The connection is closed."""

    def pause_writing(self) -> None:
        """There is nothing to write but a hello."""

    def resume_writing(self) -> None:
        pass

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _hear(self, message: FromPeer, sender: int) -> None:
        if isinstance(message, Part):
            self._assembly.add(message)
        elif isinstance(message, Snapshot):
            whole = self._assembly.whole(message)
            self._peers.receive(whole, sender)
            if isinstance(whole, Brought):
                give_up(whole.intake)
        else:
            self._peers.receive(message, sender)

    def _leave_silent(self) -> None:
        self._peers.count("malformed")
        self.close()

    def _greet(self, hello: PeerHello) -> None:
        problem = self._peers.problem(hello) or self._peers.twin(hello)
        if problem is None:
            # What it said before it came back is not to be heard after it.
            for other in tuple(self._peers.heard):
                if other.sender == hello.replica:
                    other.close()
            self.sender = hello.replica
            self._until_hello.end()
            self._frames.most = PEER_FRAME_MAX
            self._peers.greet(hello)
        else:
            self._peers.count(problem.reason)
            self.close()
