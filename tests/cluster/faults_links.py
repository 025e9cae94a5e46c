"""Ways between replicas that can be cut, each in one direction.

A replica finds every other one at the end of a way of its own: what it sends comes through here.
Since each replica sends only on connections that it dialled, a way that is cut stops just what is
sent in that direction.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from itertools import permutations

from creek.cluster.wire import address_of

PIECE = 64 * 1024


class Link:
    """From one replica to another. Where it is cut silently, nothing is refused and nothing comes
    through, as if every packet were lost. When it is mended, what was sent arrives, and who waits
    for a connection has to dial again."""

    def __init__(self, target: str) -> None:
        self._host, self._port = address_of(target)
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._refuses = False

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
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

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                if not self._is_open.is_set():
                    await self._is_open.wait()
                elif not self._refuses:
                    await self._pass_on(reader, writer)
                    writer.close()  # what one side said last still arrives
                    return
            writer.transport.abort()
        finally:
            self._passing.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until one of both ends."""
        onward, back = await asyncio.open_connection(self._host, self._port)
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


class Links:
    """One from each replica to each other."""

    def __init__(self, members: list[str]) -> None:
        self._all = range(len(members))
        self._links = {
            (sender, receiver): Link(members[receiver])
            for sender, receiver in permutations(self._all, 2)
        }

    async def __aenter__(self) -> "Links":
        for link in self._links.values():
            await link.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for link in self._links.values():
            await link.stop()

    def way(self, sender: int, receiver: int) -> str:
        return self._links[sender, receiver].address

    def cut(self, sender: int, receiver: int, silently: bool = False) -> None:
        """In this direction only."""
        self._links[sender, receiver].cut(silently)

    def divide(self, some: Iterable[int], silently: bool = False) -> None:
        """These from all others, in both directions."""
        inside = set(some)
        for sender, receiver in self._links:
            if (sender in inside) != (receiver in inside):
                self.cut(sender, receiver, silently)

    def mend(self) -> None:
        """Everything."""
        for link in self._links.values():
            link.mend()
