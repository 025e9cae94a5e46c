"""rqlite: three servers on this machine, and connections that insert rows over its HTTP API.

A write returns when two of three servers have synced it to the Raft log on disk. This is what a
strong operation of Creek waits for. The connections go to the leader, which saves the other servers
from forwarding. Parameters travel as JSON, so the value is a text of the same size.

The servers run as the user `nobody` if the benchmark runs as root.
"""

import asyncio
import json
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

from benchmarks.competitors.connection_pool import TIMEOUT_S, ConnectionPool, PooledConnection
from creekdb.errors import CreekError
from creekdb.load.connection import CallDone
from creekdb.load.local_cluster import free_port
from creekdb.load.measurement import LoadMeter
from creekdb.load.workload import WorkloadCall

NAME: Final = "rqlite"
PROGRAM: Final = "rqlited"
MISSING: Final = f"rqlite is not installed; put its program '{PROGRAM}' on the PATH"
SERVERS: Final = 3
TABLE: Final = "CREATE TABLE item(id INTEGER PRIMARY KEY, value TEXT NOT NULL)"
INSERT: Final = "INSERT INTO item VALUES (?, ?)"
CONNECTIONS: Final = 12
"""Connections to the server per load connection, as for PostgreSQL."""


class RqliteFailed(CreekError):
    """A server of rqlite failed or did not become ready."""


def is_installed() -> bool:
    return shutil.which(PROGRAM) is not None


class Rqlite:
    """The servers. As a context manager, it stops them at the end."""

    def __init__(self, directory: Path, open_link: Callable[[str], str] | None = None) -> None:
        """`open_link` maps the address of a server to the one that the other servers dial."""
        self._directory = directory
        self._user = "nobody" if os.getuid() == 0 else None
        self._raft = [f"127.0.0.1:{free_port()}" for _ in range(SERVERS)]
        self._advertised = self._raft if open_link is None else [*map(open_link, self._raft)]
        self._http = [f"127.0.0.1:{free_port()}" for _ in range(SERVERS)]
        self._servers: list[subprocess.Popen[bytes]] = []
        directory.mkdir()
        if self._user is not None:
            shutil.chown(directory, self._user)

    def __enter__(self) -> "Rqlite":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def addresses(self) -> list[str]:
        """Address of the leader, the server that was started first."""
        return self._http[:1]

    @property
    def processes(self) -> dict[str, int]:
        return {f"{NAME} {number}": server.pid for number, server in enumerate(self._servers)}

    def start(self) -> None:
        """Start all servers and create the table."""
        for number in range(SERVERS):
            self._start_server(number)
            self._wait_until_ready(number)
        self._execute(TABLE)

    def stop(self) -> None:
        for server in self._servers:
            server.terminate()
        for server in self._servers:
            server.wait()
        self._servers.clear()

    def _start_server(self, number: int) -> None:
        command = [PROGRAM, "-node-id", str(number + 1)]
        command += ["-http-addr", self._http[number], "-raft-addr", self._raft[number]]
        command += ["-raft-adv-addr", self._advertised[number]]
        if number:
            command += ["-join", self._advertised[0]]
        with (self._directory / f"{number}.out").open("wb") as output:
            self._servers.append(
                subprocess.Popen(
                    [*command, str(self._directory / f"n{number}")],
                    stdout=output,
                    stderr=output,
                    cwd="/",
                    user=self._user,
                    group=self._user and pwd.getpwnam(self._user).pw_gid,
                )
            )

    def _wait_until_ready(self, number: int) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._status(number, "GET", "/readyz") != 200:
            if self._servers[number].poll() is not None or time.monotonic() > deadline_s:
                output = (self._directory / f"{number}.out").read_text().strip()
                raise RqliteFailed(f"rqlite did not become ready: {output[-1000:]}")
            time.sleep(0.1)

    def _execute(self, statement: str) -> None:
        if self._status(0, "POST", "/db/execute", [statement]) != 200:
            raise RqliteFailed(f"rqlite did not execute {statement}")

    def _status(self, number: int, method: str, path: str, body: Any = None) -> int:
        host, _, port = self._http[number].partition(":")
        connection = HTTPConnection(host, int(port), timeout=TIMEOUT_S)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            return connection.getresponse().status
        except (OSError, HTTPException):
            return 0
        finally:
            connection.close()


_HEADERS: Final = (
    "POST /db/execute HTTP/1.1\r\nHost: rqlite\r\nContent-Type: application/json\r\n"
    "Content-Length: {}\r\n\r\n"
)
_END_OF_HEADERS: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"


def insert_message(id: int, value: bytes) -> bytes:
    """Return the HTTP request that inserts a row with this value as a text of the same size."""
    text = value.hex()[: len(value)]
    body = json.dumps([[INSERT, id, text]]).encode()
    return _HEADERS.format(len(body)).encode() + body


class _Connection(PooledConnection):
    """HTTP connection that stays open."""

    def __init__(self, pool: ConnectionPool) -> None:
        super().__init__(pool)
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.ready.set_result(None)

    def data_received(self, data: bytes) -> None:
        now_ns = perf_counter_ns()
        self._buffer += data
        headers, found, body = self._buffer.partition(_END_OF_HEADERS)
        if not found:
            return
        fields = headers.lower().split(b"\r\n")
        length = next(int(each[len(_LENGTH) :]) for each in fields if each.startswith(_LENGTH))
        if len(body) >= length:
            self._buffer = b""
            self.complete(b" 200 " in fields[0] and b'"error"' not in body, now_ns)


def _encode(call: WorkloadCall) -> bytes:
    _, (id, value) = call.arguments
    return insert_message(id, value)


async def dial(address: str, meter: LoadMeter, on_call_done: CallDone) -> ConnectionPool:
    pool = ConnectionPool(_encode, meter, on_call_done)
    await pool.open(_Connection, address, CONNECTIONS)
    return pool
