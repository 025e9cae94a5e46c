"""The replicas of a cluster, one after the other, until one is willing."""

import asyncio
import os
import ssl
from collections.abc import Callable, Iterable
from typing import Final

from creek.client.errors import NotDone
from creek.client.line import Line, dial
from creek.cluster import wire
from creek.errors import MalformedMessage, UsageError

PAUSE_S: Final = 0.05


class Finder:
    """`patience`: seconds for which they are looked for."""

    def __init__(
        self, addresses: Iterable[tuple[str, int]], secured: ssl.SSLContext | None, patience: float
    ) -> None:
        self.addresses = tuple(addresses)
        self._secured = secured
        self._patience = patience
        self._at = 0

    async def find(
        self, hello: wire.Hello, heard: Callable[[wire.ToClient], None]
    ) -> tuple[Line, wire.Welcome]:
        """The next one that answers. Raises `NotDone` if none does, and `UsageError` if one does
        and will not have us."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        why = "no address was given"
        while True:
            denied: UsageError | None = None
            for _ in self.addresses:
                address = self.addresses[self._at % len(self.addresses)]
                self._at += 1
                try:
                    return await dial(address, hello, heard, self._secured, self._patience)
                except UsageError as error:
                    denied = error
                except (OSError, TimeoutError, MalformedMessage) as error:
                    why = f"{address[0]}:{address[1]}: {_why(error)}"
            if denied is not None:
                raise denied
            if loop.time() >= until:
                raise NotDone("unreachable", f"no replica can be reached; the last was {why}")
            await asyncio.sleep(PAUSE_S)


def trusting(authority: str | None) -> ssl.SSLContext | None:
    """The certificates in a file; None: nothing is encrypted."""
    try:
        return None if authority is None else ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise UsageError(f"authority {authority}: {error.strerror or error}") from error


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return str(error) or type(error).__name__
