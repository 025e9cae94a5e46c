"""Transfer of snapshots between replicas, in parts that alternate with other messages.

The sender writes a part only when most of its previous bytes are sent, so that a heartbeat never
waits for more than one part. The receiver loads each part when it arrives, so that little work is
left for the last one. If the connection breaks, the receiver drops the parts; the transfer on the
next connection starts again.
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
    EncodedSnapshot,
    RegisterLoader,
    array_header,
)
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import Snapshot
from creekdb.protocol.values import Key
from creekdb.server.storage.checkpoint_writer import REGISTERS_PER_TURN_MAX
from creekdb.wire.messages import PEER_FRAME_BYTES_MAX, SnapshotPart, encode_frame, frame_payload

SNAPSHOT_PART_BYTES: Final = 32 * 1024
"""Approximate size of a part. The receiver loads one part per iteration of its loop."""
SNAPSHOT_REGISTERS_MAX: Final = 2**28
"""Upper bound for the registers of one snapshot."""

_encode: Final = msgspec.msgpack.Encoder().encode
_PART_HEADER: Final = _encode(SnapshotPart(0, 0, (), ()))[:2]
"""Header of a part: an array of five elements, and the tag."""


def snapshot_frames(encoded: EncodedSnapshot) -> Iterator[bytes]:
    """Yield the frames of a snapshot, each encoded when it is about to be sent."""
    yield from _part_frames(encoded.live, encoded.deleted)
    frame = encode_frame(encoded.snapshot)
    if len(frame) > PEER_FRAME_BYTES_MAX:
        frame = encode_frame(_without_outcomes(encoded.snapshot))
    yield frame


def _without_outcomes(snapshot: Snapshot) -> Snapshot:
    """Remove the outcomes, which are dispensable because clients retry."""
    return Snapshot(msgspec.structs.replace(snapshot.checkpoint, outcomes=()))


def _part_frames(live: ArrayEncoder, deleted: ArrayEncoder) -> Iterator[bytes]:
    preceding, remaining = 0, live.count + deleted.count
    empty = array_header(0)
    for array in (live, deleted):
        for count, pieces in _part_batches(array):
            remaining -= count
            body = [array_header(count), *pieces]
            body = [*body, empty] if array is live else [empty, *body]
            counts = _encode(preceding), _encode(remaining)
            yield frame_payload(b"".join((_PART_HEADER, *counts, *body)))
            preceding += count


def _part_batches(array: ArrayEncoder) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the register counts and encoded pieces of the parts."""
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
    """Assembler of the snapshot parts of one connection. It loads registers as they arrive."""

    __slots__ = ("_deleted", "_live", "_loader", "_members", "_new_loader", "_remaining_count")

    def __init__(self, new_loader: Callable[[], RegisterLoader]) -> None:
        self._new_loader = new_loader
        self._loader: RegisterLoader | None = None
        self._live, self._deleted = ArrayEncoder(), ArrayEncoder()
        self._members: tuple[tuple[Key, Any], ...] = ()
        self._remaining_count = 0

    def add(self, part: SnapshotPart) -> None:
        preceding = self._live.count + self._deleted.count
        count = len(part.live) + len(part.deleted)
        if part.preceding_count != preceding or (
            preceding and part.remaining_count + count != self._remaining_count
        ):
            raise MalformedMessage("snapshot part does not continue the previous one")
        if preceding + count + part.remaining_count > SNAPSHOT_REGISTERS_MAX:
            raise MalformedMessage(f"snapshot has more than {SNAPSHOT_REGISTERS_MAX} registers")
        if self._loader is None:
            self._loader = self._new_loader()
        self._loader.add(part.live, part.deleted)
        self._live.extend(part.live)
        self._deleted.extend(part.deleted)
        self._members += tuple([item for item in part.live if item[0] == MEMBERSHIP_KEY])
        self._remaining_count = part.remaining_count
        # The registers stay alive. Collecting garbage among ever more of them would block the loop.
        gc.freeze()

    def assemble(self, snapshot: Snapshot) -> Snapshot | AssembledSnapshot:
        """Return the snapshot with the registers of its parts."""
        if self._remaining_count:
            raise MalformedMessage("snapshot arrived before its last part")
        loader, self._loader = self._loader, None
        if loader is None:
            return snapshot
        checkpoint = msgspec.structs.replace(snapshot.checkpoint, state=self._members)
        assembled = AssembledSnapshot(checkpoint, loader, self._live, self._deleted)
        self._live, self._deleted, self._members = ArrayEncoder(), ArrayEncoder(), ()
        return assembled


def discard_gradually(loader: RegisterLoader) -> None:
    """Discard the remaining registers of `loader`, a few per iteration of the event loop."""
    if loader.discard(REGISTERS_PER_TURN_MAX):
        asyncio.get_running_loop().call_soon(discard_gradually, loader)
