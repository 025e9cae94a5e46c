"""How many connections a replica takes: the system lets a process have so many files, and a
connection is one of them.

One that has no more to open can neither begin a segment of its journal nor dial another replica: it
would be of use to nobody, for as long as others keep their connections. So some are left over: who
comes when few others are left is turned away at once.
"""

import asyncio
import resource
import socket
from contextlib import suppress
from typing import Final, cast

FILES_MAX: Final = 65_536
"""More are not asked of the system."""
LEFT_OVER: Final = 256
"""Files that connections may not take."""
LEFT_OVER_BY_PEERS: Final = 128
"""The same for connections of other replicas, without which there is nothing to do for clients."""


def allow_more_files() -> None:
    """As many as this process may have, not as many as it is given at first."""
    given, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if most == resource.RLIM_INFINITY else min(FILES_MAX, most)
    if given != resource.RLIM_INFINITY and given < wanted:
        with suppress(OSError, ValueError):  # then it does with what it has
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def is_crowded(left_over: int) -> bool:
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
    return lowest >= given - min(left_over, given * left_over // (2 * LEFT_OVER))


class TurnedAway(asyncio.Protocol):
    """A connection that is told so, and closed."""

    def __init__(self, word: bytes = b"") -> None:
        self._word = word

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        given = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        if self._word:
            given.write(self._word)
            given.close()
        else:
            given.abort()
