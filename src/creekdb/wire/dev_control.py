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

STOP_TIMEOUT_S: Final = 5.0
"""What a replica has to stop in by itself: one that executes an endless operation never does."""


class DevControl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of JSON. What it says holds until the next one."""

    control: str
    """Where `creek up` is asked to break things, and to mend them: the beginning of an address."""
    secret: str
    """What to say there. Only pages that replicas of this trial have served know it."""
    pages: dict[int, str]
    """Where every replica's page is."""
    cut: tuple[int, ...] = ()
    """Those to whom the one who is told has no connection."""


def encode_dev_control(trial: DevControl) -> bytes:
    return msgspec.json.encode(trial) + b"\n"


def decode_dev_control(line: bytes) -> DevControl:
    try:
        return msgspec.json.decode(line, type=DevControl)
    except (msgspec.DecodeError, ValueError) as error:
        raise MalformedMessage(f"not a line of 'creek up': {error}") from error


class ParentPipe:
    """The process at the other end of a pipe: `hear` when there is something to be read."""

    def __init__(
        self, pipe: int, told: Callable[[DevControl], None], ended: Callable[[], None]
    ) -> None:
        self._pipe = pipe
        self._on_control = told
        self._on_exit = ended
        self._partial_line = b""

    def read(self) -> None:
        data = os.read(self._pipe, 65_536)
        if not data:
            self._on_exit()
            return
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._on_control(decode_dev_control(line))


def kill_after_parent_exit(pipe: int, patience_s: float = STOP_TIMEOUT_S) -> None:
    """However busy this process is, it is killed so long after the one at the other end is gone."""
    threading.Thread(
        target=_wait_and_kill, args=(pipe, patience_s), name="parent", daemon=True
    ).start()


def _wait_and_kill(pipe: int, patience_s: float) -> None:
    ended = select.poll()
    ended.register(pipe, 0)  # nothing but its end
    ended.poll()
    time.sleep(patience_s)
    os.kill(os.getpid(), signal.SIGKILL)
