"""Client that exchanges single messages with a replica."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from creekdb.wire import messages as wire
from tests.cluster.in_process_cluster import InProcessCluster


class WireClient:
    """Client connection that sends any message and reads only in `receive`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = wire.FrameDecoder(wire.CLIENT_FRAME_BYTES_MAX)
        self._received: list[wire.ServerMessage] = []

    def send(self, *messages: wire.ClientMessage) -> None:
        self._writer.write(b"".join(map(wire.encode_frame, messages)))

    async def receive(self) -> wire.ServerMessage:
        while not self._received:
            data = await asyncio.wait_for(self._reader.read(65536), 20)
            if not data:
                raise ConnectionResetError
            self._received += map(wire.decode_server_message, self._frames.feed(data))
        return self._received.pop(0)

    async def receive_rejection(self) -> wire.Rejected:
        message = await self.receive()
        assert isinstance(message, wire.Rejected)
        return message


async def open_connection(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect with a small receive buffer, so that unread data remain at the sender."""
    host, _, port = address.partition(":")
    connected = socket.socket()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    connected.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connected, (host, int(port)))
    return await asyncio.open_connection(sock=connected)


@asynccontextmanager
async def wire_client(cluster: InProcessCluster) -> AsyncIterator[WireClient]:
    """Connect to replica 0 and complete the handshake."""
    reader, writer = await open_connection(cluster.addresses(0)[0])
    client = WireClient(reader, writer)
    client.send(wire.ClientHello(wire.WIRE_VERSION, "me"))
    assert isinstance(await client.receive(), wire.Welcome)
    try:
        yield client
    finally:
        writer.transport.abort()
