"""Replicas as real processes, which can be killed, or frozen in the middle of whatever they do."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from creekdb.client import Database, NotDone, connect
from creekdb.load.local_cluster import free_port
from tests.cluster.house import PATIENCE_S, is_settled

CREEK = ("-m", "creekdb")
REMOVED = "was removed from its cluster"


class Place(NamedTuple):
    """Where a replica runs, or can."""

    listens: str
    """For other replicas."""
    clients: str
    data: Path

    @property
    def output(self) -> Path:
        return self.data.with_suffix(".out")


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
        self._places: dict[int, Place] = {}
        """Of all that there ever were, by number."""
        self._left: set[int] = set()
        """Those of them that do not come back."""
        for replica in range(replicas):
            listens = members[replica] if members else None
            self._places[replica] = self.place(str(replica), listens)
        self._first = {each: place.listens for each, place in self._places.items()}
        self._way = way or (lambda _, receiver: self._first[receiver])
        self._programs = programs or {}
        self._configs = configs or {}
        self._authority = None if trusted is None else str(trusted)
        self._environment = {**os.environ, **(environment or {})}
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._nameless: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Processes":
        self.start(*self.all)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(*self._running)
        for process in self._nameless:
            process.kill()
            process.wait()

    @property
    def all(self) -> tuple[int, ...]:
        """Those that run, or come back."""
        return tuple(sorted(self._places.keys() - self._left))

    @property
    def running(self) -> tuple[int, ...]:
        return tuple(sorted(self._running))

    def start(self, *replicas: int) -> None:
        for replica in replicas:
            if replica not in self._first:
                self.start_joined(replica)
                continue
            command = [sys.executable, *self._programs.get(replica, CREEK), "serve"]
            command += ["--replica", str(replica)]
            if replica in self._configs:
                command += ["--config", str(self._configs[replica])]
            for number, address in self._first.items():
                found = address if number == replica else self._way(replica, number)
                command += ["--member", f"{number}={found}"]
            command += ["--clients", self._places[replica].clients, *self._options]
            command += ["--data", str(self.data(replica))]
            self._run(replica, command)

    def _run(self, replica: int, command: list[str]) -> None:
        self._running[replica] = self._begun(command, self._places[replica])

    def _begun(self, command: list[str], place: Place) -> subprocess.Popen[bytes]:
        with place.output.open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output, env=self._environment)

    def join(self, at: int) -> int:
        """Start a new replica, which asks the one `at` to be added; answers its number."""
        replica = self.new()
        self.start_joined(replica, "--join", self._places[at].clients)
        return replica

    def new(self) -> int:
        """One more, that is not started; answers its number."""
        replica = max(self._places) + 1
        self._places[replica] = self.place(str(replica))
        return replica

    def place(self, name: str, listens: str | None = None) -> Place:
        """For one more, whose number is not known yet."""
        listens = listens or f"127.0.0.1:{free_port()}"
        return Place(listens, f"127.0.0.1:{free_port()}", self.folder / name)

    def start_nameless(self, place: Place, *options: str) -> subprocess.Popen[bytes]:
        """One that is to join, and whose number is not known yet."""
        process = self._begun(self._joined(place, *options), place)
        self._nameless.append(process)
        return process

    def take_in(
        self, replica: int, place: Place, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        """One that was added, and is started, unless it runs there already."""
        self._places[replica] = place
        if process is None:
            self.start_joined(replica)
        else:
            self._running[replica] = process

    def where(self, replica: int) -> tuple[str, str]:
        """Where other replicas find it, and where clients do."""
        return self._places[replica].listens, self._places[replica].clients

    def start_joined(self, replica: int, *options: str) -> None:
        """One that was added finds the others by what is in its folder."""
        self._run(replica, self._joined(self._places[replica], *options))

    def _joined(self, place: Place, *options: str) -> list[str]:
        command = [sys.executable, *CREEK, "serve", *options]
        command += ["--listen", place.listens, "--data", str(place.data)]
        return [*command, "--clients", place.clients, *self._options]

    def dismissed(self, mute: Iterable[int] = ()) -> tuple[int, ...]:
        """Those that have ended by themselves since they were last asked for: they were removed,
        and do not come back. `mute`: those that could not write that."""
        ended = {each: process.poll() for each, process in self._running.items()}
        gone = tuple(each for each, code in ended.items() if code is not None)
        for each in gone:
            said = self.said(each)
            assert ended[each] == 0, f"{each} ended with {ended[each]}: {said[-2000:]}"
            assert REMOVED in said or each in mute, f"{each} ended: {said[-2000:]}"
            del self._running[each]
        self._left.update(gone)
        return gone

    def lose(self, replica: int) -> None:
        """Kill it, with all that it has: it does not come back."""
        self.kill(replica)
        self._left.add(replica)
        shutil.rmtree(self.data(replica))

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
        return self._places[replica].data

    def said(self, replica: int) -> str:
        """What it has printed, in all its lives."""
        return self._places[replica].output.read_text()

    async def until_all_take_part(self) -> None:
        """One that begins waits for all others, and would wait for one that is killed before."""
        async with asyncio.timeout(PATIENCE_S):
            while any(each["waits_for"] is not None for each in await self.statuses()):
                await asyncio.sleep(0.02)

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

    async def status_if_it_stays(self, replica: int) -> dict[str, Any] | None:
        """None, if it ends instead."""
        process = self._running[replica]
        async with asyncio.timeout(PATIENCE_S):
            while process.poll() is None:
                asked = asyncio.ensure_future(self.status(replica))
                while not asked.done() and process.poll() is None:
                    await asyncio.wait({asked}, timeout=0.05)
                if not asked.cancel():
                    with suppress(NotDone):  # it hangs up when it is about to end
                        return asked.result()
        return None

    def client(self, *replicas: int, more_at: Iterable[Place] = (), **more: Any) -> Database:
        """`more_at`: where there may be others in time."""
        addresses = [self._places[each].clients for each in replicas or self.all]
        addresses += [place.clients for place in more_at]
        usual = {"timeout": PATIENCE_S, "patience": PATIENCE_S, "authority": self._authority}
        return connect(addresses, **{**usual, **more})
