"""Ways between replicas that can be cut, each in one direction.

A replica finds every other one at the end of a way of its own: what it sends comes through here.
Since each replica sends only on connections that it dialled, a way that is cut stops just what is
sent in that direction.

One that is added later is found at one address by all others. That is a `Door`: who comes there
says first who it is, and goes on by its own way.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from itertools import permutations

from creekdb.wire.addresses import parse_address
from creekdb.wire.messages import decode_peer_hello, frame_payload

PIECE = 64 * 1024
LENGTH = 4
"""Bytes of a frame that tell how long it is."""


class Link:
    """From one replica to another. Where it is cut silently, nothing is refused and nothing comes
    through, as if every packet were lost. When it is mended, what was sent arrives, and who waits
    for a connection has to dial again."""

    def __init__(self, target: str) -> None:
        self._host, self._port = parse_address(target)
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._refuses = False

    async def start(self) -> None:
        self._server = await asyncio.start_server(self.accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self._hang_up()
        await asyncio.gather(*self._passing, return_exceptions=True)

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self, silently: bool) -> None:
        if silently:
            self._is_open.clear()
        else:
            self._refuses = True
            self._hang_up()

    def mend(self) -> None:
        self._refuses = False
        self._is_open.set()

    def _hang_up(self) -> None:
        for each in self._passing:
            each.cancel()

    async def accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes = b""
    ) -> None:
        """`said`: what was read already."""
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                if not self._is_open.is_set():
                    await self._is_open.wait()
                elif not self._refuses:
                    await self._pass_on(reader, writer, said)
                    writer.close()  # what one side said last still arrives
                    return
            writer.transport.abort()
        finally:
            self._passing.discard(task)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes
    ) -> None:
        """Until one of both ends."""
        onward, back = await asyncio.open_connection(self._host, self._port)
        back.write(said)
        ways = [
            asyncio.ensure_future(self._pump(reader, back)),
            asyncio.ensure_future(self._pump(onward, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            back.close()
        except asyncio.CancelledError:
            back.transport.abort()
            raise
        finally:
            for each in ways:
                each.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(PIECE):
            await self._is_open.wait()
            sink.write(piece)
            await sink.drain()


class Door:
    """Where all others find a replica."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._links: dict[int, Link] = {}

    async def open(self) -> str:
        """The address, which stays the same."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for link in self._links.values():
            await link.stop()

    def link(self, sender: int) -> Link:
        return self._links.setdefault(sender, Link(self._target))

    def mend(self) -> None:
        for link in self._links.values():
            link.mend()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            length = int.from_bytes(await reader.readexactly(LENGTH), "big")
            said = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
            return
        await self.link(decode_peer_hello(said).replica).accept(reader, writer, frame_payload(said))


class Links:
    """From each replica to each other, as far as they are known here."""

    def __init__(self, members: list[str]) -> None:
        self._first = range(len(members))
        self._members = members
        self._links = {
            (sender, receiver): Link(members[receiver])
            for sender, receiver in permutations(self._first, 2)
        }
        self._doors: dict[int, Door] = {}
        """Of those who came later."""
        self._opened: list[Door] = []

    async def __aenter__(self) -> "Links":
        for link in self._links.values():
            await link.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for link in self._links.values():
            await link.stop()
        for door in self._opened:
            await door.stop()

    def way(self, sender: int, receiver: int) -> str:
        """To one of the first."""
        return self._links[sender, receiver].address

    async def open_door(self, listens: str) -> tuple[Door, str]:
        """For one that may be added, and where others find it then."""
        door = Door(listens)
        self._opened.append(door)
        return door, await door.open()

    async def add(self, replica: int, door: Door) -> dict[int, str]:
        """It was added; answers its ways to the first ones. The others have doors."""
        self._doors[replica] = door
        for receiver in self._first:
            link = self._links[replica, receiver] = Link(self._members[receiver])
            await link.start()
        return {receiver: self.way(replica, receiver) for receiver in self._first}

    def cut(self, sender: int, receiver: int, silently: bool = False) -> None:
        """In this direction only."""
        if receiver in self._doors:
            self._doors[receiver].link(sender).cut(silently)
        elif (sender, receiver) in self._links:
            self._links[sender, receiver].cut(silently)

    def divide(self, some: Iterable[int], silently: bool = False) -> None:
        """These from all others, in both directions."""
        inside = set(some)
        for sender, receiver in permutations((*self._first, *self._doors), 2):
            if (sender in inside) != (receiver in inside):
                self.cut(sender, receiver, silently)

    def mend(self) -> None:
        """Everything."""
        for link in self._links.values():
            link.mend()
        for door in self._opened:
            door.mend()
