"""Connections to the other replicas.

Each replica dials every other one, and sends on the connection that it dialled; what it hears comes
on those that were dialled to it. A connection that breaks is dialled again, after ever longer
pauses, or when its peer has dialled here. What is written in one turn of the loop leaves as one
piece.

What waits for a slow peer is bounded: beyond that, messages are dropped and counted. The protocol
survives that, like any loss.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple, cast

import msgspec

from creek.cluster.drawing import DrawnSnapshot
from creek.cluster.messages import frames_of_message
from creek.cluster.parts import Assembly, frames_of
from creek.cluster.security import problem_of
from creek.cluster.silence import notice_silence
from creek.cluster.tasks import Spawn
from creek.cluster.wire import (
    PEER_FRAME_MAX,
    WIRE_OLDEST,
    WIRE_VERSION,
    Frames,
    FromPeer,
    Heard,
    Part,
    PeerHello,
    address_of,
    common_version,
    frame_of,
    from_peer,
    peer_hello,
)
from creek.errors import MalformedMessage
from creek.protocol.messages import Snapshot

WAITING_MAX: Final = 64 * 1024 * 1024
"""Bytes for one peer."""
PAUSE_MIN_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
DIAL_S: Final = 4.0
"""Until who is dialled has said hello."""
STRANGERS_MAX: Final = 8
"""Who are dialled because they have dialled here; others are heard all the same."""
HELLO_S: Final = 10.0
"""How long who dialled here may be silent before it says hello."""
HELLO_BYTES_MAX: Final = 64 * 1024


class Peers:
    """All of them; `receive` is called for what they say, `count` for what went wrong, `spawn` for
    what is done all the time."""

    def __init__(
        self,
        hello: PeerHello,
        addresses: dict[int, tuple[str, int]],
        receive: Callable[[Heard, int], None],
        count: Callable[[str], None],
        spawn: Spawn,
        secured: ssl.SSLContext | None = None,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.hello = hello
        self.log = log
        self.receive = receive
        self.count = count
        self.spawn = spawn
        self._secured = secured
        self._started = False
        self._latest = max((*addresses, hello.replica))
        self.links = {
            replica: Link(self, replica, *address, secured)
            for replica, address in addresses.items()
            if replica != hello.replica
        }
        self.heard: set[Listener] = set()
        self.clients = {hello.replica: hello.clients}
        """Where clients find each, as far as they have said so."""
        self.http = {hello.replica: hello.http}
        """The same for browsers."""
        self.cut: frozenset[int] = frozenset()
        """To whom there is no connection, because a trial wants to see what becomes of it."""
        self.sent_bytes = 0
        self.sent_messages = 0

    def start(self) -> None:
        self._started = True
        for link in self.links.values():
            link.start()

    def reconfigure(self, epoch: int, members: dict[int, str], latest: int) -> None:
        """The members are others: dial those who came, and those who left no more. `latest`: the
        greatest number that any of them ever had."""
        self.hello = msgspec.structs.replace(self.hello, epoch=epoch, members=tuple(members))
        self._latest = max(self._latest, latest)
        for replica, address in members.items():
            if replica != self.hello.replica:
                self._know(replica, address)
        for replica, link in self.links.items():
            if replica not in members:
                link.retire()
                self.clients.pop(replica, None)
                self.http.pop(replica, None)

    def greet(self, hello: PeerHello) -> None:
        """One that may be talked to has dialled here."""
        if hello.replica > self._latest and hello.at and len(self._strangers()) < STRANGERS_MAX:
            self._know(hello.replica, hello.at)
        if hello.replica in self.links:
            self.note(hello)
            self.links[hello.replica].hurry()

    def _strangers(self) -> list[int]:
        """Who dialled here, and is perhaps a member by now."""
        return [each for each in self.links if each > self._latest]

    def _know(self, replica: int, address: str) -> None:
        if replica not in self.links:
            link = Link(self, replica, *address_of(address), self._secured)
            self.links[replica] = link
            if self._started:
                link.start()

    async def stop(self) -> None:
        for link in self.links.values():
            await link.stop()
        for listener in tuple(self.heard):
            listener.close()

    def send(self, to: Iterable[int], message: FromPeer) -> None:
        for frame in frames_of_message(message):
            for replica in to:
                self.sent_bytes += len(frame)
                self.sent_messages += 1
                link = self.links.get(replica)
                if link is None:
                    self.count("sent to a peer that is not known")
                else:
                    link.send(frame)

    def send_snapshot(self, drawn: DrawnSnapshot) -> None:
        if drawn.to in self.links:
            self.links[drawn.to].send_in_turns(frames_of(drawn))

    def connected(self) -> list[int]:
        """To members."""
        members = self.hello.members
        return [each for each, link in self.links.items() if link.is_up and each in members]

    def cut_off(self, replicas: Iterable[int]) -> None:
        """From these, until others are named; what is under way to them, and from them, is lost."""
        before, self.cut = self.cut, frozenset(replicas) & self.links.keys()
        for replica in self.cut - before:
            self.links[replica].drop()
        for listener in tuple(self.heard):
            if listener.sender in self.cut:
                listener.close()
        for replica in before - self.cut:
            self.links[replica].hurry()

    def note(self, hello: PeerHello) -> None:
        self.clients[hello.replica] = hello.clients
        self.http[hello.replica] = hello.http

    def problem(self, hello: PeerHello) -> "Problem | None":
        """Why one cannot talk to who says so."""
        ours = self.hello
        if hello.replica in self.cut:
            return Problem("cut", "the trial has cut this link")
        if common_version(hello.version, hello.oldest) is None:
            what = (
                f"it speaks version {hello.version}, and this one {WIRE_OLDEST} to {WIRE_VERSION}"
            )
            return Problem("version", what)
        if hello.cluster != ours.cluster:
            what = f"it belongs to cluster '{hello.cluster}', not '{ours.cluster}'"
            return Problem("cluster", what)
        if hello.datatype != ours.datatype:
            what = f"it replicates '{hello.datatype}', not '{ours.datatype}'"
            return Problem("datatype", what)
        differ = hello.epoch == ours.epoch and hello.members != ours.members
        if differ or (hello.replica not in self.links and hello.replica <= self._latest):
            what = f"it is replica {hello.replica} of {hello.members}, not one of {ours.members}"
            return Problem("members", what)
        return None


class Problem(NamedTuple):
    reason: str
    """To be counted: of these there are few, whatever a peer says."""
    text: str


class Link:
    """Our connection to one peer: we talk, and hear only its hello."""

    def __init__(
        self, peers: Peers, replica: int, host: str, port: int, secured: ssl.SSLContext | None
    ) -> None:
        self._peers = peers
        self._replica = replica
        self._host = host
        self._port = port
        self._secured = secured
        self._task: asyncio.Task[None] | None = None
        self._talker: _Talker | None = None
        self._told = ""
        self._random = Random(f"{peers.hello.replica} dials {replica}")
        self._wanted = asyncio.Event()
        self._retired = False

    def retire(self) -> None:
        """It is no member any more: when the connection ends, there is another one only if it comes
        back, and does not know."""
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
        pause = PAUSE_MIN_S
        while True:
            talker = await self._dial()
            if talker is not None:
                pause = PAUSE_MIN_S
                self._talker = talker
                await talker.closed
                self._talker = None
            if self._retired:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * (0.5 + self._random.random())):
                    await self._wanted.wait()
            self._wanted.clear()
            pause = min(PAUSE_MAX_S, pause * 2)

    async def _dial(self) -> "_Talker | None":
        loop = asyncio.get_running_loop()
        talker = _Talker(self._peers.hello)
        try:
            async with asyncio.timeout(DIAL_S):
                await loop.create_connection(
                    lambda: talker, self._host, self._port, ssl=self._secured
                )
                hello = await talker.hello
        except ssl.SSLError as error:
            talker.abort()
            self._tell(Problem(problem_of(error), str(error)))
            return None
        except (OSError, MalformedMessage):
            talker.abort()
            reason = "no hello" if talker.is_connected else "could not reach a peer"
            self._peers.count(reason)
            return None
        except BaseException:
            talker.abort()
            raise
        problem = self._peers.problem(hello)
        if problem is None and hello.replica != self._replica:
            what = f"replica {hello.replica} answers where {self._replica} should"
            problem = Problem("members", what)
        if problem is not None:
            self._tell(problem)
            talker.close()
            return None
        self._told = ""
        self._peers.note(hello)
        return talker

    def _tell(self, problem: Problem) -> None:
        """The person who looks after this replica, once."""
        self._peers.count(problem.reason)
        if problem.text != self._told:
            self._told = problem.text
            where = f"replica {self._replica} at {self._host}:{self._port}"
            self._peers.log(f"cannot talk to {where}: {problem.text}")


class _Talker(asyncio.Protocol):
    def __init__(self, hello: PeerHello) -> None:
        loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[PeerHello] = loop.create_future()
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
        except MalformedMessage as error:
            if not self.hello.done():
                self.hello.set_exception(error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.hello.done():
            self.hello.set_exception(exc or ConnectionResetError("closed before it said hello"))
        if not self.closed.done():
            self.closed.set_result(None)

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


class Listener(asyncio.Protocol):
    """A connection that a peer dialled to us: it says hello, then the protocol's messages."""

    def __init__(self, peers: Peers) -> None:
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
