"""Connections to PostgreSQL: their messages, and their behaviour with a scripted server."""

import asyncio
import struct

from benchmarks.competitors.connection_pool import ConnectionPool
from benchmarks.competitors.postgres import BACKENDS, dial, insert_message
from creekdb.load.connection import LoadTarget
from creekdb.load.measurement import STRONG_STABLE, LoadMeter
from creekdb.load.workload import WorkloadCall

READY = b"Z\0\0\0\5I"
COMPLETE = b"C" + struct.pack(">I", 15) + b"INSERT 0 1\0"
ERROR = b"E" + struct.pack(">I", 5) + b"\0"


def _split(data: bytes) -> list[tuple[bytes, bytes]]:
    messages = []
    while data:
        length = int.from_bytes(data[1:5], "big")
        messages.append((data[:1], data[5 : length + 1]))
        data = data[length + 1 :]
    return messages


def test_an_insert_binds_its_parameters_in_binary_executes_and_syncs() -> None:
    (bind, bound), execute, sync = _split(insert_message(7, b"value"))

    assert (bind, execute[0], sync) == (b"B", b"E", (b"S", b""))
    assert bound == b"".join(
        (
            *(b"\0insert\0", b"\0\1\0\1"),  # all parameters are binary
            *(b"\0\2", b"\0\0\0\x08", (7).to_bytes(8, "big")),
            *(b"\0\0\0\5value", b"\0\0"),
        )
    )


async def test_completed_inserts_are_measured_and_failed_ones_counted() -> None:
    """The server fails every value that starts with `x`."""

    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        length = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(length - 4)
        writer.write(READY)
        answer = b""
        while kind := await reader.read(1):
            length = int.from_bytes(await reader.readexactly(4), "big")
            payload = await reader.readexactly(length - 4)
            if kind == b"B":
                answer = ERROR if b"\1x" in payload else COMPLETE
            elif kind == b"S":
                writer.write(answer + READY)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    meter = LoadMeter(0, 2**63)
    done: list[int] = []

    def on_call_done(connection: LoadTarget, client: int) -> None:
        done.append(client)

    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    connection: ConnectionPool = await dial(address, meter, on_call_done)
    calls = 2 * BACKENDS  # more than the server executes at once
    for client in range(calls):
        value = b"x" if client == 3 else b"value"
        connection.call(WorkloadCall("sql", ("", (client, value)), True), client)
    assert connection.in_flight == calls
    async with asyncio.timeout(20):
        while connection.in_flight:
            await asyncio.sleep(0.001)

    assert sorted(done) == list(range(calls))
    assert len(meter.latencies_ns[STRONG_STABLE]) == calls - 1
    assert dict(meter.errors) == {"rejected": 1}
    connection.close()
    await asyncio.gather(*[task for task in serving if task is not None])
    server.close()
