"""A cluster in this process that speaks HTTP, and a client that says no more than it must."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from creekdb.http import HttpServer
from creekdb.http.requests import HttpLimits
from tests.cluster.house import House, house


class Told(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def problem(self) -> str:
        assert self.headers["Content-Type"] == "application/problem+json"
        name: str = self.body["type"].removeprefix("urn:creek:problem:")
        return name


class Event(NamedTuple):
    name: str
    data: Any


class Served:
    def __init__(self, cluster: House, gateways: dict[int, HttpServer], scheme: str) -> None:
        self.cluster = cluster
        self.gateways = gateways
        self._scheme = scheme
        self._session = aiohttp.ClientSession()

    def url(self, path: str, replica: int = 0) -> str:
        return f"{self._scheme}://127.0.0.1:{self.gateways[replica].port}{path}"

    async def get(self, path: str, replica: int = 0, **more: Any) -> Told:
        return await self.ask("GET", path, replica, **more)

    async def post(self, path: str, body: Any = None, replica: int = 0, **more: Any) -> Told:
        if body is not None:
            more["json"] = body
        return await self.ask("POST", path, replica, **more)

    async def ask(self, method: str, path: str, replica: int = 0, **more: Any) -> Told:
        async with self._session.request(method, self.url(path, replica), **more) as response:
            is_json = response.content_type.endswith("json")
            body = await (response.json(content_type=None) if is_json else response.text())
            return Told(response.status, body, dict(response.headers))

    def open(self, method: str, path: str, **more: Any) -> Any:
        """To be read as it comes, in `async with`."""
        return self._session.request(method, self.url(path), **more)

    async def events(self, method: str, path: str, **more: Any) -> list[Event]:
        """All of them, until the last."""
        async with self._session.request(method, self.url(path), **more) as response:
            assert response.status == 200
            assert response.content_type == "text/event-stream"
            return parsed(await response.text())

    async def close(self) -> None:
        await self._session.close()
        for gateway in self.gateways.values():
            await gateway.stop()


def parsed(text: str) -> list[Event]:
    found: list[Event] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            found.append(Event(fields["event"], json.loads(fields["data"])))
    return found


@asynccontextmanager
async def served(
    folder: Path,
    replicas: int = 1,
    *,
    scheme_of_http: str = "http",
    limits: HttpLimits | None = None,
    **settings: Any,
) -> AsyncIterator[Served]:
    settings.setdefault("datatype", "bank")
    async with house(folder, replicas, http="127.0.0.1:0", **settings) as cluster:
        gateways = {
            replica: HttpServer(server, limits) for replica, server in cluster.servers.items()
        }
        for gateway in gateways.values():
            await gateway.start()
        found = Served(cluster, gateways, scheme_of_http)
        try:
            yield found
        finally:
            await found.close()


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)
