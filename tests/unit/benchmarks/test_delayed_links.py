"""Delayed links deliver every byte in order, after the latency, without limiting the throughput."""

import asyncio
from time import monotonic

from benchmarks.delayed_links import DelayedLinks

LATENCY_S = 0.05
CHUNKS = 200
TIMEOUT_S = 20.0


async def test_bytes_arrive_in_order_after_the_latency_of_each_direction() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65_536):
            writer.write(chunk)
        writer.close()
        await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    target = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    sent = b"".join(b"%6d" % number for number in range(CHUNKS))
    with DelayedLinks(LATENCY_S) as links:
        address = await asyncio.to_thread(links.open, target)
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        start_s = monotonic()
        for first in range(0, len(sent), 6):
            writer.write(sent[first : first + 6])
            await asyncio.sleep(0)
        async with asyncio.timeout(TIMEOUT_S):
            first_byte = await reader.readexactly(1)
            delay_s = monotonic() - start_s
            received = first_byte + await reader.readexactly(len(sent) - 1)
            elapsed_s = monotonic() - start_s
            writer.close()
            await ended.wait()
        server.close()

    assert delay_s >= 2 * LATENCY_S
    assert received == sent
    # Bytes that wait for the latency wait at the same time.
    assert elapsed_s < CHUNKS * LATENCY_S


def test_each_pair_of_members_has_a_link_per_direction() -> None:
    with DelayedLinks(LATENCY_S) as links:
        addresses = links.open_between(["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"])

    assert set(addresses) == {(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)}
    assert len(set(addresses.values())) == 6
