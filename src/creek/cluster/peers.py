"""Connections to the other replicas.

Each replica dials every other one, and sends on the connection that it dialled; what it hears comes
on those that were dialled to it. A connection that breaks is dialled again, after ever longer
pauses, or when its peer has dialled here.

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
from creek.cluster.listener import Listener
from creek.cluster.messages import frames_of_message
from creek.cluster.parts import frames_of
from creek.cluster.security import problem_of
from creek.cluster.talker import Talker
from creek.cluster.tasks import Spawn
from creek.cluster.wire import (
    WIRE_OLDEST,
    WIRE_VERSION,
    FromPeer,
    Heard,
    PeerHello,
    address_of,
    common_version,
)
from creek.protocol.drafts import Brought, Intake

PAUSE_MIN_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
DIAL_S: Final = 4.0
"""Until who is dialled has said hello."""
STRANGERS_MAX: Final = 8
"""Who are dialled because they have dialled here; others are heard all the same."""


class Peers:
    """All of them; `receive` is called for what they say, `intake` where one brings a state,
    `count` for what went wrong, `spawn` for what is done all the time."""

    def __init__(
        self,
        hello: PeerHello,
        addresses: dict[int, tuple[str, int]],
        receive: Callable[[Heard | Brought, int], None],
        intake: Callable[[], Intake],
        count: Callable[[str], None],
        spawn: Spawn,
        secured: ssl.SSLContext | None = None,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.hello = hello
        self.log = log
        self.receive = receive
        self.intake = intake
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
        before = self.cut
        self.cut = frozenset(each for each in replicas if each in self.links)
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
        self._talker: Talker | None = None
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

    async def _dial(self) -> "Talker | None":
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
            self._tell(Problem(problem_of(error), str(error)))
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
        self._peers.note(hello)
        return talker

    def _tell(self, problem: Problem) -> None:
        """The person who looks after this replica, once."""
        self._peers.count(problem.reason)
        if problem.text != self._told:
            self._told = problem.text
            where = f"replica {self._replica} at {self._host}:{self._port}"
            self._peers.log(f"cannot talk to {where}: {problem.text}")
