"""Change feeds of the single replicas of a cluster, read by range.

`db.changes()` continues at any replica. Here a request goes to one replica. The fields `changed`
and `commit_timestamp` of a change differ between replicas, and those of the replica that issued
the request are the best. All other fields have to be compared.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple, TypeAlias

import msgspec

from creekdb.client.arguments import address_list
from creekdb.client.changes import error_of
from creekdb.client.errors import NotDone
from creekdb.client.replica_connection import (
    ReplicaConnection,
    client_tls_context,
    connection_error_text,
    dial,
)
from creekdb.errors import ChangesOff, CreekError, MalformedMessage, UsageError
from creekdb.wire import messages
from creekdb.wire.addresses import parse_address
from creekdb.wire.changes import EARLIEST, LATEST, Change, decode_changes
from creekdb.wire.pieces import PieceAssembler
from creekdb.wire.reject_reason import RejectReason

CONNECT_TIMEOUT_S: Final = 2.0
RESPONSE_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.02
READY_WAIT_S: Final = 10.0
"""Time in which a cluster that was just started gets its identity, in seconds."""
READY_POLL_S: Final = 0.1


class ClusterAccess(NamedTuple):
    """Addresses of the replicas, and the means to be accepted."""

    servers: tuple[str, ...]
    token: str = ""
    authority: str | None = None

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        return tuple(map(parse_address, self.servers))


class FeedEnd(NamedTuple):
    """End of the feed of one replica."""

    replica: int
    cluster: str
    end: int
    """Index after the last change of the replica."""


FeedEnds: TypeAlias = dict[str, FeedEnd | Exception]
"""End by address; the error of a replica that does not respond."""


class ReplicaFeed:
    """Connection to the feed of one replica."""

    def __init__(self) -> None:
        self._received: asyncio.Queue[messages.ServerMessage | None] = asyncio.Queue()
        self._connection: ReplicaConnection | None = None
        self._number = 0
        self.replica = -1

    async def open(self, access: ClusterAccess, address: tuple[str, int]) -> None:
        hello = messages.ClientHello(messages.WIRE_VERSION, uuid.uuid4().hex, access.token, "")
        received = self._received

        def make() -> ReplicaConnection:
            return ReplicaConnection(hello, received.put_nowait, messages.PEER_FRAME_BYTES_MAX)

        context = client_tls_context(access.authority)
        connection, welcome = await dial(address, make, context, CONNECT_TIMEOUT_S)
        connection.closed.add_done_callback(lambda _: received.put_nowait(None))
        self._connection, self.replica = connection, welcome.replica

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.aclose()

    async def request(self, start: int, cluster: str = "") -> messages.ChangesPart:
        """Return the next part, joined if it arrives in pieces. Raise the error of a rejection."""
        pieces = PieceAssembler()
        while True:
            part = await self._request(start, cluster, pieces.next_offset)
            if part.piece is None:
                return part
            whole = pieces.add(part.piece)
            if whole is not None:
                return msgspec.structs.replace(part, bodies=(whole,), piece=None)

    async def _request(self, start: int, cluster: str, offset: int) -> messages.ChangesPart:
        assert self._connection is not None
        self._number += 1
        request = messages.ChangesRequest(self._number, start, cluster, offset=offset)
        self._connection.write(messages.encode_frame(request))
        async with asyncio.timeout(RESPONSE_TIMEOUT_S):
            while True:
                message = await self._received.get()
                if message is None:
                    raise ConnectionResetError("the replica closed the connection")
                if getattr(message, "number", self._number) == self._number:
                    break
        if isinstance(message, messages.ChangesRejected):
            raise error_of(message)
        assert isinstance(message, messages.ChangesPart)
        return message

    async def end(self) -> FeedEnd:
        part = await self.request(LATEST)
        return FeedEnd(self.replica, part.cluster, part.end)

    async def first_index(self) -> int:
        """Return the index from which on the replica keeps all changes."""
        return (await self.request(EARLIEST)).first

    async def read(
        self, start: int, stop: int, cluster: str
    ) -> AsyncIterator[tuple[int, list[Change]]]:
        """Iterate over the changes from `start` to before `stop`, in parts.

        An item is the index after the part, and its changes.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RESPONSE_TIMEOUT_S
        while start < stop:
            part = await self.request(start, cluster)
            if part.end == start:  # not readable before it is durable
                if loop.time() > deadline:
                    raise TimeoutError(f"change {start} did not become readable")
                await asyncio.sleep(POLL_S)
                continue
            start, deadline = min(part.end, stop), loop.time() + RESPONSE_TIMEOUT_S
            yield (
                start,
                [
                    change
                    for body in part.bodies
                    for change in decode_changes(body)
                    if part.first <= change.index < stop
                ],
            )


@asynccontextmanager
async def open_feed(access: ClusterAccess, address: tuple[str, int]) -> AsyncIterator[ReplicaFeed]:
    feed = ReplicaFeed()
    try:
        await feed.open(access, address)
        yield feed
    finally:
        await feed.aclose()


UNREACHABLE: Final = (OSError, TimeoutError, MalformedMessage, NotDone)
"""Errors of a replica that may respond later."""


def parse_servers(servers: str) -> tuple[str, ...]:
    """Return the addresses of a list that is separated by commas. Raise an error for a bad one."""
    addresses = tuple(address_list(servers))
    for number, each in enumerate(addresses):
        parse_address(each)
        if each in addresses[:number]:
            raise UsageError(f"server {each} is named twice; name each replica once")
    return addresses


async def feed_ends(access: ClusterAccess) -> FeedEnds:
    """Return the end of each replica's feed. Raise an error that no retry can change."""
    found = await asyncio.gather(*(_end_or_error(access, address) for address in access.addresses))
    ends = dict(zip(access.servers, found, strict=True))
    known: dict[int, str] = {}
    clusters: dict[str, str] = {}
    for server, end in ends.items():
        if isinstance(end, FeedEnd):
            other = known.setdefault(end.replica, server)
            if other != server:
                raise UsageError(
                    f"servers {other} and {server} are both replica {end.replica}; name one of them"
                )
            clusters.setdefault(end.cluster, server)
        elif isinstance(end, UsageError | ChangesOff):
            raise type(end)(f"cannot follow {server}: {end}")
    if len(clusters) > 1:
        names = " and ".join(clusters.values())
        raise UsageError(f"servers {names} belong to different clusters; name those of one cluster")
    return ends


def reachable(ends: FeedEnds) -> dict[str, FeedEnd]:
    """Return the ends of the replicas that respond. Raise `NotDone` if none does."""
    found = {server: end for server, end in ends.items() if isinstance(end, FeedEnd)}
    if not found:
        errors = {server: end for server, end in ends.items() if isinstance(end, Exception)}
        text = "; ".join(f"{server}: {connection_error_text(e)}" for server, e in errors.items())
        raise NotDone(RejectReason.UNREACHABLE, f"no replica can be reached: {text}")
    return found


async def ready_ends(access: ClusterAccess, wait_s: float = READY_WAIT_S) -> dict[str, FeedEnd]:
    """Return the ends of the replicas that respond. Wait while all of them are starting.

    Raise `NotDone` if none responds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    while True:
        ends = await feed_ends(access)
        if loop.time() > deadline or not _is_starting(ends):
            return reachable(ends)
        await asyncio.sleep(READY_POLL_S)


def _is_starting(ends: FeedEnds) -> bool:
    """Return True if a replica is not ready yet, and none is."""
    return not any(isinstance(end, FeedEnd) for end in ends.values()) and any(
        isinstance(end, NotDone) and end.reason == RejectReason.NOT_READY for end in ends.values()
    )


async def first_indices(access: ClusterAccess) -> dict[str, int]:
    """Return the index from which on each reachable replica keeps all changes."""
    indices: dict[str, int] = {}
    for server, address in zip(access.servers, access.addresses, strict=True):
        with suppress(*UNREACHABLE):
            async with open_feed(access, address) as feed:
                indices[server] = await feed.first_index()
    return indices


async def _end_or_error(access: ClusterAccess, address: tuple[str, int]) -> FeedEnd | Exception:
    try:
        async with open_feed(access, address) as feed:
            return await feed.end()
    except (*UNREACHABLE, CreekError) as error:
        return error
