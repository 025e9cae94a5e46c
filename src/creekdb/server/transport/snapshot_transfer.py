"""Snapshots on their way from one replica to another: in parts, with other messages between them.

The sender has a part leave only when what it wrote before has mostly left, so that a heartbeat
never waits behind more than a part. The receiver takes in each part as it comes, so that little is
left to do with the last; a connection that breaks takes them with it, and what comes on the next
one begins anew.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from creekdb.errors import MalformedMessage
from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    AssembledSnapshot,
    RegisterLoader,
    array_header,
)
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import Snapshot
from creekdb.protocol.values import Key
from creekdb.server.storage.checkpoint_writer import REGISTERS_PER_TURN_MAX, EncodedSnapshot
from creekdb.wire.messages import PEER_FRAME_BYTES_MAX, SnapshotPart, encode_frame, frame_payload

SNAPSHOT_PART_BYTES: Final = 32 * 1024
"""More or less; the receiver takes in one in a turn of its loop."""
SNAPSHOT_REGISTERS_MAX: Final = 2**28
"""Of one snapshot."""

_encode: Final = msgspec.msgpack.Encoder().encode
_PART_HEADER: Final = _encode(SnapshotPart(0, 0, (), ()))[:2]
"""Its array of five, and its tag."""


def snapshot_frames(drawn: EncodedSnapshot) -> Iterator[bytes]:
    """Each made when it is to leave."""
    yield from _part_frames(drawn.live, drawn.deleted)
    frame = encode_frame(drawn.snapshot)
    if len(frame) > PEER_FRAME_BYTES_MAX:
        frame = encode_frame(_without_outcomes(drawn.snapshot))
    yield frame


def _without_outcomes(snapshot: Snapshot) -> Snapshot:
    """Who can do without them: clients ask again."""
    return Snapshot(msgspec.structs.replace(snapshot.checkpoint, outcomes=()))


def _part_frames(held: ArrayEncoder, deleted: ArrayEncoder) -> Iterator[bytes]:
    before, left = 0, held.count + deleted.count
    nothing = array_header(0)
    for array in (held, deleted):
        for count, pieces in _part_batches(array):
            left -= count
            body = [array_header(count), *pieces]
            body = [*body, nothing] if array is held else [nothing, *body]
            yield frame_payload(b"".join((_PART_HEADER, _encode(before), _encode(left), *body)))
            before += count


def _part_batches(array: ArrayEncoder) -> Iterator[tuple[int, list[bytes]]]:
    """Pieces that are sent together."""
    count, size, pieces = 0, 0, list[bytes]()
    for items, data in array.chunks_by_count:
        count, size = count + items, size + len(data)
        pieces.append(data)
        if size >= SNAPSHOT_PART_BYTES:
            yield count, pieces
            count, size, pieces = 0, 0, []
    if pieces:
        yield count, pieces


class SnapshotAssembler:
    """The parts that came on one connection: their registers are taken in as they come."""

    __slots__ = ("_deleted", "_live", "_loader", "_members", "_new_loader", "_remaining_count")

    def __init__(self, begin: Callable[[], RegisterLoader]) -> None:
        self._new_loader = begin
        self._loader: RegisterLoader | None = None
        self._live, self._deleted = ArrayEncoder(), ArrayEncoder()
        self._members: tuple[tuple[Key, Any], ...] = ()
        self._remaining_count = 0

    def add(self, part: SnapshotPart) -> None:
        before, count = self._live.count + self._deleted.count, len(part.live) + len(part.deleted)
        if part.preceding_count != before or (
            before and part.remaining_count + count != self._remaining_count
        ):
            raise MalformedMessage("parts of a snapshot that do not belong together")
        if before + count + part.remaining_count > SNAPSHOT_REGISTERS_MAX:
            raise MalformedMessage("parts of a snapshot that is too large")
        if self._loader is None:
            self._loader = self._new_loader()
        self._loader.add(part.live, part.deleted)
        self._live.extend(part.live)
        self._deleted.extend(part.deleted)
        self._members += tuple([item for item in part.live if item[0] == MEMBERSHIP_KEY])
        self._remaining_count = part.remaining_count
        # They stay: to look for garbage among ever more of them would hold up the loop.
        gc.freeze()

    def assemble(self, snapshot: Snapshot) -> Snapshot | AssembledSnapshot:
        """With the registers that came before it."""
        if self._remaining_count:
            raise MalformedMessage("a snapshot before its last part")
        intake, self._loader = self._loader, None
        if intake is None:
            return snapshot
        checkpoint = msgspec.structs.replace(snapshot.checkpoint, state=self._members)
        whole = AssembledSnapshot(checkpoint, intake, self._live, self._deleted)
        self._live, self._deleted, self._members = ArrayEncoder(), ArrayEncoder(), ()
        return whole


def discard_gradually(intake: RegisterLoader) -> None:
    """Whatever is left in there is not wanted: a few registers in a turn of the loop."""
    if intake.discard(REGISTERS_PER_TURN_MAX):
        asyncio.get_running_loop().call_soon(discard_gradually, intake)
