"""How many connections a replica takes: the system lets a process have so many files, and a
connection is one of them.

One that has no more to open can neither begin a segment of its journal nor dial another replica: it
would be of use to nobody, for as long as others keep their connections. So some are left over: who
comes when few others are left is turned away at once.

Where a replica listens, and what it shows to whom it talks.
"""

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from creekdb.errors import UsageError
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.security.authentication import client_context, server_context
from creekdb.wire.addresses import parse_address

OPEN_FILES_MAX: Final = 65_536
"""More are not asked of the system."""
RESERVED_FILES: Final = 256
"""Files that connections may not take."""
RESERVED_FILES_BEYOND_PEERS: Final = 128
"""The same for connections of other replicas, without which there is nothing to do for clients."""


def raise_open_files_limit() -> None:
    """As many as this process may have, not as many as it is given at first."""
    given, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_MAX if most == resource.RLIM_INFINITY else min(OPEN_FILES_MAX, most)
    if given != resource.RLIM_INFINITY and given < wanted:
        with suppress(OSError, ValueError):  # then it does with what it has
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def is_at_connection_limit(left_over: int) -> bool:
    """Would another connection take one of the last files? The system gives the lowest number that
    is free: what is below it is taken."""
    given, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if given == resource.RLIM_INFINITY:
        return False
    try:
        with socket.socket() as another:
            lowest = another.fileno()
    except OSError:
        return True
    # Where there are not many, half of them are left over by clients, and a quarter by peers.
    return lowest >= given - min(left_over, given * left_over // (2 * RESERVED_FILES))


class RejectedConnection(asyncio.Protocol):
    """A connection that is told so, and closed."""

    def __init__(self, word: bytes = b"") -> None:
        self._last_frame = word

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        given = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        if self._last_frame:
            given.write(self._last_frame)
            given.close()
        else:
            given.abort()


TLS_HANDSHAKE_TIMEOUT_S: Final = 10.0
"""How long who connects may take until TLS is agreed on."""


class Listeners:
    """`config()`: as it is now. `count` is called with what went wrong."""

    def __init__(self, config: Callable[[], ServerConfig], count: Callable[[str], None]) -> None:
        self._config = config
        self._count = count
        self._servers: list[asyncio.Server] = []
        self.tls_contexts: list[ssl.SSLContext] = []
        """Where certificates are, for connections to come."""

    async def open(
        self,
        protocol: Callable[[], asyncio.Protocol],
        address: str,
        mutual: bool = True,
        left_over: int = RESERVED_FILES,
        word: bytes = b"",
    ) -> asyncio.Server:
        """Listen there, until it is stopped. `mutual`: both sides show a certificate. `left_over`:
        files that are not for those who come; and a `word` for who is turned away therefore."""

        def received() -> asyncio.Protocol:
            if not is_at_connection_limit(left_over):
                return protocol()
            self._count("crowded")
            return RejectedConnection(word)

        host, port = parse_address(address)
        secured = self.server_context(mutual)
        try:
            server = await asyncio.get_running_loop().create_server(
                *(received, host, port),
                ssl=secured,
                ssl_handshake_timeout=None if secured is None else TLS_HANDSHAKE_TIMEOUT_S,
            )
        except OSError as error:
            number = error.errno or 0
            why = os.strerror(number) if number > 0 else error.strerror
            raise UsageError(f"cannot listen at {address}: {why}") from error
        self._servers.append(server)
        return server

    def server_context(self, mutual: bool) -> ssl.SSLContext | None:
        security = self._config().security
        if not self._config().is_secured:
            return None
        context = server_context(security, mutual, self._count)
        self.tls_contexts.append(context)
        return context

    def client_context(self) -> ssl.SSLContext | None:
        if not self._config().is_secured:
            return None
        context = client_context(self._config().security)
        self.tls_contexts.append(context)
        return context

    def close(self) -> None:
        for server in self._servers:
            server.close()
