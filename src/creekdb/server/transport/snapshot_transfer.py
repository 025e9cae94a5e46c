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
from creekdb.protocol.checkpoint.stream import Array, Brought, Intake, array_head
from creekdb.protocol.membership.configuration import REGISTER
from creekdb.protocol.messages import Snapshot
from creekdb.protocol.values import Key
from creekdb.server.storage.checkpoint_writer import REGISTERS_MAX, DrawnSnapshot
from creekdb.wire.messages import PEER_FRAME_MAX, Part, frame_of, framed

PART_BYTES: Final = 32 * 1024
"""More or less; the receiver takes in one in a turn of its loop."""
REGISTERS_MOST: Final = 2**28
"""Of one snapshot."""

_encode: Final = msgspec.msgpack.Encoder().encode
_PART: Final = _encode(Part(0, 0, (), ()))[:2]
"""Its array of five, and its tag."""


def frames_of(drawn: DrawnSnapshot) -> Iterator[bytes]:
    """Each made when it is to leave."""
    yield from _part_frames(drawn.held, drawn.deleted)
    frame = frame_of(drawn.snapshot)
    if len(frame) > PEER_FRAME_MAX:
        frame = frame_of(_without_outcomes(drawn.snapshot))
    yield frame


def _without_outcomes(snapshot: Snapshot) -> Snapshot:
    """Who can do without them: clients ask again."""
    return Snapshot(msgspec.structs.replace(snapshot.checkpoint, outcomes=()))


def _part_frames(held: Array, deleted: Array) -> Iterator[bytes]:
    before, left = 0, held.count + deleted.count
    nothing = array_head(0)
    for array in (held, deleted):
        for count, pieces in _gathered(array):
            left -= count
            body = [array_head(count), *pieces]
            body = [*body, nothing] if array is held else [nothing, *body]
            yield framed(b"".join((_PART, _encode(before), _encode(left), *body)))
            before += count


def _gathered(array: Array) -> Iterator[tuple[int, list[bytes]]]:
    """Pieces that are sent together."""
    count, size, pieces = 0, 0, list[bytes]()
    for items, data in array.parts:
        count, size = count + items, size + len(data)
        pieces.append(data)
        if size >= PART_BYTES:
            yield count, pieces
            count, size, pieces = 0, 0, []
    if pieces:
        yield count, pieces


class Assembly:
    """The parts that came on one connection: their registers are taken in as they come."""

    __slots__ = ("_begin", "_deleted", "_held", "_intake", "_left", "_members")

    def __init__(self, begin: Callable[[], Intake]) -> None:
        self._begin = begin
        self._intake: Intake | None = None
        self._held, self._deleted = Array(), Array()
        self._members: tuple[tuple[Key, Any], ...] = ()
        self._left = 0

    def add(self, part: Part) -> None:
        before, count = self._held.count + self._deleted.count, len(part.held) + len(part.deleted)
        if part.before != before or (before and part.left + count != self._left):
            raise MalformedMessage("parts of a snapshot that do not belong together")
        if before + count + part.left > REGISTERS_MOST:
            raise MalformedMessage("parts of a snapshot that is too large")
        if self._intake is None:
            self._intake = self._begin()
        self._intake.add(part.held, part.deleted)
        self._held.extend(part.held)
        self._deleted.extend(part.deleted)
        self._members += tuple([item for item in part.held if item[0] == REGISTER])
        self._left = part.left
        # They stay: to look for garbage among ever more of them would hold up the loop.
        gc.freeze()

    def whole(self, snapshot: Snapshot) -> Snapshot | Brought:
        """With the registers that came before it."""
        if self._left:
            raise MalformedMessage("a snapshot before its last part")
        intake, self._intake = self._intake, None
        if intake is None:
            return snapshot
        checkpoint = msgspec.structs.replace(snapshot.checkpoint, state=self._members)
        whole = Brought(checkpoint, intake, self._held, self._deleted)
        self._held, self._deleted, self._members = Array(), Array(), ()
        return whole


def give_up(intake: Intake) -> None:
    """Whatever is left in there is not wanted: a few registers in a turn of the loop."""
    if intake.give_up(REGISTERS_MAX):
        asyncio.get_running_loop().call_soon(give_up, intake)
