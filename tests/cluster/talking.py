"""A client that talks to a replica message by message."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from creekdb.wire import messages as wire
from tests.cluster.house import House


class Wire:
    """A client that says whatever a test wants, and reads only when asked to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = wire.FrameDecoder(wire.CLIENT_FRAME_BYTES_MAX)
        self._heard: list[wire.ServerMessage] = []

    def say(self, *messages: wire.ClientMessage) -> None:
        self._writer.write(b"".join(map(wire.encode_frame, messages)))

    async def hear(self) -> wire.ServerMessage:
        while not self._heard:
            data = await asyncio.wait_for(self._reader.read(65536), 20)
            if not data:
                raise ConnectionResetError
            self._heard += map(wire.decode_server_message, self._frames.feed(data))
        return self._heard.pop(0)

    async def refusal(self) -> wire.Rejected:
        message = await self.hear()
        assert isinstance(message, wire.Rejected)
        return message


@asynccontextmanager
async def dialled(cluster: House) -> AsyncIterator[Wire]:
    host, _, port = cluster.addresses(0)[0].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    line = Wire(reader, writer)
    line.say(wire.ClientHello(wire.WIRE_VERSION, "me"))
    assert isinstance(await line.hear(), wire.Welcome)
    try:
        yield line
    finally:
        writer.transport.abort()
