"""A cluster of real processes, which can be killed."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from creek.client import Database, connect
from tests.cluster.house import PATIENCE_S, free_port, is_settled


class Processes:
    """Replicas as `creek serve` runs them. Their output goes to a file each, for who looks on."""

    def __init__(self, folder: Path, replicas: int = 3, *options: str) -> None:
        self._folder = folder
        self._options = options
        self._members = [f"127.0.0.1:{free_port()}" for _ in range(replicas)]
        self._clients = [f"127.0.0.1:{free_port()}" for _ in range(replicas)]
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Processes":
        self.start(*range(len(self._members)))
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(*self._running)

    def start(self, *replicas: int) -> None:
        for replica in replicas:
            command = [sys.executable, "-m", "creek", "serve", "--replica", str(replica)]
            for number, address in enumerate(self._members):
                command += ["--member", f"{number}={address}"]
            command += ["--clients", self._clients[replica], *self._options]
            command += ["--data", str(self._folder / str(replica))]
            with (self._folder / f"{replica}.out").open("ab") as output:
                self._running[replica] = subprocess.Popen(
                    command, stdout=output, stderr=output, env=dict(os.environ)
                )

    def kill(self, *replicas: int) -> None:
        """Without a warning, all at once."""
        killed = [self._running.pop(each) for each in tuple(replicas)]
        for process in killed:
            process.send_signal(signal.SIGKILL)
        for process in killed:
            process.wait()

    def stop(self, replica: int) -> int:
        """As a person does it; answers the exit code."""
        process = self._running.pop(replica)
        process.send_signal(signal.SIGINT)
        return process.wait(PATIENCE_S)

    async def until_settled(self) -> None:
        """Until nothing is tentative anywhere, and everywhere is committed as much."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_settled(await self.statuses()):
                await asyncio.sleep(0.02)

    async def statuses(self) -> list[dict[str, Any]]:
        """What all say of themselves, once they can be reached."""
        return list(await asyncio.gather(*map(self._status, range(len(self._members)))))

    async def _status(self, replica: int) -> dict[str, Any]:
        async with self.client(replica) as db:
            return await db.status()

    def client(self, *replicas: int, **more: Any) -> Database:
        which = replicas or range(len(self._clients))
        addresses = [self._clients[each] for each in which]
        return connect(addresses, timeout=PATIENCE_S, patience=PATIENCE_S, **more)
