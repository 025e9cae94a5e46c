"""A connection that another replica dialled to us: it says hello, then the protocol's messages."""

import asyncio
from typing import TYPE_CHECKING, Final, cast

from creek.cluster.frames import Frames
from creek.cluster.parts import Assembly
from creek.cluster.silence import notice_silence
from creek.cluster.wire import (
    PEER_FRAME_MAX,
    FromPeer,
    Part,
    PeerHello,
    frame_of,
    from_peer,
    peer_hello,
)
from creek.errors import MalformedMessage
from creek.protocol.messages import Snapshot

if TYPE_CHECKING:
    from creek.cluster.peers import Peers

HELLO_S: Final = 10.0
"""How long who dialled here may be silent before it says hello."""
HELLO_BYTES_MAX: Final = 64 * 1024


class Listener:
    """An `asyncio.Protocol` by its methods; it does not inherit from it, so that it can be
    compiled."""

    def __init__(self, peers: "Peers") -> None:
        self._peers = peers
        self._frames = Frames(HELLO_BYTES_MAX)
        self._assembly = Assembly()
        self._transport: asyncio.Transport | None = None
        self._silence = asyncio.get_running_loop().call_later(HELLO_S, self._leave_silent)
        self.sender: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        notice_silence(self._transport)
        self._peers.heard.add(self)
        self._transport.write(frame_of(self._peers.hello))

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                if self._transport is None or self._transport.is_closing():
                    return
                if self.sender is None:
                    hello = peer_hello(payload)
                    self._greet(hello)
                else:
                    self._hear(from_peer(payload), self.sender)
        except MalformedMessage:
            self._peers.count("malformed")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._silence.cancel()
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
            self._peers.receive(self._assembly.whole(message), sender)
        else:
            self._peers.receive(message, sender)

    def _leave_silent(self) -> None:
        self._peers.count("malformed")
        self.close()

    def _greet(self, hello: PeerHello) -> None:
        problem = self._peers.problem(hello)
        if problem is None:
            # What it said before it came back is not to be heard after it.
            for other in tuple(self._peers.heard):
                if other.sender == hello.replica:
                    other.close()
            self.sender = hello.replica
            self._silence.cancel()
            self._frames.most = PEER_FRAME_MAX
            self._peers.greet(hello)
        else:
            self._peers.count(problem.reason)
            self.close()
