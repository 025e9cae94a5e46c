"""A connection to another replica that was dialled here: we talk, and hear only its hello.

What is written in one turn of the loop leaves as one piece. What waits for a slow peer is bounded.

What connects us to one other replica: we dial, talk, and hear only its hello.

A connection that breaks is dialled again, after ever longer pauses until one lasts, or when its
peer has dialled here. What waits for a slow peer is bounded: beyond that, messages are dropped and
counted. The protocol survives that, like any loss.
"""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from creekdb.errors import MalformedMessage
from creekdb.server.security.authentication import NO_TLS_FROM_PEER, describe_tls_error
from creekdb.server.transport.keepalive import enable_keepalive
from creekdb.wire.addresses import format_address
from creekdb.wire.framing import FrameDecoder
from creekdb.wire.messages import PEER_FRAME_BYTES_MAX, PeerHello, decode_peer_hello, encode_frame
from creekdb.wire.tls import accepts_tls

if TYPE_CHECKING:
    from creekdb.server.transport.peers import PeerNetwork

UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes for one peer."""


class PeerSender:
    """An `asyncio.Protocol` by its methods; it does not inherit from it, so that it can be
    compiled."""

    def __init__(self, hello: PeerHello) -> None:
        loop = asyncio.get_running_loop()
        self.peer_hello: asyncio.Future[PeerHello | None] = loop.create_future()
        """None: the connection ended without one."""
        self.closed: asyncio.Future[None] = loop.create_future()
        self._own_hello = hello
        self._frames = FrameDecoder(PEER_FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._outgoing: list[bytes] = []
        self._interleaved: Iterator[bytes] | None = None
        """What leaves one by one, with room between for the rest."""
        self._is_paused = False
        self._loop = loop

    @property
    def is_connected(self) -> bool:
        """Or was it, at least?"""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        enable_keepalive(self._transport)
        self._transport.write(encode_frame(self._own_hello))

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                if not self.peer_hello.done():
                    self.peer_hello.set_result(decode_peer_hello(payload))
        except MalformedMessage:
            self._resolve_without_hello()
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._resolve_without_hello()
        if not self.closed.done():
            self.closed.set_result(None)

    def _resolve_without_hello(self) -> None:
        if not self.peer_hello.done():
            self.peer_hello.set_result(None)

    def eof_received(self) -> None:
        """The connection is closed."""

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._write_next()

    def write_interleaved(self, frames: Iterator[bytes]) -> bool:
        """False when there are such already."""
        if self._interleaved is not None:
            return False
        self._interleaved = frames
        self._write_next()
        return True

    def _write_next(self) -> None:
        """What is not paused has room for a part."""
        if self._interleaved is None or self._is_paused or self.closed.done():
            return
        frame = next(self._interleaved, None)
        if frame is None:
            self._interleaved = None
        else:
            self.write(frame)
            self._loop.call_soon(self._write_next)

    def write(self, frame: bytes) -> bool:
        """With all else that is written in this turn. False when there is too much already."""
        assert self._transport is not None
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            return False
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(frame)
        return True

    def close(self) -> None:
        """What was written leaves before."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._outgoing.clear()
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        waiting, self._outgoing = self._outgoing, []
        if waiting and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(waiting))


REDIAL_PAUSE_MIN_S: Final = 0.05
REDIAL_PAUSE_MAX_S: Final = 2.0
BACKOFF_RESET_S: Final = 1.0
"""A connection that breaks sooner is none: who says hello and hangs up is not dialled again at
once, over and over."""
DIAL_TIMEOUT_S: Final = 4.0
"""Until who is dialled has said hello."""
PEER_WITHOUT_TLS_MESSAGE: Final = (
    "it does not encrypt, and this replica does: give that one certificates, under [security]"
)
PEER_REQUIRES_TLS_MESSAGE: Final = (
    "it encrypts, and this replica does not: give this one certificates, under [security]"
)


class PeerRejection(NamedTuple):
    reason: str
    """To be counted: of these there are few, whatever a peer says."""
    message: str


class PeerLink:
    def __init__(
        self,
        peers: "PeerNetwork",
        replica: int,
        host: str,
        port: int,
        secured: ssl.SSLContext | None,
    ) -> None:
        self._peers = peers
        self._replica = replica
        self._host = host
        self._port = port
        self._ssl_context = secured
        self._task: asyncio.Task[None] | None = None
        self._sender: PeerSender | None = None
        self._last_logged = ""
        self._random = Random(f"{peers.hello.replica} dials {replica}")
        self._redial_requested = asyncio.Event()
        self._is_retired = False
        self.has_been_dialled = False
        """Has it been dialled, whatever came of it?"""
        self.peer_address = ""
        """Where the one that is there says that others find it."""

    def retire(self) -> None:
        """It is no member any more: when the connection ends, there is another one only while it
        talks to us, or if it comes back, and does not know."""
        self._is_retired = True

    @property
    def is_up(self) -> bool:
        return self._sender is not None

    def start(self) -> None:
        self._task = self._peers.spawn(self._maintain())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._sender is not None:
            self._sender.close()

    def send(self, frame: bytes) -> None:
        if self._sender is None:
            self._peers.count("sent to a peer that is away")
        elif not self._sender.write(frame):
            self._peers.count("dropped for a slow peer")

    def send_interleaved(self, frames: Iterator[bytes]) -> None:
        """One after the other, as the connection can take them; unless others are on their way."""
        if self._sender is None:
            self._peers.count("sent to a peer that is away")
        elif not self._sender.write_interleaved(self._count_frames(frames)):
            self._peers.count("dropped for a slow peer")

    def _count_frames(self, frames: Iterator[bytes]) -> Iterator[bytes]:
        for frame in frames:
            self._peers.sent_bytes += len(frame)
            self._peers.sent_messages += 1
            yield frame

    def abort(self) -> None:
        """The connection, with what waits to be sent."""
        if self._sender is not None:
            self._sender.abort()

    def redial_soon(self) -> None:
        """It is there, as far as one can tell: no longer pause before it is dialled again."""
        self._redial_requested.set()
        if self._is_retired and self._task is not None and self._task.done():
            self.start()

    async def _maintain(self) -> None:
        loop, pause = asyncio.get_running_loop(), REDIAL_PAUSE_MIN_S
        while True:
            talker = await self._dial()
            self.has_been_dialled = True
            if talker is not None:
                self._sender, begun = talker, loop.time()
                await talker.closed
                self._sender = None
                if loop.time() >= begun + BACKOFF_RESET_S:
                    pause = REDIAL_PAUSE_MIN_S
            if self._is_retired and not self._peers.has_receiver(self._replica):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * (0.5 + self._random.random())):
                    await self._redial_requested.wait()
            self._redial_requested.clear()
            pause = min(REDIAL_PAUSE_MAX_S, pause * 2)

    async def _dial(self) -> PeerSender | None:
        loop = asyncio.get_running_loop()
        talker = PeerSender(self._peers.hello)
        protocol = cast(asyncio.Protocol, talker)
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                await loop.create_connection(
                    lambda: protocol, self._host, self._port, ssl=self._ssl_context
                )
                hello = await talker.peer_hello
        except ssl.SSLError as error:
            talker.abort()
            reason = describe_tls_error(error)
            self._report(
                PeerRejection(
                    reason, PEER_WITHOUT_TLS_MESSAGE if reason == NO_TLS_FROM_PEER else str(error)
                )
            )
            return None
        except OSError:
            talker.abort()
            self._peers.count("no hello" if talker.is_connected else "could not reach a peer")
            return None
        except BaseException:
            talker.abort()
            raise
        if hello is None:
            talker.abort()
            if await self._has_tls_peer():
                self._report(PeerRejection("no hello", PEER_REQUIRES_TLS_MESSAGE))
            else:
                self._peers.count("no hello")
            return None
        problem = self._peers.check_hello(hello)
        if problem is None and hello.replica != self._replica:
            what = f"replica {hello.replica} answers where {self._replica} should"
            problem = PeerRejection("members", what)
        if problem is not None:
            self._report(problem)
            talker.close()
            return None
        self._last_logged = ""
        self.peer_address = hello.peer_address
        self._peers.record_hello(hello)
        return talker

    async def _has_tls_peer(self) -> bool:
        """Is that why it left without a word? Once that is told, it is not asked again."""
        if self._ssl_context is not None:
            return False
        return self._last_logged == PEER_REQUIRES_TLS_MESSAGE or await accepts_tls(
            (self._host, self._port), DIAL_TIMEOUT_S
        )

    def _report(self, problem: PeerRejection) -> None:
        """The person who looks after this replica, once."""
        self._peers.count(problem.reason)
        if problem.message != self._last_logged:
            self._last_logged = problem.message
            where = f"replica {self._replica} at {format_address(self._host, self._port)}"
            self._peers.log(self._replica, f"cannot talk to {where}: {problem.message}")
