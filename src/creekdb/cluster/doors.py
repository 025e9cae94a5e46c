"""Where a replica listens, and what it shows to whom it talks."""

import asyncio
import os
import ssl
from collections.abc import Callable
from typing import Final

from creekdb.cluster.config import ServerConfig
from creekdb.cluster.crowd import LEFT_OVER, TurnedAway, is_crowded
from creekdb.cluster.security import answering, dialling
from creekdb.cluster.wire import address_of
from creekdb.errors import UsageError

SHAKEN_S: Final = 10.0
"""How long who connects may take until TLS is agreed on."""


class Doors:
    """`config()`: as it is now. `count` is called with what went wrong."""

    def __init__(self, config: Callable[[], ServerConfig], count: Callable[[str], None]) -> None:
        self._config = config
        self._count = count
        self._servers: list[asyncio.Server] = []
        self.contexts: list[ssl.SSLContext] = []
        """Where certificates are, for connections to come."""

    async def open(
        self,
        protocol: Callable[[], asyncio.Protocol],
        address: str,
        mutual: bool = True,
        left_over: int = LEFT_OVER,
        word: bytes = b"",
    ) -> asyncio.Server:
        """Listen there, until it is stopped. `mutual`: both sides show a certificate. `left_over`:
        files that are not for those who come; and a `word` for who is turned away therefore."""

        def received() -> asyncio.Protocol:
            if not is_crowded(left_over):
                return protocol()
            self._count("crowded")
            return TurnedAway(word)

        host, port = address_of(address)
        secured = self.answering(mutual)
        try:
            server = await asyncio.get_running_loop().create_server(
                *(received, host, port),
                ssl=secured,
                ssl_handshake_timeout=None if secured is None else SHAKEN_S,
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
