"""A connection to another replica that was dialled here: we talk, and hear only its hello.

What is written in one turn of the loop leaves as one piece. What waits for a slow peer is bounded.
"""

import asyncio
from collections.abc import Iterator
from typing import Final, cast

from creekdb.cluster.frames import Frames
from creekdb.cluster.silence import notice_silence
from creekdb.cluster.wire import PEER_FRAME_MAX, PeerHello, frame_of, peer_hello
from creekdb.errors import MalformedMessage

WAITING_MAX: Final = 64 * 1024 * 1024
"""Bytes for one peer."""


class Talker:
    """An `asyncio.Protocol` by its methods; it does not inherit from it, so that it can be
    compiled."""

    def __init__(self, hello: PeerHello) -> None:
        loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[PeerHello | None] = loop.create_future()
        """None: the connection ended without one."""
        self.closed: asyncio.Future[None] = loop.create_future()
        self._ours = hello
        self._frames = Frames(PEER_FRAME_MAX)
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._in_turns: Iterator[bytes] | None = None
        """What leaves one by one, with room between for the rest."""
        self._paused = False
        self._loop = loop

    @property
    def is_connected(self) -> bool:
        """Or was it, at least?"""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        notice_silence(self._transport)
        self._transport.write(frame_of(self._ours))

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                if not self.hello.done():
                    self.hello.set_result(peer_hello(payload))
        except MalformedMessage:
            self._give_up()
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._give_up()
        if not self.closed.done():
            self.closed.set_result(None)

    def _give_up(self) -> None:
        if not self.hello.done():
            self.hello.set_result(None)

    def eof_received(self) -> None:
        """The connection is closed."""

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._turn()

    def write_in_turns(self, frames: Iterator[bytes]) -> bool:
        """False when there are such already."""
        if self._in_turns is not None:
            return False
        self._in_turns = frames
        self._turn()
        return True

    def _turn(self) -> None:
        """What is not paused has room for a part."""
        if self._in_turns is None or self._paused or self.closed.done():
            return
        frame = next(self._in_turns, None)
        if frame is None:
            self._in_turns = None
        else:
            self.write(frame)
            self._loop.call_soon(self._turn)

    def write(self, frame: bytes) -> bool:
        """With all else that is written in this turn. False when there is too much already."""
        assert self._transport is not None
        if self._transport.get_write_buffer_size() > WAITING_MAX:
            return False
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(frame)
        return True

    def close(self) -> None:
        """What was written leaves before."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._waiting.clear()
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(waiting))
