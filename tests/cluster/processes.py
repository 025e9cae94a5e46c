"""Replicas as real processes, which can be killed, or frozen in the middle of whatever they do."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from creek.client import Database, connect
from creek.load.ports import free_port
from tests.cluster.house import PATIENCE_S, is_settled

CREEK = ("-m", "creek")


class Processes:
    """Replicas as `creek serve` runs them. Their output goes to a file each, for who looks on.

    `way`: where a replica finds another, if not where that one listens. `programs`: what is run
    instead of `creek`, by replica. `configs`: a file for `--config`, by replica. `trusted`: whose
    certificates clients trust. `environment`: what is set for all replicas.
    """

    def __init__(
        self,
        folder: Path,
        replicas: int = 3,
        *options: str,
        members: list[str] | None = None,
        way: Callable[[int, int], str] | None = None,
        programs: Mapping[int, tuple[str, ...]] | None = None,
        configs: Mapping[int, Path] | None = None,
        trusted: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._options = options
        self._members = members or [f"127.0.0.1:{free_port()}" for _ in range(replicas)]
        self._clients = [f"127.0.0.1:{free_port()}" for _ in range(replicas)]
        self._way = way or (lambda _, receiver: self._members[receiver])
        self._programs = programs or {}
        self._configs = configs or {}
        self._authority = None if trusted is None else str(trusted)
        self._environment = {**os.environ, **(environment or {})}
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Processes":
        self.start(*self.all)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(*self._running)

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(range(len(self._members)))

    @property
    def running(self) -> tuple[int, ...]:
        return tuple(sorted(self._running))

    def start(self, *replicas: int) -> None:
        for replica in replicas:
            command = [sys.executable, *self._programs.get(replica, CREEK), "serve"]
            command += ["--replica", str(replica)]
            if replica in self._configs:
                command += ["--config", str(self._configs[replica])]
            for number, address in enumerate(self._members):
                found = address if number == replica else self._way(replica, number)
                command += ["--member", f"{number}={found}"]
            command += ["--clients", self._clients[replica], *self._options]
            command += ["--data", str(self.data(replica))]
            self._run(replica, command)

    def _run(self, replica: int, command: list[str]) -> None:
        with self._output(replica).open("ab") as output:
            self._running[replica] = subprocess.Popen(
                command, stdout=output, stderr=output, env=self._environment
            )

    def join(self, at: int) -> int:
        """Start a new replica, which asks the one `at` to be added; answers its number."""
        replica = self.new()
        self.start_joined(replica, "--join", self._clients[at])
        return replica

    def new(self) -> int:
        """One more, that is not started; answers its number."""
        self._members.append(f"127.0.0.1:{free_port()}")
        self._clients.append(f"127.0.0.1:{free_port()}")
        return len(self._members) - 1

    def where(self, replica: int) -> tuple[str, str]:
        """Where other replicas find it, and where clients do."""
        return self._members[replica], self._clients[replica]

    def start_joined(self, replica: int, *options: str) -> None:
        """One that was added finds the others by what is in its folder."""
        command = [sys.executable, *CREEK, "serve", *options]
        command += ["--listen", self._members[replica], "--data", str(self.data(replica))]
        command += ["--clients", self._clients[replica], *self._options]
        self._run(replica, command)

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

    def freeze(self, *replicas: int) -> None:
        """They stay, with all their connections, and do nothing."""
        for each in replicas:
            self._running[each].send_signal(signal.SIGSTOP)

    def thaw(self, *replicas: int) -> None:
        for each in replicas:
            self._running[each].send_signal(signal.SIGCONT)

    async def exit_code(self, replica: int) -> int:
        """Of one that ends by itself."""
        process = self._running[replica]
        async with asyncio.timeout(PATIENCE_S):
            while process.poll() is None:
                await asyncio.sleep(0.02)
        return self._running.pop(replica).returncode

    def process_id(self, replica: int) -> int:
        return self._running[replica].pid

    def data(self, replica: int) -> Path:
        return self.folder / str(replica)

    def said(self, replica: int) -> str:
        """What it has printed, in all its lives."""
        return self._output(replica).read_text()

    def _output(self, replica: int) -> Path:
        return self.folder / f"{replica}.out"

    async def until_settled(self) -> None:
        """Until nothing is tentative anywhere, and everywhere is committed as much."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_settled(await self.statuses()):
                await asyncio.sleep(0.02)

    async def statuses(self, *replicas: int) -> list[dict[str, Any]]:
        """What these, or all, say of themselves, once they can be reached."""
        return list(await asyncio.gather(*map(self.status, replicas or self.all)))

    async def status(self, replica: int) -> dict[str, Any]:
        async with self.client(replica) as db:
            return await db.status()

    def client(self, *replicas: int, **more: Any) -> Database:
        addresses = [self._clients[each] for each in replicas or self.all]
        usual = {"timeout": PATIENCE_S, "patience": PATIENCE_S, "authority": self._authority}
        return connect(addresses, **{**usual, **more})
