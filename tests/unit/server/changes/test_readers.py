"""Readers of the feed: every committed change can be read, and none is omitted in silence."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from creekdb.client.changes import ChangePosition, ChangeStream
from creekdb.client.replica_connection import ReplicaDiscovery
from creekdb.errors import UsageError
from creekdb.http.requests import HttpLimits
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.changes.gap_filling import GapFiller, GapPorts
from creekdb.server.changes.log import ChangeLog
from creekdb.server.changes.readers import (
    ChangeReaders,
    ChangesQuery,
    ReaderLimits,
    ReadRejected,
)
from creekdb.server.changes.retention import Retention
from creekdb.server.transport.client_connection import ConnectionLimits
from creekdb.wire import messages as wire
from creekdb.wire.changes import EARLIEST, Change
from creekdb.wire.reject_reason import RejectReason
from creekdb.wire.sink_ledgers import APPLICATION_BYTES_MAX
from tests.unit.server.changes.reported import ManualTurns, change_at

OVERHEAD_BYTES_MAX = 64 * 1024
"""Upper bound for the bytes of a message beside its changes."""
SMALL = ReaderLimits(part_bytes=300, part_bytes_max=2_000, future_wait_s=0.0)


class NoTables:
    def find(self, name: str) -> Any:
        raise UsageError(f"unknown table '{name}'")


class ReaderFixture:
    """Feed of one replica, and a client that is connected without a network."""

    def __init__(self, path: Path, limits: ReaderLimits = SMALL, tables: Any = None) -> None:
        self.turns = ManualTurns()
        log = ChangeLog(path, Retention(3600.0))
        log.open()
        self.feed = ChangeFeed(log, self.turns.ports())
        self.sources: Sequence[int] = ()
        self.filler = GapFiller(
            self.feed,
            GapPorts(
                lambda peer, message: None,
                lambda: self.sources,
                lambda: self.sources,
                lambda work, on_done: None,
                print,
            ),
        )
        self.readers = ChangeReaders(
            self.feed, lambda: "creek:1", _spawn, tables, None, limits, self.filler
        )
        self.sizes: list[int] = []
        """Sizes of the sent messages."""

    def commit(self, *values: Any) -> None:
        for value in values:
            index = self.feed.received_index + 1
            self.feed.record((change_at(index, value),), 0)
            self.feed.release(0)
            self.turns.run()

    def connect(self, stream: ChangeStream) -> None:
        stream._connection = _Connection(self, stream._received.put_nowait)  # type: ignore[assignment]

    async def rejection(self, query: ChangesQuery) -> ReadRejected:
        with pytest.raises(ReadRejected) as raised:
            await self.readers.read(query)
        return raised.value


class _Connection:
    def __init__(self, fixture: ReaderFixture, receive: Callable[[Any], None]) -> None:
        self._fixture = fixture
        self._receive = receive
        self.chunks_received = 0

    def write(self, frame: bytes) -> None:
        (payload,) = wire.FrameDecoder(wire.CLIENT_FRAME_BYTES_MAX).feed(frame)
        request = wire.decode_client_message(payload)
        assert isinstance(request, wire.ChangesRequest)
        self._fixture.readers.start(self, request, self._send)

    def _send(self, message: wire.ServerMessage) -> None:
        (payload,) = wire.FrameDecoder(wire.PEER_FRAME_BYTES_MAX).feed(wire.encode_frame(message))
        self._fixture.sizes.append(len(payload))
        self._receive(wire.decode_server_message(payload))

    async def aclose(self) -> None:
        pass


def _spawn(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.ensure_future(coroutine)


def make_stream(start: int = 1, **options: Any) -> ChangeStream:
    discovery = ReplicaDiscovery([("127.0.0.1", 1)], None, 1.0)
    return ChangeStream(discovery, wire.ClientHello(1, "me"), ChangePosition("", start), **options)


async def read_all(fixture: ReaderFixture, **options: Any) -> list[Change]:
    stream = make_stream(follow=False, **options)
    fixture.connect(stream)
    return [change async for change in stream]


@pytest.mark.parametrize("options", [{}, {"prefix": "a"}], ids=["all", "prefix"])
async def test_changes_of_any_size_are_read_in_messages_of_bounded_size(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    fixture, limit = ReaderFixture(tmp_path), SMALL.part_bytes_max
    sizes = (1, SMALL.part_bytes, limit // 2 - 100, limit // 2, limit, 7 * limit, 2)
    fixture.commit(*["x" * size for size in sizes])
    changes = await read_all(fixture, **options)

    assert [len(change.writes[0][1]) for change in changes] == list(sizes)
    assert max(fixture.sizes) <= limit + 200
    assert limit < max(fixture.sizes)


async def test_a_client_without_pieces_is_told_that_a_change_is_too_large(tmp_path: Path) -> None:
    fixture = ReaderFixture(tmp_path)
    fixture.commit("x" * SMALL.part_bytes_max)
    received: asyncio.Queue[Any] = asyncio.Queue()
    fixture.readers.start(object(), wire.ChangesRequest(1, 1), received.put_nowait)
    message = await received.get()

    assert isinstance(message, wire.ChangesRejected)
    assert message.reason == RejectReason.TOO_LARGE
    assert "upgrade the client, or continue at 2" in message.message


def test_limits_of_what_is_admitted_and_of_what_is_read_agree() -> None:
    readers, connection = ReaderLimits(), ConnectionLimits()
    # A call has the same limit over TCP and HTTP.
    assert HttpLimits().body_bytes_max == wire.CLIENT_FRAME_BYTES_MAX
    # The rows of a batch, with a row of the largest size, are one part without before-images.
    largest_application = APPLICATION_BYTES_MAX + wire.CLIENT_FRAME_BYTES_MAX
    assert largest_application + OVERHEAD_BYTES_MAX <= readers.part_bytes_max
    # A connection holds a part that its client has not read yet, and a client accepts it.
    assert readers.part_bytes_max + OVERHEAD_BYTES_MAX <= connection.unread_bytes_max
    assert connection.unread_bytes_max <= wire.PEER_FRAME_BYTES_MAX


async def test_the_earliest_change_waits_for_a_gap_that_another_replica_may_fill(
    tmp_path: Path,
) -> None:
    fixture = ReaderFixture(tmp_path)
    fixture.feed.log.skip_to(11)
    fixture.feed._received_index = 10
    fixture.commit("a")
    fixture.sources = (1, 2)
    rejected = await fixture.rejection(ChangesQuery(EARLIEST))
    assert rejected.reason == RejectReason.NOT_READY
    assert "lacks the changes from 1 to 10" in str(rejected)
    assert rejected.first == 11
    assert (await fixture.readers.read(ChangesQuery(11))).first == 11
    assert (await fixture.rejection(ChangesQuery(5))).reason == RejectReason.NOT_READY
    fixture.sources = ()  # the replica is the only member

    assert (await fixture.readers.read(ChangesQuery(EARLIEST))).first == 11
    assert (await fixture.rejection(ChangesQuery(5))).reason == RejectReason.CHANGES_EXPIRED


async def test_a_damaged_change_is_a_gap_that_others_may_fill(tmp_path: Path) -> None:
    fixture = ReaderFixture(tmp_path)
    fixture.commit("a", "b")
    fixture.feed.close(0)
    (path,) = tmp_path.glob("*.changes")
    path.write_bytes(path.read_bytes().replace(b"\xa1b", b"\xa1x"))
    fixture = ReaderFixture(tmp_path)
    fixture.commit("c")
    fixture.sources = (1, 2)
    assert (await fixture.readers.read(ChangesQuery(1))).end == 2
    rejected = await fixture.rejection(ChangesQuery(2))
    assert rejected.reason == RejectReason.NOT_READY
    fixture.sources = ()
    rejected = await fixture.rejection(ChangesQuery(2))

    assert (rejected.reason, rejected.first) == (RejectReason.CHANGES_EXPIRED, 3)
    assert (await fixture.readers.read(ChangesQuery(3))).end == 4


async def test_a_table_is_looked_up_once_its_position_is_reached(tmp_path: Path) -> None:
    """A replica that lags may not have the table yet, which is no error of the reader."""
    fixture = ReaderFixture(tmp_path, tables=NoTables())
    fixture.commit("a")

    late = await fixture.rejection(ChangesQuery(9, table="item"))
    unknown = await fixture.rejection(ChangesQuery(1, table="item"))
    assert late.reason == RejectReason.POSITION_IN_FUTURE
    assert unknown.reason == RejectReason.UNKNOWN_TABLE
