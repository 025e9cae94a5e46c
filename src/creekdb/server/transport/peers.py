"""Network of the other replicas.

Each replica dials every other one. It sends on the connections that it has dialled
(`peer_link.PeerLink`), and receives on the connections that were dialled to it (`PeerReceiver`).
"""

import asyncio
import gc
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

import msgspec

from creekdb.driver.checkpoint_writer import REGISTERS_PER_TURN_MAX
from creekdb.driver.snapshot_parts import SnapshotAssembler, snapshot_payloads
from creekdb.errors import BadValue, FrameTooLong, MalformedMessage
from creekdb.protocol.checkpoint.stream import AssembledSnapshot, EncodedSnapshot, RegisterLoader
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.membership.rollback_detection import StateEvidence
from creekdb.protocol.messages import Snapshot
from creekdb.server.runtime.task_supervisor import Spawn
from creekdb.server.security.authentication import certificate_problem, replica_identity
from creekdb.server.transport.keepalive import HelloTimeout, enable_keepalive
from creekdb.server.transport.peer_link import PeerLimits, PeerLink, PeerRejection
from creekdb.wire.addresses import parse_address
from creekdb.wire.counters import ServerCounter
from creekdb.wire.framing import FrameDecoder, detect_foreign_protocol
from creekdb.wire.messages import (
    HELLO_FRAME_BYTES_MAX,
    OLDEST_WIRE_VERSION,
    WIRE_VERSION,
    DeliveredPeerMessage,
    PeerHello,
    PeerMessage,
    PeerRefused,
    SnapshotPart,
    common_version,
    decode_peer_hello,
    decode_peer_message,
    encode_frame,
    frame_payload,
)
from creekdb.wire.protocol_frames import message_frames
from creekdb.wire.reject_reason import RejectReason

SNAPSHOT_TURN_S: Final = 0.004
"""Time for loading snapshot parts in one iteration of the event loop."""


class PeerReceiver:
    """Receiving side of a connection that another replica has dialled.

    It implements `asyncio.Protocol` without inheriting from it, so that mypyc can compile it.
    """

    def __init__(self, peers: "PeerNetwork", snapshot_turn_s: float = SNAPSHOT_TURN_S) -> None:
        self._peers = peers
        self._snapshot_turn_s = snapshot_turn_s
        self._frames = FrameDecoder(HELLO_FRAME_BYTES_MAX)
        self._assembler = SnapshotAssembler(peers.new_loader)
        self._transport: asyncio.Transport | None = None
        self._hello_timeout = HelloTimeout(peers.limits.hello_timeout_s)
        self.sender: int | None = None
        self.last_received_s = time.monotonic()
        """Time of the last received data."""
        self._unread: deque[bytes] = deque()
        """Received data that is not decoded yet."""
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        enable_keepalive(self._transport)
        self._hello_timeout.start(self._close_silent)
        self._peers.receivers.add(self)

    def data_received(self, data: bytes) -> None:
        self._unread.append(data)
        if not self._is_paused:
            self._handle_payloads(self._payloads())

    def _payloads(self) -> Iterator[bytes]:
        while self._unread:
            yield from self._frames.feed(self._unread.popleft())

    def _handle_payloads(self, payloads: Iterator[bytes]) -> None:
        self.last_received_s = start_s = time.monotonic()
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
                    and time.monotonic() >= start_s + self._snapshot_turn_s
                ):
                    self._pause(payloads)
                    return
        except FrameTooLong as error:
            protocol = detect_foreign_protocol(error.first_bytes) if self.sender is None else None
            self._close_malformed(protocol or RejectReason.MALFORMED)
        except MalformedMessage:
            self._close_malformed(RejectReason.MALFORMED)

    def _close_malformed(self, reason: str) -> None:
        if self.sender is None:
            self._write(self._peers.hello)  # shows another version, or one that uses TLS, the cause
        self._peers.count(reason)
        self.close()

    def _pause(self, payloads: Iterator[bytes]) -> None:
        """Handle the remaining payloads in the next iteration, because loading parts takes time."""
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
        """Close the connection, which is the default."""

    def pause_writing(self) -> None:
        """Do nothing: a receiver writes only its reply to the hello."""

    def resume_writing(self) -> None:
        pass

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _handle(self, message: PeerMessage, sender: int) -> None:
        if isinstance(message, SnapshotPart):
            self._assembler.add(message)
            # The registers stay alive. Collecting garbage among ever more of them would block the
            # loop.
            gc.freeze()
        elif isinstance(message, Snapshot):
            assembled = self._assembler.assemble(message)
            self._peers.receive(assembled, sender)
            if isinstance(assembled, AssembledSnapshot):
                discard_gradually(assembled.loader)
        else:
            self._peers.receive(message, sender)

    def _check_certificate(self, hello: PeerHello) -> PeerRejection | None:
        """Return the reason to reject the dialling peer for its certificate, and log it."""
        peers, transport = self._peers, self._transport
        if transport is None or peers.ssl_context is None:
            return None
        address = peers.address_of(hello.replica) or parse_address(hello.peer_address)
        certificate = transport.get_extra_info("peercert")
        problem = peers.check_certificate(hello.replica, certificate, address[0])
        if problem is not None:
            message = f"rejected a connection that claims to be replica {hello.replica}"
            peers.log_once(hello.replica, f"{message}: {problem.message}")
        return problem

    def _write(self, reply: PeerHello | PeerRefused) -> None:
        if self._transport is not None:
            self._transport.write(encode_frame(reply))

    def _close_silent(self) -> None:
        self._peers.count(RejectReason.MALFORMED)
        self.close()

    def _handle_hello(self, hello: PeerHello) -> None:
        """Reply to the hello of the dialling replica by a hello, or by a refusal of its identity.

        So a replica that has a hello from each member it reaches is the only one with its number
        there. It finds other causes of a rejection in the hello.
        """
        peers = self._peers
        problem = peers.check_hello(hello)
        refusal = None
        if problem is None:
            problem = refusal = self._check_certificate(hello) or peers.check_duplicate(hello)
        if problem is None:
            problem = peers.check_evidence(hello)
        self._write(peers.current_hello() if refusal is None else PeerRefused(*refusal))
        if problem is None:
            # Messages of an earlier connection must not arrive after those of this one.
            for other in tuple(self._peers.receivers):
                if other.sender == hello.replica:
                    other.close()
            self.sender = hello.replica
            self._hello_timeout.cancel()
            self._frames.payload_bytes_max = self._peers.limits.frame_bytes_max
            self._peers.accept_hello(hello)
        else:
            self._peers.count(problem.reason)
            self.close()


def discard_gradually(loader: RegisterLoader) -> None:
    """Discard the remaining registers of `loader`, a few per iteration of the event loop."""
    if loader.discard(REGISTERS_PER_TURN_MAX):
        asyncio.get_running_loop().call_soon(discard_gradually, loader)


DEFAULT_LIMITS: Final = PeerLimits()
UNKNOWN_PEERS_MAX: Final = 8
"""Upper bound for the links to replicas outside the configuration that dialled this replica.
Messages of further ones are received, but not answered."""


def _no_evidence() -> StateEvidence | None:
    return None


def _accept_evidence(hello: PeerHello) -> PeerRejection | None:
    return None


class PeerPorts(NamedTuple):
    """Outputs of the network of peers."""

    receive: Callable[[DeliveredPeerMessage | AssembledSnapshot, int], None]
    """Receives each message and its sender."""
    new_loader: Callable[[], RegisterLoader]
    """Creates the loader of an incoming snapshot."""
    count_failure: Callable[[str], None]
    """Receives the counters of failures."""
    spawn: Spawn
    """Runs background tasks."""
    log: Callable[[int, str], None]
    """Receives the texts of rejections."""
    on_hello: Callable[[PeerHello], None]
    """Receives the hello of each accepted peer."""
    on_duplicate: Callable[[str], None]
    """Receives the refusal of a peer that is connected to another replica with this number."""
    evidence: Callable[[], StateEvidence | None] = _no_evidence
    """Returns the evidence to send to a peer."""
    check_evidence: Callable[[PeerHello], PeerRejection | None] = _accept_evidence
    """Returns the reason to reject a peer because of its evidence, or None."""


class PeerNetwork:
    """Links to and receivers of all other replicas."""

    def __init__(
        self,
        hello: PeerHello,
        addresses: dict[int, tuple[str, int]],
        ports: PeerPorts,
        ssl_context: ssl.SSLContext | None = None,
        limits: PeerLimits = DEFAULT_LIMITS,
    ) -> None:
        self.hello = hello
        self.limits = limits
        self.receive = ports.receive
        self.new_loader = ports.new_loader
        self.count = ports.count_failure
        self.spawn = ports.spawn
        self.log = ports.log
        self._on_hello = ports.on_hello
        self.on_duplicate = ports.on_duplicate
        self._evidence = ports.evidence
        self.check_evidence = ports.check_evidence
        self.ssl_context = ssl_context
        self._is_started = False
        self._highest_replica = max((*addresses, hello.replica))
        """Greatest number that any member has had."""
        self.links = {
            replica: PeerLink(self, replica, address)
            for replica, address in addresses.items()
            if replica != hello.replica
        }
        self.receivers: set[PeerReceiver] = set()
        self.client_addresses = {hello.replica: hello.client_address}
        """Addresses for clients, of the replicas that have reported them."""
        self.http_urls = {hello.replica: hello.http_url}
        """Base URLs of the HTTP interfaces, of the replicas that have reported them."""
        self.disconnected: frozenset[int] = frozenset()
        """Replicas whose links `creek up` has cut, to demonstrate a partition."""
        self._former_members: tuple[int, ...] = ()
        """Removed members."""
        self._last_logged = ""
        """Last logged message about a rejected peer."""
        self.sent_bytes = 0
        self.sent_messages = 0

    def start(self) -> None:
        self._is_started = True
        for link in self.links.values():
            link.start()

    def reconfigure(self, configuration: Configuration) -> None:
        """Adopt a configuration: dial new members, and retire the links to removed ones."""
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
        """Record an accepted peer that has dialled this replica, and dial it in return."""
        if (
            hello.replica > self._highest_replica
            and hello.peer_address
            and len(self._unknown_peers()) < UNKNOWN_PEERS_MAX
        ):
            self._add_link(hello.replica, hello.peer_address)
        elif hello.replica in self._former_members and hello.peer_address:
            self._add_link(hello.replica, hello.peer_address)  # removed before this replica joined
            self.links[hello.replica].retire()
        if hello.replica in self.links:
            self.record_hello(hello)
            self.links[hello.replica].redial_soon()

    def _can_be_member(self, replica: int) -> bool:
        """Return True if `replica` is or was a member, or may have joined in a later epoch."""
        return (
            replica in self.links
            or replica in self._former_members
            or replica > self._highest_replica
        )

    def _unknown_peers(self) -> list[int]:
        """Return the linked replicas outside the configuration. They may have joined meanwhile."""
        return [each for each in self.links if each > self._highest_replica]

    def _add_link(self, replica: int, address: str) -> None:
        if replica not in self.links:
            link = self.links[replica] = PeerLink(self, replica, parse_address(address))
            if self._is_started:
                link.start()

    async def stop(self) -> None:
        for link in self.links.values():
            await link.stop()
        for receiver in tuple(self.receivers):
            receiver.close()

    def send(self, to: Iterable[int], message: PeerMessage) -> None:
        for frame in message_frames(message, self.limits.request_bytes_max):
            for replica in to:
                self.sent_bytes += len(frame)
                self.sent_messages += 1
                link = self.links.get(replica)
                if link is None:
                    self.count(ServerCounter.PEER_UNKNOWN)
                else:
                    link.send(frame)

    def send_snapshot(self, encoded: EncodedSnapshot) -> None:
        if encoded.to in self.links:
            payloads = snapshot_payloads(encoded, self.limits.frame_bytes_max)
            self.links[encoded.to].send_interleaved(map(frame_payload, payloads))

    def connected_members(self) -> list[int]:
        """Return the members to which a link is up."""
        members = self.hello.members
        return [each for each, link in self.links.items() if link.is_up and each in members]

    def has_dialled_all(self) -> bool:
        """Return True if each member has been dialled once, with or without success."""
        members = self.hello.members
        return all(link.has_been_dialled for each, link in self.links.items() if each in members)

    def has_receiver(self, replica: int) -> bool:
        return any(each.sender == replica for each in self.receivers)

    def silence_by_member_s(self) -> dict[int, float]:
        """Return the seconds since the last data of each member that is connected to this one."""
        now, members = time.monotonic(), self.hello.members
        return {
            each.sender: now - each.last_received_s
            for each in self.receivers
            if each.sender in members
        }

    def disconnect(self, replicas: Iterable[int]) -> None:
        """Cut the links to `replicas`, and restore the others. Messages in transit are lost."""
        before = self.disconnected
        self.disconnected = frozenset(each for each in replicas if each in self.links)
        for replica in self.disconnected - before:
            self.links[replica].abort()
        for receiver in tuple(self.receivers):
            if receiver.sender in self.disconnected:
                receiver.close()
        for replica in before - self.disconnected:
            self.links[replica].redial_soon()

    def log_once(self, replica: int, message: str) -> None:
        """Log a message about a rejected peer, unless it was the last one."""
        if message != self._last_logged:
            self._last_logged = message
            self.log(replica, message)

    def reconnect_except(self, replica: int) -> None:
        """Abort and redial the links to all peers except one, to exchange hellos again."""
        for peer, link in self.links.items():
            if peer != replica:
                link.abort()

    def current_hello(self) -> PeerHello:
        """Return the hello for a new connection."""
        return msgspec.structs.replace(self.hello, evidence=self._evidence())

    def record_hello(self, hello: PeerHello) -> None:
        self.client_addresses[hello.replica] = hello.client_address
        self.http_urls[hello.replica] = hello.http_url
        self._on_hello(hello)

    def check_hello(self, hello: PeerHello) -> PeerRejection | None:
        """Return the reason to reject a peer, or None."""
        ours = self.hello
        if hello.replica in self.disconnected:
            return PeerRejection(ServerCounter.CUT, "'creek up' has cut this link")
        if common_version(hello.version, hello.oldest_version) is None:
            message = (
                f"the peer uses version {hello.version}, but this replica supports "
                f"{OLDEST_WIRE_VERSION} to {WIRE_VERSION}"
            )
            return PeerRejection(RejectReason.VERSION, message)
        if hello.cluster != ours.cluster:
            message = f"the peer belongs to cluster '{hello.cluster}', not '{ours.cluster}'"
            return PeerRejection(ServerCounter.CLUSTER, message)
        if hello.datatype != ours.datatype:
            message = f"the peer replicates '{hello.datatype}', not '{ours.datatype}'"
            return PeerRejection(RejectReason.DATATYPE, message)
        differ = hello.epoch == ours.epoch and hello.members != ours.members
        if differ or not self._can_be_member(hello.replica):
            message = (
                f"the peer is replica {hello.replica} of {hello.members}, not one of {ours.members}"
            )
            return PeerRejection(ServerCounter.MEMBERS, message)
        if hello.peer_address:
            try:
                parse_address(hello.peer_address)
            except BadValue as error:
                return PeerRejection(ServerCounter.MEMBERS, f"cannot dial the peer: {error}")
        return None

    def check_certificate(
        self, replica: int, certificate: Mapping[str, Any] | None, host: str
    ) -> PeerRejection | None:
        """Return a rejection if a certificate does not belong to the replica at `host`."""
        identity = replica_identity(self.hello.cluster, replica)
        problem = certificate_problem(certificate or {}, identity, host)
        return None if problem is None else PeerRejection(ServerCounter.CERTIFICATE, problem)

    def address_of(self, replica: int) -> tuple[str, int] | None:
        """Return the address at which this replica dials a peer, or None."""
        link = self.links.get(replica)
        return None if link is None else link.address

    def check_duplicate(self, hello: PeerHello) -> PeerRejection | None:
        """Return a rejection if another replica with this number is connected, or None."""
        link = self.links.get(hello.replica)
        if (
            link is None
            or not link.is_up
            or not hello.peer_address
            or hello.peer_address == link.peer_address
        ):
            return None
        message = (
            f"two replicas have the number {hello.replica}: one at {link.peer_address}, and a "
            f"rejected one at {hello.peer_address}; stop the latter, or change its number"
        )
        self.log_once(hello.replica, message)
        return PeerRejection(ServerCounter.DUPLICATE_REPLICA, message)
