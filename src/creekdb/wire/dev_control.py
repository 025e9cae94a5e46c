"""Control messages of `creek up` to the replicas that it runs, on a pipe to their standard input.

Only a replica started with `--with-parent` reads them, and only from the process that started it.
No other process can cut its links.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from creekdb.errors import DECODE_ERRORS, MalformedMessage

SECRET_HEADER: Final = "Creek-Trial"
"""HTTP header with the secret of a request to inject a fault."""
STOP_TIMEOUT_S: Final = 5.0
"""Time in which a replica must stop by itself. One with an endless operation never does."""


class DevControl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Control message: a line of JSON. It replaces the previous one."""

    control: str
    """Base URL where `creek up` accepts requests to inject and heal faults."""
    secret: str
    """Secret of those requests. Only pages served by these replicas contain it."""
    pages: dict[int, str]
    """URL of each replica's page."""
    cut: tuple[int, ...] = ()
    """Peers to which the receiving replica must have no connection."""


def encode_dev_control(control: DevControl) -> bytes:
    return msgspec.json.encode(control) + b"\n"


def decode_dev_control(line: bytes) -> DevControl:
    try:
        return msgspec.json.decode(line, type=DevControl)
    except DECODE_ERRORS as error:
        raise MalformedMessage(f"not a control message of 'creek up': {error}") from error


class ParentPipe:
    """Reader of the pipe to the parent process. Call `read` when the pipe is readable."""

    def __init__(
        self, pipe: int, on_control: Callable[[DevControl], None], on_exit: Callable[[], None]
    ) -> None:
        self._pipe = pipe
        self._on_control = on_control
        self._on_exit = on_exit
        self._partial_line = b""

    def read(self) -> None:
        data = os.read(self._pipe, 65_536)
        if not data:
            self._on_exit()
            return
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._on_control(decode_dev_control(line))


def kill_after_parent_exit(pipe: int) -> None:
    """Kill this process some time after the parent's exit, even if the event loop is blocked."""

    def wait_and_kill() -> None:
        poll = select.poll()
        poll.register(pipe, 0)  # only the end of the pipe
        poll.poll()
        time.sleep(STOP_TIMEOUT_S)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait_and_kill, name="parent", daemon=True).start()
