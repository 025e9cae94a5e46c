"""Notifications to systemd: readiness, stop and the watchdog, as in sd_notify(3).

systemd passes a socket in NOTIFY_SOCKET, and the watchdog's timeout in WATCHDOG_USEC. Without them,
nothing is sent.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_ALIVE: Final = "WATCHDOG=1"


class ServiceManager:
    """The service manager that started this process, if there is one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        is_watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        timeout_us = int(environment.get("WATCHDOG_USEC", 0)) if is_watched else 0
        self.watchdog_interval_s = timeout_us / 2e6
        """Half of the watchdog's timeout, in seconds, or 0 without a watchdog."""

    def notify(self, state: str) -> None:
        """Send a state. Errors are ignored: systemd then applies its timeouts."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.sendto(state.encode(), address)

    async def keep_watchdog_quiet(self) -> None:
        """Notify the watchdog as long as the event loop runs."""
        while self.watchdog_interval_s:
            self.notify(_ALIVE)
            await asyncio.sleep(self.watchdog_interval_s)
