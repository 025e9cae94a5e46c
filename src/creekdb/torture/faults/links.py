"""Proxies between replicas whose links can be cut, slowed or reset, each in one direction.

Every pair of initial members has one `LinkProxy` per direction, at an address of its own. A replica
sends only on connections that it dialled, so a cut stops exactly one direction.

All peers dial a member that is added later at one address. A `MemberProxy` reads the hello of each
connection there and forwards it through the link of the sender.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import permutations

from creekdb.wire.addresses import parse_address
from creekdb.wire.messages import decode_peer_hello, frame_payload

CHUNK_BYTES = 64 * 1024
LENGTH_BYTES = 4
"""Size of the length prefix of a frame, in bytes."""


class LinkProxy:
    """Link from one replica to another.

    A silent cut refuses no connection and forwards no byte, as if every packet were lost. After
    healing, delayed bytes arrive, and a connection that was opened during the cut is aborted.
    """

    def __init__(self, target: str) -> None:
        self._host, self._port = parse_address(target)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._is_refusing = False
        self._delay_s = 0.0
        self._is_resetting = False

    async def start(self) -> None:
        self._server = await asyncio.start_server(self.accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self._drop_connections()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self, silently: bool) -> None:
        if silently:
            self._is_open.clear()
        else:
            self._is_refusing = True
            self._drop_connections()

    def slow_down(self, delay_s: float) -> None:
        """Delay every chunk of bytes, and thus limit the throughput too."""
        self._delay_s = delay_s

    def reset_connections(self) -> None:
        """Forward half of each further chunk, then abort its connection within a frame."""
        self._is_resetting = True

    def heal(self) -> None:
        self._is_refusing = self._is_resetting = False
        self._delay_s = 0.0
        self._is_open.set()

    def _drop_connections(self) -> None:
        for each in self._connections:
            each.cancel()

    async def accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, received: bytes = b""
    ) -> None:
        """Forward a connection. `received` holds the bytes that were read from it already."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                if not self._is_open.is_set():
                    await self._is_open.wait()
                elif not self._is_refusing:
                    await self._forward(reader, writer, received)
                    writer.close()  # delivers the last bytes of the other side
                    return
            writer.transport.abort()
        finally:
            self._connections.discard(task)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, received: bytes
    ) -> None:
        """Forward in both directions until one side closes its connection."""
        onward, back = await asyncio.open_connection(self._host, self._port)
        back.write(received)
        pumps = [
            asyncio.ensure_future(self._pump(reader, back)),
            asyncio.ensure_future(self._pump(onward, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            back.close()
        except asyncio.CancelledError:
            back.transport.abort()
            raise
        finally:
            for each in pumps:
                each.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while chunk := await source.read(CHUNK_BYTES):
            await self._is_open.wait()
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            if self._is_resetting and len(chunk) > 1:
                sink.write(chunk[: len(chunk) // 2])
                await sink.drain()
                sink.transport.abort()
                return
            sink.write(chunk)
            await sink.drain()


class MemberProxy:
    """Address at which all peers dial a replica that was added later."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._links: dict[int, LinkProxy] = {}

    async def open(self) -> str:
        """Listen, and return the address."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for link in self._links.values():
            await link.stop()

    def link(self, sender: int) -> LinkProxy:
        return self._links.setdefault(sender, LinkProxy(self._target))

    def heal(self) -> None:
        for link in self._links.values():
            link.heal()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
            hello = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
            return
        link = self.link(decode_peer_hello(hello).replica)
        await link.accept(reader, writer, frame_payload(hello))


class LinkProxies:
    """Links between all pairs of replicas."""

    def __init__(self, members: list[str]) -> None:
        self._initial = range(len(members))
        self._members = members
        self._links = {
            (sender, receiver): LinkProxy(members[receiver])
            for sender, receiver in permutations(self._initial, 2)
        }
        self._proxies: dict[int, MemberProxy] = {}
        """Proxies of the members that were added later, by replica."""
        self._opened_proxies: list[MemberProxy] = []

    async def __aenter__(self) -> "LinkProxies":
        for link in self._links.values():
            await link.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for link in self._links.values():
            await link.stop()
        for proxy in self._opened_proxies:
            await proxy.stop()

    def address(self, sender: int, receiver: int) -> str:
        """Return the address at which the sender dials an initial member."""
        return self._links[sender, receiver].address

    async def open_proxy(self, target: str) -> tuple[MemberProxy, str]:
        """Open a proxy for a replica that is about to be added, and return it with its address."""
        proxy = MemberProxy(target)
        self._opened_proxies.append(proxy)
        return proxy, await proxy.open()

    async def add(self, replica: int, proxy: MemberProxy) -> dict[int, str]:
        """Register a new member, and return the addresses at which it dials the initial members."""
        self._proxies[replica] = proxy
        for receiver in self._initial:
            link = self._links[replica, receiver] = LinkProxy(self._members[receiver])
            await link.start()
        return {receiver: self.address(replica, receiver) for receiver in self._initial}

    def cut(self, sender: int, receiver: int, silently: bool = False) -> None:
        """Cut the link in this direction only."""
        for link in self._find(sender, receiver):
            link.cut(silently)

    def slow_down(self, replica: int, delay_s: float) -> None:
        """Delay the bytes of all links from and to this replica."""
        for link in self._links_of(replica):
            link.slow_down(delay_s)

    def reset_connections(self, replica: int) -> None:
        """Abort the connections from and to this replica whenever one transmits."""
        for link in self._links_of(replica):
            link.reset_connections()

    def _links_of(self, replica: int) -> Iterator[LinkProxy]:
        for sender, receiver in permutations((*self._initial, *self._proxies), 2):
            if replica in (sender, receiver):
                yield from self._find(sender, receiver)

    def _find(self, sender: int, receiver: int) -> Iterator[LinkProxy]:
        """Yield the link, or nothing if the replicas are connected directly."""
        if receiver in self._proxies:
            yield self._proxies[receiver].link(sender)
        elif (sender, receiver) in self._links:
            yield self._links[sender, receiver]

    def partition(self, side: Iterable[int], silently: bool = False) -> None:
        """Cut all links between these replicas and the others, in both directions."""
        inside = set(side)
        for sender, receiver in permutations((*self._initial, *self._proxies), 2):
            if (sender in inside) != (receiver in inside):
                self.cut(sender, receiver, silently)

    def heal(self) -> None:
        """Heal all links."""
        for link in self._links.values():
            link.heal()
        for proxy in self._opened_proxies:
            proxy.heal()
