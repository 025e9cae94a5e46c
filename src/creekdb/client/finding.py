"""The replicas of a cluster, one after the other, until one is willing."""

import asyncio
import errno
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Final

from creekdb.client.errors import NotDone
from creekdb.client.line import Line, dial
from creekdb.errors import MalformedMessage, UsageError
from creekdb.wire import messages

PAUSE_S: Final = 0.05
SILENT_S: Final = 1.0
"""One that is there and says nothing is waited for so long at least, then the next one is tried."""

_NUMBERS: Final = re.compile(r"\[Errno (\d+)\]")


class Finder:
    """`patience`: seconds for which they are looked for."""

    def __init__(
        self, addresses: Iterable[tuple[str, int]], secured: ssl.SSLContext | None, patience: float
    ) -> None:
        self.addresses = tuple(addresses)
        self.texts = tuple(messages.address_text(*each) for each in self.addresses)
        self._secured = secured
        self._patience = patience
        self._at = 0
        self._why: dict[str, Exception] = {}
        """By address: why the one there would not do when it was last asked."""

    def so_far(self) -> str:
        """What has come of looking, for who waits."""
        not_yet = TimeoutError("not asked yet")
        return _each([(at, self._why.get(at, not_yet)) for at in self.texts])

    async def find(
        self,
        hello: messages.Hello,
        heard: Callable[[messages.ToClient], None],
        refused: float | None = None,
    ) -> tuple[Line, messages.Welcome]:
        """The next one that answers; one that takes no part yet, only if no other does. Raises
        `NotDone` if none does, and `UsageError` if one does and will not have us. `refused`: for
        how long they are looked for, if nobody is at any of the addresses for certain."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            errors: list[tuple[str, Exception]] = []
            found = await self._first_of_all(hello, heard, errors)
            if found is not None:
                return found
            _raise_mistake(errors)
            patience = self._patience
            if all(is_nobody_there(error) for _, error in errors):
                patience = min(patience, refused or patience)
            if loop.time() >= begun + patience:
                tried = f"no replica can be reached, tried for {patience:g} s"
                raise NotDone("unreachable", f"{tried}: {_each(errors)}")
            await asyncio.sleep(PAUSE_S)

    async def _first_of_all(
        self,
        hello: messages.Hello,
        heard: Callable[[messages.ToClient], None],
        errors: list[tuple[str, Exception]],
    ) -> tuple[Line, messages.Welcome] | None:
        """Each is asked once, and why it will not do is noted."""
        each_s = min(self._patience, max(SILENT_S, self._patience / len(self.addresses)))
        waiting: tuple[Line, messages.Welcome] | None = None
        try:
            for _ in self.addresses:
                address = self.addresses[self._at % len(self.addresses)]
                self._at += 1
                at = messages.address_text(*address)
                self._why.setdefault(at, TimeoutError("no answer yet"))
                try:
                    line, welcome = await dial(address, hello, heard, self._secured, each_s)
                except (UsageError, OSError, TimeoutError, MalformedMessage) as error:
                    errors.append((at, error))
                    self._why[at] = error
                    continue
                if not welcome.waits:
                    return line, welcome
                if waiting is None:
                    waiting = line, welcome
                else:
                    line.close()
            chosen, waiting = waiting, None
            return chosen
        finally:
            if waiting is not None:
                waiting[0].close()


def _each(errors: Iterable[tuple[str, Exception]]) -> str:
    """What happened at each address; those where it is the same stand together."""
    alike: dict[str, list[str]] = {}
    for at, error in errors:
        alike.setdefault(reason_of(error), []).append(at)
    return "; ".join(f"{', '.join(places)}: {why}" for why, places in alike.items())


def _raise_mistake(errors: list[tuple[str, Exception]]) -> None:
    """If one is there that will never have us; with what happened to the others."""
    mistakes = [error for _, error in errors if isinstance(error, UsageError)]
    if mistakes:
        others = [each for each in errors if not isinstance(each[1], UsageError)]
        told = [*map(str, mistakes), *([_each(others)] if others else [])]
        raise UsageError("; ".join(told)) from mistakes[0]


def trusting(authority: str | None) -> ssl.SSLContext | None:
    """The certificates in a file; None: nothing is encrypted."""
    try:
        return None if authority is None else ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise UsageError(f"authority {authority}: {error.strerror or error}") from error


def is_nobody_there(error: Exception) -> bool:
    """For certain: nobody listens, or there is no such name."""
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_NONAME
    return _numbers(error) == {errno.ECONNREFUSED}


def reason_of(error: Exception) -> str:
    """Why somebody cannot be reached, in words."""
    if isinstance(error, socket.gaierror):
        return error.strerror or "its name is not known"
    if numbers := _numbers(error):
        return ", ".join(map(os.strerror, sorted(numbers)))
    return str(error) or ("no answer" if isinstance(error, TimeoutError) else type(error).__name__)


def _numbers(error: Exception) -> set[int]:
    """Of one error, or of several in one, where a name stands for several addresses."""
    if not isinstance(error, OSError):
        return set()
    if error.errno is not None:
        return {error.errno} if error.errno > 0 else set()
    return set(map(int, _NUMBERS.findall(str(error))))
