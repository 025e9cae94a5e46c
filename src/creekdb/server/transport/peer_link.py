"""Outgoing connection to one other replica.

A replica sends messages only on connections that it has dialled, and receives only the reply to its
hello on them. Frames written in one iteration of the event loop are sent in one call. The link
redials a broken connection after increasing pauses, or at once when the peer has dialled this
replica.

The unsent bytes for a slow peer are bounded. Beyond the bound, messages are dropped and counted.
The protocol tolerates that like any message loss.
"""

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from creekdb.errors import MalformedMessage
from creekdb.server.security.authentication import tls_error_counter
from creekdb.server.transport.keepalive import HELLO_TIMEOUT_S, enable_keepalive
from creekdb.wire.addresses import format_address
from creekdb.wire.counters import ServerCounter
from creekdb.wire.framing import FrameDecoder, FrameWriter
from creekdb.wire.messages import (
    PEER_FRAME_BYTES_MAX,
    PeerHello,
    PeerRefused,
    decode_peer_reply,
    encode_frame,
)
from creekdb.wire.protocol_frames import MESSAGE_REQUEST_BYTES_MAX
from creekdb.wire.tls import accepts_tls

if TYPE_CHECKING:
    from creekdb.server.transport.peers import PeerNetwork

UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Upper bound for the unsent bytes of one peer."""


class PeerLimits(NamedTuple):
    """Limits of the connections to other replicas."""

    redial_pause_s_min: float = 0.05
    redial_pause_s_max: float = 2.0
    dial_timeout_s: float = 4.0
    """Time limit for the connection and the peer's hello."""
    hello_timeout_s: float = HELLO_TIMEOUT_S
    """Time limit for the hello of a peer that has dialled this replica."""
    frame_bytes_max: int = PEER_FRAME_BYTES_MAX
    """Upper bound for the size of a received message."""
    request_bytes_max: int = MESSAGE_REQUEST_BYTES_MAX
    """Upper bound for the requests in one sent message, in bytes."""


class PeerSender:
    """Sending side of one dialled connection.

    It implements `asyncio.Protocol` without inheriting from it, so that mypyc can compile it.
    """

    def __init__(self, hello: PeerHello) -> None:
        loop = asyncio.get_running_loop()
        self.reply: asyncio.Future[PeerHello | PeerRefused | None] = loop.create_future()
        """Reply of the peer to the hello, or None if the connection ended before it."""
        self.closed: asyncio.Future[None] = loop.create_future()
        self._own_hello = hello
        self._frames = FrameDecoder(PEER_FRAME_BYTES_MAX)
        self._writer = FrameWriter(UNSENT_BYTES_MAX)
        self._interleaved: Iterator[bytes] | None = None
        """Frames that are written one at a time, so that other frames can be sent between them."""
        self._is_paused = False
        self._loop = loop

    @property
    def is_connected(self) -> bool:
        """True once the connection has been established, even if it has ended."""
        return self._writer.transport is not None

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        transport = self._writer.transport
        return None if transport is None else transport.get_extra_info("peercert")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        enable_keepalive(self._writer.connect(transport))
        self._writer.append(encode_frame(self._own_hello))
        self._writer.flush()

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                if not self.reply.done():
                    self.reply.set_result(decode_peer_reply(payload))
        except MalformedMessage:
            self._resolve_without_reply()
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._resolve_without_reply()
        if not self.closed.done():
            self.closed.set_result(None)

    def _resolve_without_reply(self) -> None:
        if not self.reply.done():
            self.reply.set_result(None)

    def eof_received(self) -> None:
        """Close the connection, which is the default."""

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._write_next()

    def write_interleaved(self, frames: Iterator[bytes]) -> bool:
        """Write `frames` one at a time. Return False if another such sequence is in progress."""
        if self._interleaved is not None:
            return False
        self._interleaved = frames
        self._write_next()
        return True

    def _write_next(self) -> None:
        """Write the next interleaved frame unless the transport is paused."""
        if self._interleaved is None or self._is_paused or self.closed.done():
            return
        frame = next(self._interleaved, None)
        if frame is None:
            self._interleaved = None
        else:
            self.write(frame)
            self._loop.call_soon(self._write_next)

    def write(self, frame: bytes) -> bool:
        """Queue a frame for this iteration of the loop. Return False if the buffer is full."""
        if self._writer.is_full:
            return False
        self._writer.write(frame)
        return True

    def close(self) -> None:
        """Close the connection after sending the queued frames."""
        self._writer.close()

    def abort(self) -> None:
        self._writer.abort()


BACKOFF_RESET_S: Final = 1.0
"""Lifetime after which a connection resets the pause. Without it, a peer that closes every
connection after its hello would be dialled in a tight loop."""
PEER_WITHOUT_TLS_MESSAGE: Final = (
    "the peer does not use TLS, but this replica does; "
    "configure certificates for the peer under [security]"
)
PEER_REQUIRES_TLS_MESSAGE: Final = (
    "the peer uses TLS, but this replica does not; "
    "configure certificates for this replica under [security]"
)


class PeerRejection(NamedTuple):
    """Reason why a peer cannot be used."""

    reason: str
    """Counter of the rejection. The number of counters is bounded, whatever a peer sends."""
    message: str


class PeerLink:
    """Link to one other replica: dials it, redials it and sends to it."""

    def __init__(self, peers: "PeerNetwork", replica: int, address: tuple[str, int]) -> None:
        self._peers = peers
        self._limits = peers.limits
        self._replica = replica
        self.address = address
        self._task: asyncio.Task[None] | None = None
        self._sender: PeerSender | None = None
        self._last_logged = ""
        self._random = Random(f"{peers.hello.replica} dials {replica}")
        self._redial_requested = asyncio.Event()
        self._is_retired = False
        self.has_been_dialled = False
        """True once the first attempt to dial the peer has ended, with or without success."""
        self.peer_address = ""
        """Address for replicas, as reported by the peer that is connected."""

    def retire(self) -> None:
        """Stop redialling the peer, which is no longer a member.

        The link is redialled only while the peer is connected to this replica, or if it returns
        without having received its removal.
        """
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
            self._peers.count(ServerCounter.PEER_NOT_CONNECTED)
        elif not self._sender.write(frame):
            self._peers.count(ServerCounter.SLOW_PEER)

    def send_interleaved(self, frames: Iterator[bytes]) -> None:
        """Send `frames` as fast as the connection accepts them, unless others are in progress."""
        if self._sender is None:
            self._peers.count(ServerCounter.PEER_NOT_CONNECTED)
        elif not self._sender.write_interleaved(self._count_frames(frames)):
            self._peers.count(ServerCounter.SLOW_PEER)

    def _count_frames(self, frames: Iterator[bytes]) -> Iterator[bytes]:
        for frame in frames:
            self._peers.sent_bytes += len(frame)
            self._peers.sent_messages += 1
            yield frame

    def abort(self) -> None:
        """Abort the connection and discard the unsent frames."""
        if self._sender is not None:
            self._sender.abort()

    def redial_soon(self) -> None:
        """End the pause before the next attempt: the peer appears to be reachable."""
        self._redial_requested.set()
        if self._is_retired and self._task is not None and self._task.done():
            self.start()

    async def _maintain(self) -> None:
        loop, pause = asyncio.get_running_loop(), self._limits.redial_pause_s_min
        while True:
            sender = await self._dial()
            self.has_been_dialled = True
            if sender is not None:
                self._sender, connected_at = sender, loop.time()
                await sender.closed
                self._sender = None
                if loop.time() >= connected_at + BACKOFF_RESET_S:
                    pause = self._limits.redial_pause_s_min
            if self._is_retired and not self._peers.has_receiver(self._replica):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * (0.5 + self._random.random())):
                    await self._redial_requested.wait()
            self._redial_requested.clear()
            pause = min(self._limits.redial_pause_s_max, pause * 2)

    async def _dial(self) -> PeerSender | None:
        loop = asyncio.get_running_loop()
        sender = PeerSender(self._peers.current_hello())
        protocol = cast(asyncio.Protocol, sender)
        try:
            async with asyncio.timeout(self._limits.dial_timeout_s):
                await loop.create_connection(
                    lambda: protocol, *self.address, ssl=self._peers.ssl_context
                )
                hello = await sender.reply
        except ssl.SSLError as error:
            sender.abort()
            reason = tls_error_counter(error)
            is_plain = reason == ServerCounter.TLS_MISSING
            self._report(
                PeerRejection(reason, PEER_WITHOUT_TLS_MESSAGE if is_plain else str(error))
            )
            return None
        except OSError:
            sender.abort()
            self._peers.count(
                ServerCounter.NO_HELLO if sender.is_connected else ServerCounter.PEER_UNREACHABLE
            )
            return None
        except BaseException:
            sender.abort()
            raise
        if hello is None:
            sender.abort()
            if await self._has_tls_peer():
                self._report(PeerRejection(ServerCounter.NO_HELLO, PEER_REQUIRES_TLS_MESSAGE))
            else:
                self._peers.count(ServerCounter.NO_HELLO)
            return None
        if isinstance(hello, PeerRefused):
            sender.close()
            is_duplicate = hello.reason == ServerCounter.DUPLICATE_REPLICA
            reason = ServerCounter.DUPLICATE_REPLICA if is_duplicate else ServerCounter.CERTIFICATE
            self._report(PeerRejection(reason, hello.message))
            if is_duplicate:
                self._peers.on_duplicate(hello.message)
            return None
        problem = self._peers.check_hello(hello)
        if problem is None and hello.replica != self._replica:
            message = f"replica {hello.replica} responds in place of replica {self._replica}"
            problem = PeerRejection(ServerCounter.MEMBERS, message)
        if problem is None and self._peers.ssl_context is not None:
            host, certificate = self.address[0], sender.peer_certificate
            problem = self._peers.check_certificate(self._replica, certificate, host)
        if problem is None:
            problem = self._peers.check_evidence(hello)
        if problem is not None:
            self._report(problem)
            sender.close()
            return None
        self._last_logged = ""
        self.peer_address = hello.peer_address
        self._peers.record_hello(hello)
        return sender

    async def _has_tls_peer(self) -> bool:
        """Return True if the peer requires TLS. Once that is logged, do not probe again."""
        if self._peers.ssl_context is not None:
            return False
        return self._last_logged == PEER_REQUIRES_TLS_MESSAGE or await accepts_tls(
            self.address, self._limits.dial_timeout_s
        )

    def _report(self, problem: PeerRejection) -> None:
        """Count the rejection, and log it unless it is the one logged last."""
        self._peers.count(problem.reason)
        if problem.message != self._last_logged:
            self._last_logged = problem.message
            where = f"replica {self._replica} at {format_address(*self.address)}"
            self._peers.log(self._replica, f"cannot connect to {where}: {problem.message}")
