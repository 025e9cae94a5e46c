"""Snapshots split into parts, and assembled from them.

A large state must not block the sender or the receiver. The sender encodes a part when it is about
to send it. The receiver loads each part when it arrives, so that little work is left for the last
one. If the connection breaks, the receiver drops the parts; the next transfer starts again.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from creekdb.errors import MalformedMessage
from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    AssembledSnapshot,
    EncodedSnapshot,
    RegisterLoader,
    SnapshotPart,
    array_header,
)
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import Snapshot, encode
from creekdb.protocol.values import Key

SNAPSHOT_PART_BYTES: Final = 32 * 1024
"""Approximate size of a part. The receiver loads one part per iteration of its loop."""
SNAPSHOT_REGISTERS_MAX: Final = 2**28
"""Upper bound for the registers of one snapshot."""

_encode: Final = msgspec.msgpack.Encoder().encode
_PART_HEADER: Final = _encode(SnapshotPart(0, 0, (), ()))[:2]
"""Header of a part: an array of five elements, and the tag."""


def snapshot_payloads(
    encoded: EncodedSnapshot, payload_bytes_max: int, part_bytes: int = SNAPSHOT_PART_BYTES
) -> Iterator[bytes]:
    """Yield the encoded parts of a snapshot, and then the snapshot without its registers.

    If that exceeds `payload_bytes_max`, it lacks the outcomes, which are dispensable because
    clients retry.
    """
    yield from _part_payloads(encoded.live, encoded.deleted, part_bytes)
    payload = encode(encoded.snapshot)
    if len(payload) > payload_bytes_max:
        checkpoint = msgspec.structs.replace(encoded.snapshot.checkpoint, outcomes=())
        payload = encode(Snapshot(checkpoint))
    yield payload


def _part_payloads(live: ArrayEncoder, deleted: ArrayEncoder, part_bytes: int) -> Iterator[bytes]:
    preceding, remaining = 0, live.count + deleted.count
    empty = array_header(0)
    for array in (live, deleted):
        for count, pieces in _part_batches(array, part_bytes):
            remaining -= count
            body = [array_header(count), *pieces]
            body = [*body, empty] if array is live else [empty, *body]
            yield b"".join((_PART_HEADER, _encode(preceding), _encode(remaining), *body))
            preceding += count


def _part_batches(array: ArrayEncoder, part_bytes: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the register counts and encoded pieces of the parts."""
    count, size, pieces = 0, 0, list[bytes]()
    for items, data in array.chunks_by_count:
        count, size = count + items, size + len(data)
        pieces.append(data)
        if size >= part_bytes:
            yield count, pieces
            count, size, pieces = 0, 0, []
    if pieces:
        yield count, pieces


class SnapshotAssembler:
    """Assembler of the snapshot parts of one connection. It loads registers as they arrive."""

    def __init__(
        self,
        new_loader: Callable[[], RegisterLoader],
        registers_max: int = SNAPSHOT_REGISTERS_MAX,
    ) -> None:
        self._new_loader = new_loader
        self._registers_max = registers_max
        self._loader: RegisterLoader | None = None
        self._live, self._deleted = ArrayEncoder(), ArrayEncoder()
        self._members: tuple[tuple[Key, Any], ...] = ()
        self._remaining_count = 0

    def add(self, part: SnapshotPart) -> None:
        preceding = self._live.count + self._deleted.count
        count = len(part.live) + len(part.deleted)
        if (
            part.preceding_count != preceding
            or part.remaining_count < 0
            or (preceding and part.remaining_count + count != self._remaining_count)
        ):
            raise MalformedMessage("snapshot part does not continue the previous one")
        if preceding + count + part.remaining_count > self._registers_max:
            raise MalformedMessage(f"snapshot has more than {self._registers_max} registers")
        if self._loader is None:
            self._loader = self._new_loader()
        self._loader.add(part.live, part.deleted)
        self._live.extend(part.live)
        self._deleted.extend(part.deleted)
        self._members += tuple([item for item in part.live if item[0] == MEMBERSHIP_KEY])
        self._remaining_count = part.remaining_count

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
