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
from creekdb.protocol.checkpoint.stream import AssembledSnapshot, RegisterLoader
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.messages import Snapshot
from creekdb.server.runtime.task_supervisor import Spawn
from creekdb.server.storage.checkpoint_writer import EncodedSnapshot
from creekdb.server.transport.keepalive import HelloTimeout, enable_keepalive
from creekdb.server.transport.peer_link import PeerLink, PeerRejection
from creekdb.server.transport.snapshot_transfer import (
    SnapshotAssembler,
    discard_gradually,
    snapshot_frames,
)
from creekdb.wire.addresses import parse_address
from creekdb.wire.framing import FrameDecoder, detect_foreign_protocol
from creekdb.wire.messages import (
    HELLO_FRAME_BYTES_MAX,
    OLDEST_WIRE_VERSION,
    PEER_FRAME_BYTES_MAX,
    WIRE_VERSION,
    DeliveredPeerMessage,
    PeerHello,
    PeerMessage,
    SnapshotPart,
    common_version,
    decode_peer_hello,
    decode_peer_message,
    encode_frame,
)
from creekdb.wire.protocol_frames import message_frames

SNAPSHOT_TURN_S: Final = 0.004
"""For how long parts of a snapshot are taken in before others have their turn."""


class PeerReceiver:
    """An `asyncio.Protocol` by its methods; it does not inherit from it, so that it can be
    compiled."""

    def __init__(self, peers: "PeerNetwork", parts_s: float = SNAPSHOT_TURN_S) -> None:
        self._peers = peers
        self._snapshot_turn_s = parts_s
        self._frames = FrameDecoder(HELLO_FRAME_BYTES_MAX)
        self._assembler = SnapshotAssembler(peers.new_loader)
        self._transport: asyncio.Transport | None = None
        self._hello_timeout = HelloTimeout()
        self.sender: int | None = None
        self.last_received_s = time.monotonic()
        """When it last said something."""
        self._unread: deque[bytes] = deque()
        """What came while it was paused, or just now."""
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        enable_keepalive(self._transport)
        self._hello_timeout.start(self._close_silent)
        self._peers.receivers.add(self)
        self._transport.write(encode_frame(self._peers.hello))

    def data_received(self, data: bytes) -> None:
        self._unread.append(data)
        if not self._is_paused:
            self._handle_payloads(self._payloads())

    def _payloads(self) -> Iterator[bytes]:
        while self._unread:
            yield from self._frames.feed(self._unread.popleft())

    def _handle_payloads(self, payloads: Iterator[bytes]) -> None:
        self.last_received_s = begun = time.monotonic()
        try:
            for payload in payloads:
                if self._transport is None or self._transport.is_closing():
                    return
                if self.sender is None:
                    hello = decode_peer_hello(payload)
                    self._handle_hello(hello)
                    continue
                message = decode_peer_message(payload)
                self._handle(message, self.sender)
                if (
                    isinstance(message, SnapshotPart)
                    and time.monotonic() >= begun + self._snapshot_turn_s
                ):
                    self._pause(payloads)
                    return
        except FrameTooLong as error:
            language = detect_foreign_protocol(error.first_bytes) if self.sender is None else None
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
        asyncio.get_running_loop().call_soon(self._resume, payloads)

    def _resume(self, payloads: Iterator[bytes]) -> None:
        self._is_paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._handle_payloads(payloads)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hello_timeout.cancel()
        self._peers.receivers.discard(self)

    def eof_received(self) -> None:
        """The connection is closed."""

    def pause_writing(self) -> None:
        """There is nothing to write but a hello."""

    def resume_writing(self) -> None:
        pass

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _handle(self, message: PeerMessage, sender: int) -> None:
        if isinstance(message, SnapshotPart):
            self._assembler.add(message)
        elif isinstance(message, Snapshot):
            whole = self._assembler.assemble(message)
            self._peers.receive(whole, sender)
            if isinstance(whole, AssembledSnapshot):
                discard_gradually(whole.loader)
        else:
            self._peers.receive(message, sender)

    def _close_silent(self) -> None:
        self._peers.count("malformed")
        self.close()

    def _handle_hello(self, hello: PeerHello) -> None:
        problem = self._peers.check_hello(hello) or self._peers.check_duplicate(hello)
        if problem is None:
            # What it said before it came back is not to be heard after it.
            for other in tuple(self._peers.receivers):
                if other.sender == hello.replica:
                    other.close()
            self.sender = hello.replica
            self._hello_timeout.cancel()
            self._frames.payload_bytes_max = PEER_FRAME_BYTES_MAX
            self._peers.accept_hello(hello)
        else:
            self._peers.count(problem.reason)
            self.close()


UNKNOWN_PEERS_MAX: Final = 8
"""Who are dialled because they have dialled here; others are heard all the same."""


class PeerNetwork:
    """All of them; `receive` is called for what they say, `intake` where one brings a state,
    `count` for what went wrong, `spawn` for what is done all the time."""

    def __init__(
        self,
        hello: PeerHello,
        addresses: dict[int, tuple[str, int]],
        receive: Callable[[DeliveredPeerMessage | AssembledSnapshot, int], None],
        intake: Callable[[], RegisterLoader],
        count: Callable[[str], None],
        spawn: Spawn,
        secured: ssl.SSLContext | None = None,
        log: Callable[[int, str], None] = lambda replica, line: None,
        greeted: Callable[[PeerHello], None] = lambda hello: None,
    ) -> None:
        self.hello = hello
        self.log = log
        self._on_hello = greeted
        self.receive = receive
        self.new_loader = intake
        self.count = count
        self.spawn = spawn
        self._ssl_context = secured
        self._is_started = False
        self._highest_replica = max((*addresses, hello.replica))
        """The greatest number that any member ever had."""
        self.links = {
            replica: PeerLink(self, replica, *address, secured)
            for replica, address in addresses.items()
            if replica != hello.replica
        }
        self.receivers: set[PeerReceiver] = set()
        self.client_addresses = {hello.replica: hello.client_address}
        """Where clients find each, as far as they have said so."""
        self.http_urls = {hello.replica: hello.http_url}
        """The same for browsers."""
        self.disconnected: frozenset[int] = frozenset()
        """To whom there is no connection, because a trial wants to see what becomes of it."""
        self._former_members: tuple[int, ...] = ()
        """Those who were removed."""
        self._last_duplicate_logged = ""
        """The last one that was told of."""
        self.sent_bytes = 0
        self.sent_messages = 0

    def start(self) -> None:
        self._is_started = True
        for link in self.links.values():
            link.start()

    def reconfigure(self, configuration: Configuration) -> None:
        """The members are others: dial those who came, and those who left no more."""
        members = dict(configuration.members)
        self.hello = msgspec.structs.replace(
            self.hello, epoch=configuration.epoch, members=tuple(members)
        )
        self._highest_replica = max(self._highest_replica, configuration.next_replica_id - 1)
        self._former_members = configuration.former
        for replica, address in members.items():
            if replica != self.hello.replica:
                self._add_link(replica, address)
        for replica, link in self.links.items():
            if replica not in members:
                link.retire()
                self.client_addresses.pop(replica, None)
                self.http_urls.pop(replica, None)

    def accept_hello(self, hello: PeerHello) -> None:
        """One that may be talked to has dialled here."""
        if (
            hello.replica > self._highest_replica
            and hello.peer_address
            and len(self._unknown_peers()) < UNKNOWN_PEERS_MAX
        ):
            self._add_link(hello.replica, hello.peer_address)
        elif hello.replica in self._former_members and hello.peer_address:
            self._add_link(hello.replica, hello.peer_address)  # it left before we came
            self.links[hello.replica].retire()
        if hello.replica in self.links:
            self.record_hello(hello)
            self.links[hello.replica].redial_soon()

    def _can_be_member(self, replica: int) -> bool:
        """Was it ever a member, or may it be one that we have not heard of?"""
        return (
            replica in self.links
            or replica in self._former_members
            or replica > self._highest_replica
        )

    def _unknown_peers(self) -> list[int]:
        """Who dialled here, and is perhaps a member by now."""
        return [each for each in self.links if each > self._highest_replica]

    def _add_link(self, replica: int, address: str) -> None:
        if replica not in self.links:
            link = PeerLink(self, replica, *parse_address(address), self._ssl_context)
            self.links[replica] = link
            if self._is_started:
                link.start()

    async def stop(self) -> None:
        for link in self.links.values():
            await link.stop()
        for listener in tuple(self.receivers):
            listener.close()

    def send(self, to: Iterable[int], message: PeerMessage) -> None:
        for frame in message_frames(message):
            for replica in to:
                self.sent_bytes += len(frame)
                self.sent_messages += 1
                link = self.links.get(replica)
                if link is None:
                    self.count("sent to a peer that is not known")
                else:
                    link.send(frame)

    def send_snapshot(self, drawn: EncodedSnapshot) -> None:
        if drawn.to in self.links:
            self.links[drawn.to].send_interleaved(snapshot_frames(drawn))

    def connected_members(self) -> list[int]:
        """To members."""
        members = self.hello.members
        return [each for each, link in self.links.items() if link.is_up and each in members]

    def has_dialled_all(self) -> bool:
        """Is of each member known whether it is there, and if so, what it says of itself?"""
        members = self.hello.members
        return all(link.has_been_dialled for each, link in self.links.items() if each in members)

    def has_receiver(self, replica: int) -> bool:
        return any(each.sender == replica for each in self.receivers)

    def silence_by_member_s(self) -> dict[int, float]:
        """Of members that are connected to us: how long ago each last said something."""
        now, members = time.monotonic(), self.hello.members
        return {
            each.sender: now - each.last_received_s
            for each in self.receivers
            if each.sender in members
        }

    def disconnect(self, replicas: Iterable[int]) -> None:
        """From these, until others are named; what is under way to them, and from them, is lost."""
        before = self.disconnected
        self.disconnected = frozenset(each for each in replicas if each in self.links)
        for replica in self.disconnected - before:
            self.links[replica].abort()
        for listener in tuple(self.receivers):
            if listener.sender in self.disconnected:
                listener.close()
        for replica in before - self.disconnected:
            self.links[replica].redial_soon()

    def record_hello(self, hello: PeerHello) -> None:
        self.client_addresses[hello.replica] = hello.client_address
        self.http_urls[hello.replica] = hello.http_url
        self._on_hello(hello)

    def check_hello(self, hello: PeerHello) -> PeerRejection | None:
        """Why one cannot talk to who says so."""
        ours = self.hello
        if hello.replica in self.disconnected:
            return PeerRejection("cut", "the trial has cut this link")
        if common_version(hello.version, hello.oldest_version) is None:
            what = (
                f"it speaks version {hello.version}, and this one {OLDEST_WIRE_VERSION} to "
                f"{WIRE_VERSION}"
            )
            return PeerRejection("version", what)
        if hello.cluster != ours.cluster:
            what = f"it belongs to cluster '{hello.cluster}', not '{ours.cluster}'"
            return PeerRejection("cluster", what)
        if hello.datatype != ours.datatype:
            what = f"it replicates '{hello.datatype}', not '{ours.datatype}'"
            return PeerRejection("datatype", what)
        differ = hello.epoch == ours.epoch and hello.members != ours.members
        if differ or not self._can_be_member(hello.replica):
            what = f"it is replica {hello.replica} of {hello.members}, not one of {ours.members}"
            return PeerRejection("members", what)
        return None

    def check_duplicate(self, hello: PeerHello) -> PeerRejection | None:
        """Why one is not heard who dials here, while another one with its number is there, where
        it is looked for."""
        link = self.links.get(hello.replica)
        if (
            link is None
            or not link.is_up
            or not hello.peer_address
            or hello.peer_address == link.peer_address
        ):
            return None
        what = (
            f"there are two replicas {hello.replica}: one at {link.peer_address}, and one "
            "that says it is at "
            f"{hello.peer_address}, and is not heard: stop it, or give it a number of its own"
        )
        if what != self._last_duplicate_logged:
            self._last_duplicate_logged = what
            self.log(hello.replica, what)
        return PeerRejection("another replica with the same number", what)
