"""Connections to rqlite: their requests, and their behaviour with a scripted server."""

import asyncio
import json

from benchmarks.competitors.rqlite import CONNECTIONS, INSERT, dial, insert_message
from creekdb.load.connection import LoadTarget
from creekdb.load.measurement import STRONG_STABLE, LoadMeter
from creekdb.load.workload import WorkloadCall

RESULT = '{"results":[{"last_insert_id":1,"rows_affected":1}]}'
ERROR = '{"results":[{"error":"UNIQUE constraint failed: item.id"}]}'


def test_an_insert_is_one_request_with_a_value_of_the_same_size() -> None:
    headers, _, body = insert_message(7, b"ab").partition(b"\r\n\r\n")

    assert headers.startswith(b"POST /db/execute HTTP/1.1\r\n")
    assert f"Content-Length: {len(body)}".encode() in headers
    assert json.loads(body) == [[INSERT, 7, "61"]]


async def test_completed_inserts_are_measured_and_failed_ones_counted() -> None:
    """The server rejects row 3. It sends each response in two parts."""

    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        while line := await reader.readline():
            if not line.lower().startswith(b"content-length: "):
                continue
            await reader.readuntil(b"\r\n")  # the empty line after the headers
            ((_, id, _),) = json.loads(await reader.readexactly(int(line.split()[1])))
            body = ERROR if id == 3 else RESULT
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode())
            await asyncio.sleep(0)
            writer.write(body.encode())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    meter = LoadMeter(0, 2**63)
    done: list[int] = []

    def on_call_done(connection: LoadTarget, client: int) -> None:
        done.append(client)

    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    connection = await dial(address, meter, on_call_done)
    calls = 2 * CONNECTIONS  # more than the server executes at once
    for client in range(calls):
        connection.call(WorkloadCall("sql", ("", (client, b"value")), True), client)
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
