"""Connections to the other replicas.

Each replica dials every other one, and sends on the connection that it dialled (`link`); what it
hears comes on those that were dialled to it (`listener`).
"""

import ssl
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from creekdb.cluster.drawing import DrawnSnapshot
from creekdb.cluster.link import Link, Problem
from creekdb.cluster.listener import Listener
from creekdb.cluster.messages import frames_of_message
from creekdb.cluster.parts import frames_of
from creekdb.cluster.tasks import Spawn
from creekdb.cluster.wire import (
    WIRE_OLDEST,
    WIRE_VERSION,
    FromPeer,
    Heard,
    PeerHello,
    address_of,
    common_version,
)
from creekdb.protocol.checkpoint.stream import Brought, Intake
from creekdb.protocol.membership.configuration import Configuration

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
