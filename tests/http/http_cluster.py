"""In-process cluster with HTTP servers, and a minimal HTTP client."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from creekdb.http import HttpServer
from creekdb.http.requests import HttpLimits
from creekdb.server.runtime.server import DEFAULT_LIMITS, ServerLimits
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster


class HttpResponse(NamedTuple):
    """Response with its decoded body."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def problem(self) -> str:
        """Name of the reported problem."""
        assert self.headers["Content-Type"] == "application/problem+json"
        name: str = self.body["type"].removeprefix("urn:creek:problem:")
        return name


class Event(NamedTuple):
    """Server-sent event with its decoded data."""

    name: str
    data: Any


class HttpCluster:
    """Cluster with one HTTP server per replica and a client session for all of them."""

    def __init__(
        self, cluster: InProcessCluster, http_servers: dict[int, HttpServer], scheme: str
    ) -> None:
        self.cluster = cluster
        self.http_servers = http_servers
        self._scheme = scheme
        self._session = aiohttp.ClientSession()

    def url(self, path: str, replica: int = 0) -> str:
        return f"{self._scheme}://127.0.0.1:{self.http_servers[replica].port}{path}"

    async def get(self, path: str, replica: int = 0, **options: Any) -> HttpResponse:
        return await self.request("GET", path, replica, **options)

    async def post(
        self, path: str, body: Any = None, replica: int = 0, **options: Any
    ) -> HttpResponse:
        if body is not None:
            options["json"] = body
        return await self.request("POST", path, replica, **options)

    async def request(
        self, method: str, path: str, replica: int = 0, **options: Any
    ) -> HttpResponse:
        async with self._session.request(method, self.url(path, replica), **options) as response:
            is_json = response.content_type.endswith("json")
            body = await (response.json(content_type=None) if is_json else response.text())
            return HttpResponse(response.status, body, dict(response.headers))

    def open(self, method: str, path: str, **options: Any) -> Any:
        """Open a streamed response, for use in `async with`."""
        return self._session.request(method, self.url(path), **options)

    async def events(self, method: str, path: str, **options: Any) -> list[Event]:
        """Return all events of a stream after its end."""
        async with self._session.request(method, self.url(path), **options) as response:
            assert response.status == 200
            assert response.content_type == "text/event-stream"
            return parse_events(await response.text())

    async def close(self) -> None:
        await self._session.close()
        for http_server in self.http_servers.values():
            await http_server.stop()


class RawConnection:
    """TCP connection that sends bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._reader = reader

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def response(self, *, has_body: bool = True) -> HttpResponse:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        size = int(headers.get("Content-Length", 0)) if has_body else 0
        body = await self._reader.readexactly(size)
        is_json = headers.get("Content-Type", "").endswith("json") and bool(body)
        status = int(head[0].split(" ")[1])
        return HttpResponse(status, json.loads(body) if is_json else body, headers)

    async def rest(self) -> bytes:
        """Return all further bytes after the server has closed the connection."""
        try:
            return await self._reader.read()
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def raw_connection(
    http: HttpCluster, data: bytes = b"", *, receive_buffer: int | None = None
) -> AsyncIterator[RawConnection]:
    """Connect and send `data`. Each wait for the server is bounded."""
    with socket.socket() as client:
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.setblocking(False)
        address = ("127.0.0.1", http.http_servers[0].port)
        await asyncio.get_running_loop().sock_connect(client, address)
        reader, writer = await asyncio.open_connection(sock=client)
        writer.write(data)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                yield RawConnection(reader, writer)
        finally:
            writer.transport.abort()


def parse_events(text: str) -> list[Event]:
    events: list[Event] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            events.append(Event(fields["event"], json.loads(fields["data"])))
    return events


@asynccontextmanager
async def http_cluster(
    directory: Path,
    replicas: int = 1,
    *,
    url_scheme: str = "http",
    limits: HttpLimits | None = None,
    server_limits: ServerLimits = DEFAULT_LIMITS,
    **settings: Any,
) -> AsyncIterator[HttpCluster]:
    settings.setdefault("datatype", "bank")
    async with running_cluster(
        directory, replicas, server_limits, http="127.0.0.1:0", **settings
    ) as cluster:
        http_servers = {
            replica: HttpServer(server, limits) for replica, server in cluster.servers.items()
        }
        for http_server in http_servers.values():
            await http_server.start()
        http = HttpCluster(cluster, http_servers, url_scheme)
        try:
            yield http
        finally:
            await http.close()
