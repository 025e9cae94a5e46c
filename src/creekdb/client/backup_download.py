"""Fetching a copy of what a cluster has committed, piece by piece, from one of its replicas."""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from creekdb.client.errors import NotDone
from creekdb.client.replica_connection import Finder, Line, trusting
from creekdb.wire import messages
from creekdb.wire.addresses import address_of

AHEAD: Final = 4
"""Pieces that are asked for before they are here: the way there and back takes its time."""
PIECE_S: Final = 60.0
"""For one of them."""
PATIENCE_S: Final = 10.0


async def copy(
    addresses: Iterable[str],
    write: Callable[[bytes], object],
    *,
    token: str = "",
    authority: str | None = None,
    operations: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
    refused: float | None = None,
) -> None:
    """Hand the bytes of a backup to `write`, as they come. Raises `NotDone` if that is impossible,
    also in the middle: then what was written is worth nothing. `progress` is told how many of how
    many registers are there; `refused` is as in `connect`."""
    heard: asyncio.Queue[messages.ToClient] = asyncio.Queue()
    finder = Finder(map(address_of, addresses), trusting(authority), PATIENCE_S)
    hello = messages.Hello(messages.WIRE_VERSION, uuid.uuid4().hex, token)
    line, _ = await finder.find(hello, heard.put_nowait, refused)
    try:
        line.write(messages.frame_of(messages.CopyRequest(1, operations)))
        begun = await _next(line, heard)
        assert isinstance(begun, messages.CopyBegun)
        for _ in range(AHEAD):
            line.write(messages.frame_of(messages.MoreRequest(1)))
        while True:
            piece = await _next(line, heard)
            assert isinstance(piece, messages.Copied)
            write(piece.data)
            progress(piece.done, begun.registers)
            if piece.last:
                return
            line.write(messages.frame_of(messages.MoreRequest(1)))
    finally:
        line.close()


async def _next(line: Line, heard: "asyncio.Queue[messages.ToClient]") -> messages.ToClient:
    waiting = asyncio.ensure_future(heard.get())
    try:
        await asyncio.wait(
            (waiting, line.closed), timeout=PIECE_S, return_when=asyncio.FIRST_COMPLETED
        )
        if not waiting.done():
            if line.closed.done():
                message = "the replica closed the connection: is it of an older release?"
                raise NotDone("unreachable", message)
            raise NotDone("deadline", f"the replica was silent for {PIECE_S:g} s")
        message_heard = waiting.result()
    finally:
        waiting.cancel()
    if isinstance(message_heard, messages.Refused):
        raise NotDone(message_heard.reason, message_heard.message)
    return message_heard
