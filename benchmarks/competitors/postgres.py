"""PostgreSQL: a primary with two standbys on this machine, and connections that insert rows.

A commit returns when the primary and one of the standbys have synced it to disk
(`synchronous_commit = on` with `ANY 1`). A strong operation of Creek waits for the same: two of
three servers hold it on disk. `remote_write` would return before a standby has synced.

The servers refuse to run as root, so they then run as the user `postgres` or `nobody`.

The connections speak PostgreSQL's protocol with as little code as possible. The statement is
prepared once. A server executes one statement of a connection at a time, so each load connection
uses several.
"""

import asyncio
import os
import pwd
import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Final

from benchmarks.competitors.connection_pool import TIMEOUT_S, ConnectionPool, PooledConnection
from benchmarks.delayed_links import DelayedLinks
from creekdb.errors import CreekError
from creekdb.load.connection import CallDone
from creekdb.load.local_cluster import free_port
from creekdb.load.measurement import LoadMeter
from creekdb.load.workload import WorkloadCall

NAME: Final = "PostgreSQL"
MISSING: Final = "PostgreSQL is not installed; 'apt-get install postgresql' installs it"
DATABASE: Final = "postgres"
USER: Final = "bench"
TABLE: Final = "CREATE TABLE item(id bigint PRIMARY KEY, value bytea NOT NULL)"
INSERT: Final = "INSERT INTO item VALUES ($1, $2)"
STANDBYS: Final = ("one", "two")
BACKENDS: Final = 12
"""Connections to the server per load connection. Of 4, 8, 12 and 24, it gives the highest
throughput on two cores."""
_INSTALLATIONS: Final = Path("/usr/lib/postgresql")
"""Directory in which Debian installs each version."""
_CONFIGURATION: Final = f"""
listen_addresses = '127.0.0.1'
max_connections = {8 * 24 + 20}
synchronous_commit = on
hot_standby = on
"""


class PostgresFailed(CreekError):
    """A program of PostgreSQL failed or did not become ready."""


def find_programs() -> Path | None:
    """Return the directory of the newest installed programs, or None."""
    installed = shutil.which("initdb")
    if installed is not None:
        return Path(installed).resolve().parent
    found = [each for each in _INSTALLATIONS.glob("*/bin") if (each / "initdb").exists()]
    return max(found, key=lambda each: float(each.parent.name), default=None)


def _unprivileged_user() -> str | None:
    """Return the user that runs the servers, None for the current one."""
    if os.getuid() != 0:
        return None
    users = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in users else "nobody"


class Postgres:
    """A primary and two standbys. As a context manager, it stops them at the end."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs = programs
        self._directory = directory
        self._user = _unprivileged_user()
        self._port = free_port()
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        directory.mkdir()
        if self._user is not None:
            shutil.chown(directory, self._user)

    def __enter__(self) -> "Postgres":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def addresses(self) -> list[str]:
        """Address of the primary, the only server that accepts writes."""
        return [f"127.0.0.1:{self._port}"]

    @property
    def processes(self) -> dict[str, int]:
        """First process of each server. It starts one process per connection."""
        return {f"{NAME} {name}": server.pid for name, server in self._servers.items()}

    @property
    def version(self) -> str:
        text = self._run("postgres", "--version")
        found = re.search(r"\d+(\.\d+)?", text)
        return found[0] if found else text.strip()

    def start(self) -> None:
        """Create and start all servers, and wait until the standbys confirm commits."""
        primary = self._directory / "primary"
        # The empty database need not be synced, in contrast to the rows.
        self._run("initdb", "-N", "-D", str(primary), "-U", USER, "-A", "trust", "-E", "UTF8")
        with (primary / "postgresql.conf").open("a") as file:
            file.write(f"{_CONFIGURATION}unix_socket_directories = '{self._directory}'\n")
        self._start_server("primary", self._port)
        self._query(TABLE)
        for name in STANDBYS:
            self._run(
                *("pg_basebackup", "-D", str(self._directory / name), "-c", "fast", "-R", "-N"),
                *("-d", self._connection_text(name, f"127.0.0.1:{self._port}")),
            )
            self._start_server(name, free_port())
        self._query(f"ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ({', '.join(STANDBYS)})'")
        self._query("SELECT pg_reload_conf()")
        self._wait_for_standbys()

    def delay_links(self, links: DelayedLinks) -> None:
        """Restart the standbys, each behind a delayed link to the primary."""
        for name in STANDBYS:
            self._stop_server(name, signal.SIGTERM)
            through = self._connection_text(name, links.open(f"127.0.0.1:{self._port}"))
            self._start_server(name, free_port(), "-c", f"primary_conninfo={through}")
        self._wait_for_standbys()

    def stop(self) -> None:
        """Stop all servers without a checkpoint, since their directory is not needed any more."""
        for name in reversed(tuple(self._servers)):
            self._stop_server(name, signal.SIGQUIT)

    def _start_server(self, name: str, port: int, *options: str) -> None:
        with (self._directory / f"{name}.out").open("ab") as output:
            self._servers[name] = subprocess.Popen(
                [
                    *(str(self._programs / "postgres"), "-D", str(self._directory / name)),
                    *("-p", str(port), *options),
                ],
                stdout=output,
                stderr=output,
                cwd="/",
                user=self._user,
                group=self._user and pwd.getpwnam(self._user).pw_gid,
            )
        self._wait_until(
            lambda: (
                subprocess.run(
                    [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)],
                    check=False,
                ).returncode
                == 0
            )
        )

    def _stop_server(self, name: str, stop_signal: signal.Signals) -> None:
        server = self._servers.pop(name)
        server.send_signal(stop_signal)
        try:
            server.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()

    def _wait_for_standbys(self) -> None:
        count = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'"
        self._wait_until(lambda: self._query(count).strip() == str(len(STANDBYS)))

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not holds():
            for name, server in self._servers.items():
                if server.poll() is not None:
                    output = (self._directory / f"{name}.out").read_text().strip()
                    raise PostgresFailed(f"PostgreSQL's {name} exited: {output[-1000:]}")
            if time.monotonic() > deadline_s:
                raise PostgresFailed(f"PostgreSQL was not ready within {TIMEOUT_S:g} s")
            time.sleep(0.1)

    def _query(self, statement: str) -> str:
        return self._run(
            *("psql", "-X", "-q", "-t", "-A", "-h", "127.0.0.1", "-p", str(self._port)),
            *("-U", USER, "-d", DATABASE, "-c", statement),
        )

    def _run(self, program: str, *arguments: str) -> str:
        completed = subprocess.run(
            [str(self._programs / program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            user=self._user,
            group=self._user and pwd.getpwnam(self._user).pw_gid,
        )
        if completed.returncode != 0:
            raise PostgresFailed(f"{program} failed: {completed.stderr.strip()[-1000:]}")
        return completed.stdout

    def _connection_text(self, name: str, address: str) -> str:
        host, _, port = address.partition(":")
        return f"host={host} port={port} user={USER} application_name={name}"


# --- connections ---------------------------------------------------------------------------------

_READY: Final = ord("Z")
_ERROR: Final = ord("E")
_COMPLETE: Final = ord("C")
_HEADER: Final = struct.Struct(">BI")


def _message(kind: bytes, payload: bytes) -> bytes:
    return kind + struct.pack(">I", len(payload) + 4) + payload


_STARTUP: Final = b"\0\3\0\0" + b"".join(
    part.encode() + b"\0" for part in ("user", USER, "database", DATABASE, "")
)
_PREPARE: Final = (
    _message(b"P", b"insert\0" + INSERT.encode() + b"\0" + struct.pack(">H", 0))
    + _message(b"S", b"")
)  # fmt: skip
_EXECUTE_AND_SYNC: Final = _message(b"E", b"\0" + struct.pack(">I", 0)) + _message(b"S", b"")


def insert_message(id: int, value: bytes) -> bytes:
    """Return the messages that execute the prepared statement with binary parameters."""
    parameters = struct.pack(">HHHIqI", 1, 1, 2, 8, id, len(value)) + value
    bind = _message(b"B", b"\0insert\0" + parameters + struct.pack(">H", 0))
    return bind + _EXECUTE_AND_SYNC


class _Backend(PooledConnection):
    """Connection to one process of the server."""

    def __init__(self, pool: ConnectionPool) -> None:
        super().__init__(pool)
        self._buffer = bytearray()
        self._is_complete = False
        self._is_prepared = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write(struct.pack(">I", len(_STARTUP) + 4) + _STARTUP)

    def data_received(self, data: bytes) -> None:
        now_ns = perf_counter_ns()
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(buffer)
            if len(buffer) <= length:
                return
            del buffer[: length + 1]
            if kind == _COMPLETE:
                self._is_complete = True
            elif kind == _ERROR:
                self._is_complete = False
            elif kind == _READY:
                self._on_ready(now_ns)

    def _on_ready(self, now_ns: int) -> None:
        if not self._is_prepared:
            self._is_prepared = True
            self.write(_PREPARE)
        elif not self.ready.done():
            self.ready.set_result(None)
        else:
            is_complete, self._is_complete = self._is_complete, False
            self.complete(is_complete, now_ns)


def _encode(call: WorkloadCall) -> bytes:
    _, (id, value) = call.arguments
    return insert_message(id, value)


async def dial(address: str, meter: LoadMeter, on_call_done: CallDone) -> ConnectionPool:
    pool = ConnectionPool(_encode, meter, on_call_done)
    await pool.open(_Backend, address, BACKENDS)
    return pool
