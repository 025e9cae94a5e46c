"""Link faults: each stops, delays or breaks exactly the traffic that it names."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from creekdb.torture.faults.links import LinkProxies

TIMEOUT_S = 20.0


class Replica:
    """Listener that records what each connection sends."""

    def __init__(self) -> None:
        self.received: dict[bytes, bytes] = {}
        """Bytes of each connection, by their first byte, which identifies the sender."""
        self.lost: set[bytes] = set()
        """Senders whose connections have ended."""
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sender = await reader.read(1)
        self.received[sender] = b""
        try:
            while chunk := await reader.read(65536):
                self.received[sender] += chunk
        except ConnectionError:
            pass
        self.lost.add(sender)
        writer.close()

    async def until_received(self, sender: bytes, data: bytes) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while self.received.get(sender) != data:
                await asyncio.sleep(0.001)


class Cluster:
    def __init__(self, links: LinkProxies, replicas: list[Replica]) -> None:
        self.links = links
        self.replicas = replicas
        self._writers: list[asyncio.StreamWriter] = []

    async def dial(
        self, sender: int, receiver: int, name: bytes = b""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and send the name of the sender."""
        host, _, port = self.links.address(sender, receiver).partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        self._writers.append(writer)
        writer.write(name or b"%d" % sender)
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        for replica in self.replicas:
            replica.stop()
        await asyncio.sleep(0)


async def until_ended(reader: asyncio.StreamReader) -> None:
    """Wait until the connection is closed or reset."""
    async with asyncio.timeout(TIMEOUT_S):
        with suppress(ConnectionError):
            assert await reader.read(1) == b""


@asynccontextmanager
async def three_replicas() -> AsyncIterator[Cluster]:
    replicas = [Replica() for _ in range(3)]
    async with LinkProxies([await each.start() for each in replicas]) as links:
        cluster = Cluster(links, replicas)
        try:
            yield cluster
        finally:
            await cluster.close()


async def test_a_silent_cut_holds_all_bytes_of_one_direction_until_it_heals() -> None:
    async with three_replicas() as cluster:
        zero, one, _ = cluster.replicas
        _, onward = await cluster.dial(0, 1)
        _, back = await cluster.dial(1, 0)
        onward.write(b"before")
        await one.until_received(b"0", b"before")
        cluster.links.cut(0, 1, silently=True)
        onward.write(b" during")
        back.write(b"against")
        await zero.until_received(b"1", b"against")
        assert one.received[b"0"] == b"before"
        assert not one.lost
        cluster.links.heal()
        await one.until_received(b"0", b"before during")


async def test_a_connection_opened_during_a_silent_cut_never_works() -> None:
    async with three_replicas() as cluster:
        cluster.links.cut(0, 1, silently=True)
        reader, _ = await cluster.dial(0, 1)
        _, other = await cluster.dial(2, 1)
        other.write(b"x")
        await cluster.replicas[1].until_received(b"2", b"x")
        assert b"0" not in cluster.replicas[1].received
        cluster.links.heal()
        await until_ended(reader)


async def test_a_cut_ends_connections_and_refuses_new_ones_in_one_direction() -> None:
    async with three_replicas() as cluster:
        zero, one, _ = cluster.replicas
        reader, onward = await cluster.dial(0, 1)
        _, back = await cluster.dial(1, 0)
        onward.write(b"x")
        await one.until_received(b"0", b"x")
        cluster.links.cut(0, 1)
        await until_ended(reader)
        refused, _ = await cluster.dial(0, 1, b"n")
        await until_ended(refused)
        back.write(b"against")
        await zero.until_received(b"1", b"against")
        assert b"n" not in one.received
        cluster.links.heal()
        _, healed = await cluster.dial(0, 1, b"h")
        healed.write(b"y")
        await one.until_received(b"h", b"y")


async def test_a_partition_cuts_exactly_the_links_between_the_sides() -> None:
    async with three_replicas() as cluster:
        cluster.links.partition([0], silently=True)
        for sender, receiver in ((0, 1), (0, 2), (1, 0), (2, 0)):
            await cluster.dial(sender, receiver)
        for sender, receiver in ((1, 2), (2, 1)):
            _, writer = await cluster.dial(sender, receiver)
            writer.write(b"x")
            await cluster.replicas[receiver].until_received(b"%d" % sender, b"x")
        names = [set(replica.received) for replica in cluster.replicas]
        assert names == [set(), {b"2"}, {b"1"}]


async def test_a_slow_link_delays_bytes_from_and_to_the_replica() -> None:
    async with three_replicas() as cluster:
        loop = asyncio.get_running_loop()
        cluster.links.slow_down(1, 0.05)
        for sender, receiver in ((0, 1), (1, 0)):
            start_s = loop.time()
            _, writer = await cluster.dial(sender, receiver)
            writer.write(b"x")
            await cluster.replicas[receiver].until_received(b"%d" % sender, b"x")
            assert loop.time() - start_s >= 0.05


async def test_a_resetting_link_breaks_a_connection_within_a_frame() -> None:
    async with three_replicas() as cluster:
        one = cluster.replicas[1]
        _, writer = await cluster.dial(0, 1)
        writer.write(b"whole")
        await one.until_received(b"0", b"whole")
        cluster.links.reset_connections(1)
        writer.write(b"y" * 100)
        async with asyncio.timeout(TIMEOUT_S):
            while b"0" not in one.lost:
                await asyncio.sleep(0.001)
        assert len(one.received[b"0"]) < len(b"whole") + 100
