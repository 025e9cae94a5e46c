"""Damaged messages over TCP: a replica rejects them, closes the connection or answers."""

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import pytest

from creekdb.errors import MalformedMessage
from creekdb.wire import messages as wire
from tests.cluster.in_process_cluster import TIMEOUT_S, running_cluster
from tests.fuzzing import mutations, samples

CONNECTIONS: Final = 60
MESSAGES: Final = 20
"""Number of damaged messages on each connection, before one that must be answered."""


def damaged_message(random: Random) -> bytes:
    """Return a message with wrong values, or rarely bytes that are no message."""
    encoded = [samples.encode(message) for message in samples.CLIENT_MESSAGES]
    if random.random() < 0.03:
        return mutations.random_damage(random, encoded)
    while True:
        plain = msgspec.msgpack.decode(random.choice(encoded))
        data = samples.encode(mutations.random_variant(random, plain))
        with suppress(MalformedMessage):
            wire.decode_client_message(data)
            return data


@pytest.mark.parametrize("seed", range(2))
async def test_a_replica_survives_damaged_messages_of_clients(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    async with running_cluster(tmp_path, replicas=1) as cluster:
        host, _, port = cluster.addresses(0)[0].partition(":")
        for number in range(CONNECTIONS):
            reader, writer = await asyncio.open_connection(host, int(port))
            hello = wire.ClientHello(wire.WIRE_VERSION, f"client {number}")
            payloads = [samples.encode(hello)] if random.random() < 0.9 else []
            payloads += [damaged_message(random) for _ in range(MESSAGES)]
            writer.write(b"".join(map(wire.frame_payload, payloads)))
            writer.write_eof()
            async with asyncio.timeout(TIMEOUT_S):
                try:
                    received = await reader.read()
                except ConnectionError:
                    received = b""
            for payload in wire.FrameDecoder(wire.CLIENT_FRAME_BYTES_MAX).feed(received):
                wire.decode_server_message(payload)
            writer.transport.abort()
        async with cluster.client() as db:
            await db.strong.put("after", 1)
            assert await db.weak.get("after") == 1
    assert not failures
