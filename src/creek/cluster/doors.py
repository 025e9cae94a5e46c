"""Where a replica listens, and what it shows to whom it talks."""

import asyncio
import os
import ssl
from collections.abc import Callable

from creek.cluster.config import ServerConfig
from creek.cluster.security import answering, dialling
from creek.cluster.wire import address_of
from creek.errors import UsageError


class Doors:
    """`config()`: as it is now. `count` is called with what went wrong."""

    def __init__(self, config: Callable[[], ServerConfig], count: Callable[[str], None]) -> None:
        self._config = config
        self._count = count
        self._servers: list[asyncio.Server] = []
        self.contexts: list[ssl.SSLContext] = []
        """Where certificates are, for connections to come."""

    async def open(
        self, protocol: Callable[[], asyncio.Protocol], address: str, mutual: bool = True
    ) -> asyncio.Server:
        """Listen there, until it is stopped. `mutual`: both sides show a certificate."""
        host, port = address_of(address)
        secured = self.answering(mutual)
        try:
            server = await asyncio.get_running_loop().create_server(
                protocol, host, port, ssl=secured
            )
        except OSError as error:
            number = error.errno or 0
            why = os.strerror(number) if number > 0 else error.strerror
            raise UsageError(f"cannot listen at {address}: {why}") from error
        self._servers.append(server)
        return server

    def answering(self, mutual: bool) -> ssl.SSLContext | None:
        security = self._config().security
        if not self._config().is_secured:
            return None
        context = answering(security, mutual, self._count)
        self.contexts.append(context)
        return context

    def dialling(self) -> ssl.SSLContext | None:
        if not self._config().is_secured:
            return None
        context = dialling(self._config().security)
        self.contexts.append(context)
        return context

    def close(self) -> None:
        for server in self._servers:
            server.close()
