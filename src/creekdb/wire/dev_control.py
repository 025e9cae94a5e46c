"""What `creek up` tells the replicas that it runs, on the pipe that ends when it does.

Only a replica that is started with `--with-parent` listens, and only to the process that started
it: nobody can cut a link of any other.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from creekdb.errors import MalformedMessage

STOP_S: Final = 5.0
"""What a replica has to stop in by itself: one that executes an endless operation never does."""


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of JSON. What it says holds until the next one."""

    control: str
    """Where `creek up` is asked to break things, and to mend them: the beginning of an address."""
    secret: str
    """What to say there. Only pages that replicas of this trial have served know it."""
    pages: dict[int, str]
    """Where every replica's page is."""
    cut: tuple[int, ...] = ()
    """Those to whom the one who is told has no connection."""


def line_of(trial: Trial) -> bytes:
    return msgspec.json.encode(trial) + b"\n"


def trial_of(line: bytes) -> Trial:
    try:
        return msgspec.json.decode(line, type=Trial)
    except (msgspec.DecodeError, ValueError) as error:
        raise MalformedMessage(f"not a line of 'creek up': {error}") from error


class Parent:
    """The process at the other end of a pipe: `hear` when there is something to be read."""

    def __init__(self, pipe: int, told: Callable[[Trial], None], ended: Callable[[], None]) -> None:
        self._pipe = pipe
        self._told = told
        self._ended = ended
        self._begun = b""

    def hear(self) -> None:
        data = os.read(self._pipe, 65_536)
        if not data:
            self._ended()
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._told(trial_of(line))


def end_with(pipe: int, patience_s: float = STOP_S) -> None:
    """However busy this process is, it is killed so long after the one at the other end is gone."""
    threading.Thread(target=_follow, args=(pipe, patience_s), name="parent", daemon=True).start()


def _follow(pipe: int, patience_s: float) -> None:
    ended = select.poll()
    ended.register(pipe, 0)  # nothing but its end
    ended.poll()
    time.sleep(patience_s)
    os.kill(os.getpid(), signal.SIGKILL)
