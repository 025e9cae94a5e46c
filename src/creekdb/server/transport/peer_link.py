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
from creekdb.server.security.authentication import PLAIN, problem_of
from creekdb.server.transport.keepalive import notice_silence
from creekdb.wire.addresses import address_text
from creekdb.wire.framing import Frames
from creekdb.wire.messages import PEER_FRAME_MAX, PeerHello, frame_of, peer_hello
from creekdb.wire.tls import encrypts

if TYPE_CHECKING:
    from creekdb.server.transport.peers import Peers

WAITING_MAX: Final = 64 * 1024 * 1024
"""Bytes for one peer."""


class Talker:
    """An `asyncio.Protocol` by its methods; it does not inherit from it, so that it can be
    compiled."""

    def __init__(self, hello: PeerHello) -> None:
        loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[PeerHello | None] = loop.create_future()
        """None: the connection ended without one."""
        self.closed: asyncio.Future[None] = loop.create_future()
        self._ours = hello
        self._frames = Frames(PEER_FRAME_MAX)
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._in_turns: Iterator[bytes] | None = None
        """What leaves one by one, with room between for the rest."""
        self._paused = False
        self._loop = loop

    @property
    def is_connected(self) -> bool:
        """Or was it, at least?"""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        notice_silence(self._transport)
        self._transport.write(frame_of(self._ours))

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                if not self.hello.done():
                    self.hello.set_result(peer_hello(payload))
        except MalformedMessage:
            self._give_up()
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._give_up()
        if not self.closed.done():
            self.closed.set_result(None)

    def _give_up(self) -> None:
        if not self.hello.done():
            self.hello.set_result(None)

    def eof_received(self) -> None:
        """The connection is closed."""

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._turn()

    def write_in_turns(self, frames: Iterator[bytes]) -> bool:
        """False when there are such already."""
        if self._in_turns is not None:
            return False
        self._in_turns = frames
        self._turn()
        return True

    def _turn(self) -> None:
        """What is not paused has room for a part."""
        if self._in_turns is None or self._paused or self.closed.done():
            return
        frame = next(self._in_turns, None)
        if frame is None:
            self._in_turns = None
        else:
            self.write(frame)
            self._loop.call_soon(self._turn)

    def write(self, frame: bytes) -> bool:
        """With all else that is written in this turn. False when there is too much already."""
        assert self._transport is not None
        if self._transport.get_write_buffer_size() > WAITING_MAX:
            return False
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(frame)
        return True

    def close(self) -> None:
        """What was written leaves before."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._waiting.clear()
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(waiting))


PAUSE_MIN_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
LASTING_S: Final = 1.0
"""A connection that breaks sooner is none: who says hello and hangs up is not dialled again at
once, over and over."""
DIAL_S: Final = 4.0
"""Until who is dialled has said hello."""
IN_PLAIN: Final = (
    "it does not encrypt, and this replica does: give that one certificates, under [security]"
)
ENCRYPTS: Final = (
    "it encrypts, and this replica does not: give this one certificates, under [security]"
)


class Problem(NamedTuple):
    reason: str
    """To be counted: of these there are few, whatever a peer says."""
    text: str


class Link:
    def __init__(
        self, peers: "Peers", replica: int, host: str, port: int, secured: ssl.SSLContext | None
    ) -> None:
        self._peers = peers
        self._replica = replica
        self._host = host
        self._port = port
        self._secured = secured
        self._task: asyncio.Task[None] | None = None
        self._talker: Talker | None = None
        self._told = ""
        self._random = Random(f"{peers.hello.replica} dials {replica}")
        self._wanted = asyncio.Event()
        self._retired = False
        self.was_tried = False
        """Has it been dialled, whatever came of it?"""
        self.at = ""
        """Where the one that is there says that others find it."""

    def retire(self) -> None:
        """It is no member any more: when the connection ends, there is another one only while it
        talks to us, or if it comes back, and does not know."""
        self._retired = True

    @property
    def is_up(self) -> bool:
        return self._talker is not None

    def start(self) -> None:
        self._task = self._peers.spawn(self._keep_up())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._talker is not None:
            self._talker.close()

    def send(self, frame: bytes) -> None:
        if self._talker is None:
            self._peers.count("sent to a peer that is away")
        elif not self._talker.write(frame):
            self._peers.count("dropped for a slow peer")

    def send_in_turns(self, frames: Iterator[bytes]) -> None:
        """One after the other, as the connection can take them; unless others are on their way."""
        if self._talker is None:
            self._peers.count("sent to a peer that is away")
        elif not self._talker.write_in_turns(self._counted(frames)):
            self._peers.count("dropped for a slow peer")

    def _counted(self, frames: Iterator[bytes]) -> Iterator[bytes]:
        for frame in frames:
            self._peers.sent_bytes += len(frame)
            self._peers.sent_messages += 1
            yield frame

    def drop(self) -> None:
        """The connection, with what waits to be sent."""
        if self._talker is not None:
            self._talker.abort()

    def hurry(self) -> None:
        """It is there, as far as one can tell: no longer pause before it is dialled again."""
        self._wanted.set()
        if self._retired and self._task is not None and self._task.done():
            self.start()

    async def _keep_up(self) -> None:
        loop, pause = asyncio.get_running_loop(), PAUSE_MIN_S
        while True:
            talker = await self._dial()
            self.was_tried = True
            if talker is not None:
                self._talker, begun = talker, loop.time()
                await talker.closed
                self._talker = None
                if loop.time() >= begun + LASTING_S:
                    pause = PAUSE_MIN_S
            if self._retired and not self._peers.hears(self._replica):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * (0.5 + self._random.random())):
                    await self._wanted.wait()
            self._wanted.clear()
            pause = min(PAUSE_MAX_S, pause * 2)

    async def _dial(self) -> Talker | None:
        loop = asyncio.get_running_loop()
        talker = Talker(self._peers.hello)
        protocol = cast(asyncio.Protocol, talker)
        try:
            async with asyncio.timeout(DIAL_S):
                await loop.create_connection(
                    lambda: protocol, self._host, self._port, ssl=self._secured
                )
                hello = await talker.hello
        except ssl.SSLError as error:
            talker.abort()
            reason = problem_of(error)
            self._tell(Problem(reason, IN_PLAIN if reason == PLAIN else str(error)))
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
            if await self._encrypts():
                self._tell(Problem("no hello", ENCRYPTS))
            else:
                self._peers.count("no hello")
            return None
        problem = self._peers.problem(hello)
        if problem is None and hello.replica != self._replica:
            what = f"replica {hello.replica} answers where {self._replica} should"
            problem = Problem("members", what)
        if problem is not None:
            self._tell(problem)
            talker.close()
            return None
        self._told = ""
        self.at = hello.at
        self._peers.note(hello)
        return talker

    async def _encrypts(self) -> bool:
        """Is that why it left without a word? Once that is told, it is not asked again."""
        if self._secured is not None:
            return False
        return self._told == ENCRYPTS or await encrypts((self._host, self._port), DIAL_S)

    def _tell(self, problem: Problem) -> None:
        """The person who looks after this replica, once."""
        self._peers.count(problem.reason)
        if problem.text != self._told:
            self._told = problem.text
            where = f"replica {self._replica} at {address_text(self._host, self._port)}"
            self._peers.log(self._replica, f"cannot talk to {where}: {problem.text}")
