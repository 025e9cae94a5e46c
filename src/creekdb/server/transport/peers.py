"""A connection that another replica dialled to us: it says hello, then the protocol's messages.

Connections to the other replicas.

Each replica dials every other one, and sends on the connection that it dialled (`link`); what it
hears comes on those that were dialled to it (`listener`).
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, cast

import msgspec

from creekdb.errors import FrameTooLong, MalformedMessage
from creekdb.protocol.checkpoint.stream import Brought, Intake
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.messages import Snapshot
from creekdb.server.runtime.task_supervisor import Spawn
from creekdb.server.storage.checkpoint_writer import DrawnSnapshot
from creekdb.server.transport.keepalive import UntilHello, notice_silence
from creekdb.server.transport.peer_link import Link, Problem
from creekdb.server.transport.snapshot_transfer import Assembly, frames_of, give_up
from creekdb.wire.addresses import address_of
from creekdb.wire.framing import Frames, another_language
from creekdb.wire.messages import (
    HELLO_FRAME_MAX,
    PEER_FRAME_MAX,
    WIRE_OLDEST,
    WIRE_VERSION,
    FromPeer,
    Heard,
    Part,
    PeerHello,
    common_version,
    frame_of,
    from_peer,
    peer_hello,
)
from creekdb.wire.protocol_frames import frames_of_message

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
        log: Callable[[int, str], None] = lambda replica, line: None,
        greeted: Callable[[PeerHello], None] = lambda hello: None,
    ) -> None:
        self.hello = hello
        self.log = log
        self._greeted = greeted
        self.receive = receive
        self.intake = intake
        self.count = count
        self.spawn = spawn
        self._secured = secured
        self._started = False
        self._latest = max((*addresses, hello.replica))
        """The greatest number that any member ever had."""
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
        self._former: tuple[int, ...] = ()
        """Those who were removed."""
        self._twin = ""
        """The last one that was told of."""
        self.sent_bytes = 0
        self.sent_messages = 0

    def start(self) -> None:
        self._started = True
        for link in self.links.values():
            link.start()

    def reconfigure(self, configuration: Configuration) -> None:
        """The members are others: dial those who came, and those who left no more."""
        members = dict(configuration.members)
        self.hello = msgspec.structs.replace(
            self.hello, epoch=configuration.epoch, members=tuple(members)
        )
        self._latest = max(self._latest, configuration.next_number - 1)
        self._former = configuration.former
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
        elif hello.replica in self._former and hello.at:
            self._know(hello.replica, hello.at)  # it left before we came
            self.links[hello.replica].retire()
        if hello.replica in self.links:
            self.note(hello)
            self.links[hello.replica].hurry()

    def _may_be_one(self, replica: int) -> bool:
        """Was it ever a member, or may it be one that we have not heard of?"""
        return replica in self.links or replica in self._former or replica > self._latest

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

    def all_tried(self) -> bool:
        """Is of each member known whether it is there, and if so, what it says of itself?"""
        members = self.hello.members
        return all(link.was_tried for each, link in self.links.items() if each in members)

    def hears(self, replica: int) -> bool:
        return any(each.sender == replica for each in self.heard)

    def silent_s(self) -> dict[int, float]:
        """Of members that are connected to us: how long ago each last said something."""
        now, members = time.monotonic(), self.hello.members
        return {each.sender: now - each.heard_at for each in self.heard if each.sender in members}

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
        self._greeted(hello)

    def problem(self, hello: PeerHello) -> Problem | None:
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
        if differ or not self._may_be_one(hello.replica):
            what = f"it is replica {hello.replica} of {hello.members}, not one of {ours.members}"
            return Problem("members", what)
        return None

    def twin(self, hello: PeerHello) -> Problem | None:
        """Why one is not heard who dials here, while another one with its number is there, where
        it is looked for."""
        link = self.links.get(hello.replica)
        if link is None or not link.is_up or not hello.at or hello.at == link.at:
            return None
        what = (
            f"there are two replicas {hello.replica}: one at {link.at}, and one that says it is at "
            f"{hello.at}, and is not heard: stop it, or give it a number of its own"
        )
        if what != self._twin:
            self._twin = what
            self.log(hello.replica, what)
        return Problem("another replica with the same number", what)
