"""Listening sockets of a replica, their TLS contexts, and the connection limit.

The system limits the open files of a process, and each connection takes one. A replica without free
files can neither start a journal segment nor dial another replica, so it could not make progress
while its clients stay connected. Therefore some files are reserved, and connections
beyond the limit are rejected at once.
"""

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, cast

from creekdb.errors import UsageError
from creekdb.server.runtime.config import SecurityConfig
from creekdb.server.security.authentication import (
    certificate_expiry_s,
    client_context,
    server_context,
)
from creekdb.wire.addresses import parse_address
from creekdb.wire.counters import ServerCounter

OPEN_FILES_MAX: Final = 65_536
"""Upper bound for the limit that a replica requests from the system."""
RESERVED_FILES: Final = 256
"""Files that client connections may not take."""
RESERVED_FILES_BEYOND_PEERS: Final = 128
"""Files that peer connections may not take. Clients cannot be served without peers."""


def raise_open_files_limit() -> None:
    """Raise the soft limit of open files towards the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(OPEN_FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(OSError, ValueError):  # the current limit stays
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def is_at_connection_limit(reserved_files: int) -> bool:
    """Return True if another connection would take a reserved file.

    The system assigns the lowest free descriptor, so all lower ones are taken.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return False
    try:
        with socket.socket() as probe:
            lowest_free = probe.fileno()
    except OSError:
        return True
    # With a low limit, half of the files are reserved from clients, and a quarter from peers.
    reserved = min(reserved_files, limit * reserved_files // (2 * RESERVED_FILES))
    return lowest_free >= limit - reserved


class RejectedConnection(asyncio.Protocol):
    """Connection beyond the limit: sends one frame, if any, and closes."""

    def __init__(self, last_frame: bytes = b"") -> None:
        self._last_frame = last_frame

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        if self._last_frame:
            connection.write(self._last_frame)
            connection.close()
        else:
            connection.abort()


TLS_HANDSHAKE_TIMEOUT_S: Final = 10.0
"""Time limit for the TLS handshake of an incoming connection."""


class Listeners:
    """Listening sockets of a replica, with its certificate. `count` counts failures.

    The certificate must belong to the replica with this `identity`.
    """

    def __init__(
        self, security: SecurityConfig, identity: str, count: Callable[[str], None]
    ) -> None:
        self._security = security
        self._identity = identity
        self._count = count
        self._servers: list[asyncio.Server] = []
        self._tls_contexts: list[ssl.SSLContext] = []
        """Contexts of future connections. A reload replaces their certificates."""
        self.certificate_expires_s = self._validate_certificate(security)
        """Expiry time of the certificate, in seconds since 1970. None without a certificate."""

    def _validate_certificate(self, security: SecurityConfig) -> float | None:
        return certificate_expiry_s(security, self._identity) if security.authority else None

    def reload_certificates(self, security: SecurityConfig) -> None:
        """Load the certificates for new connections.

        Authorities are added to those already trusted. On `UsageError`, nothing has changed.
        """
        if bool(security.authority) != bool(self._security.authority):
            raise UsageError(
                "cannot reload: encryption was switched on or off; restart the replica"
            )
        expires_s = self._validate_certificate(security)
        for context in self._tls_contexts:
            context.load_verify_locations(security.authority)
            context.load_cert_chain(security.certificate, security.key)
        self._security, self.certificate_expires_s = security, expires_s

    async def open(
        self,
        protocol: Callable[[], asyncio.Protocol],
        address: str,
        mutual: bool = True,
        reserved_files: int = RESERVED_FILES,
        rejection_frame: bytes = b"",
    ) -> asyncio.Server:
        """Listen at `address` until `close`.

        If `mutual`, both sides present a certificate. Connections that would take one of the
        `reserved_files` receive `rejection_frame` and are closed.
        """

        def accept() -> asyncio.Protocol:
            if not is_at_connection_limit(reserved_files):
                return protocol()
            self._count(ServerCounter.CONNECTION_LIMIT)
            return RejectedConnection(rejection_frame)

        host, port = parse_address(address)
        ssl_context = self._tls_context(partial(server_context, mutual=mutual, count=self._count))
        try:
            server = await asyncio.get_running_loop().create_server(
                *(accept, host, port),
                ssl=ssl_context,
                ssl_handshake_timeout=None if ssl_context is None else TLS_HANDSHAKE_TIMEOUT_S,
            )
        except OSError as error:
            number = error.errno or 0
            cause = os.strerror(number) if number > 0 else error.strerror
            raise UsageError(f"cannot listen at {address}: {cause}") from error
        self._servers.append(server)
        return server

    def client_context(self) -> ssl.SSLContext | None:
        return self._tls_context(client_context)

    def _tls_context(
        self, load: Callable[[SecurityConfig], ssl.SSLContext]
    ) -> ssl.SSLContext | None:
        if not self._security.authority:
            return None
        self._tls_contexts.append(load(self._security))
        return self._tls_contexts[-1]

    def close(self) -> None:
        for server in self._servers:
            server.close()
