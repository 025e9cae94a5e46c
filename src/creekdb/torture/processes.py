"""Replicas as processes of this machine, which can be killed or frozen at any moment."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from creekdb.client import Database, NotDone, connect
from creekdb.errors import CreekError
from creekdb.load.local_cluster import free_port

TIMEOUT_S: Final = 60.0
"""Upper bound for a start, a stop or a status request, in seconds."""
CREEK: Final = ("-m", "creekdb")
REMOVED: Final = "was removed from its cluster"
OUTPUT_TAIL_CHARACTERS: Final = 2000


class UnexpectedExit(CreekError):
    """A replica exited without being stopped or removed."""


def is_quiescent(statuses: list[dict[str, Any]]) -> bool:
    """True if all replicas have committed the same length and have nothing left to do."""
    return len({each["committed"] for each in statuses}) == 1 and not any(
        each["tentative"] or each["backlog"] for each in statuses
    )


class ReplicaLocation(NamedTuple):
    """Addresses and data directory of a replica that runs or may run."""

    peer_address: str
    client_address: str
    data_dir: Path
    http_address: str | None = None

    @property
    def control_path(self) -> Path:
        """Path of the clock and disk control (`replica_control`)."""
        return self.data_dir.with_suffix(".control")

    @property
    def output_path(self) -> Path:
        return self.data_dir.with_suffix(".out")


class ReplicaProcesses:
    """Replicas that run `creek serve`, each with its output in a file.

    `link_address` maps sender and receiver to the address that the sender dials. By default this is
    the address at which the receiver listens. `programs` replaces `creek` and `configs` sets
    `--config`, both by replica. `trusted` is the authority that clients trust. `environment` holds
    variables for all replicas. With `has_http`, replicas serve HTTP. With `has_control`, their
    clocks and disks are subject to a control file (`replica_control`).
    """

    def __init__(
        self,
        directory: Path,
        replicas: int = 3,
        *options: str,
        members: list[str] | None = None,
        link_address: Callable[[int, int], str] | None = None,
        programs: Mapping[int, tuple[str, ...]] | None = None,
        configs: Mapping[int, Path] | None = None,
        trusted: Path | None = None,
        environment: Mapping[str, str] | None = None,
        has_http: bool = False,
        has_control: bool = False,
    ) -> None:
        self.directory = directory
        self._has_http = has_http
        self._has_control = has_control
        self._options = options
        self._locations: dict[int, ReplicaLocation] = {}
        """Locations of all replicas that ever existed, by number."""
        self._retired: set[int] = set()
        """Replicas that are not started again."""
        for replica in range(replicas):
            address = members[replica] if members else None
            self._locations[replica] = self.location(str(replica), address)
        self._initial = {each: location.peer_address for each, location in self._locations.items()}
        self._link_address = link_address or (lambda _, receiver: self._initial[receiver])
        self._programs = programs or {}
        self._configs = configs or {}
        self._authority = None if trusted is None else str(trusted)
        self._environment = {**os.environ, **(environment or {})}
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._unnumbered: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "ReplicaProcesses":
        self.start(*self.all)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(*self._running)
        for process in self._unnumbered:
            process.kill()
            process.wait()

    @property
    def all(self) -> tuple[int, ...]:
        """Replicas that run or may be started again."""
        return tuple(sorted(self._locations.keys() - self._retired))

    @property
    def running(self) -> tuple[int, ...]:
        return tuple(sorted(self._running))

    def start(self, *replicas: int) -> None:
        for replica in replicas:
            if replica not in self._initial:
                self.start_joined(replica)
                continue
            location = self._locations[replica]
            program = self._programs.get(replica) or self._program(location)
            command = [sys.executable, *program, "serve", "--replica", str(replica)]
            if replica in self._configs:
                command += ["--config", str(self._configs[replica])]
            for member, address in self._initial.items():
                dialled = address if member == replica else self._link_address(replica, member)
                command += ["--member", f"{member}={dialled}"]
            command += ["--data", str(location.data_dir), *self._service_options(location)]
            self._run(replica, command)

    def _program(self, location: ReplicaLocation) -> tuple[str, ...]:
        if not self._has_control:
            return CREEK
        return ("-m", "creekdb.torture.faults.replica_control", str(location.control_path))

    def _service_options(self, location: ReplicaLocation) -> list[str]:
        http = ["--http", location.http_address] if location.http_address else []
        return ["--clients", location.client_address, *http, *self._options]

    def _run(self, replica: int, command: list[str]) -> None:
        self._running[replica] = self._spawn(command, self._locations[replica])

    def _spawn(self, command: list[str], location: ReplicaLocation) -> subprocess.Popen[bytes]:
        with location.output_path.open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output, env=self._environment)

    def join(self, at: int) -> int:
        """Start a new replica that joins through the replica `at`, and return its number."""
        replica = self.allocate()
        self.start_joined(replica, "--join", self._locations[at].client_address)
        return replica

    def allocate(self) -> int:
        """Reserve the number and location of a new replica without starting it."""
        replica = max(self._locations) + 1
        self._locations[replica] = self.location(str(replica))
        return replica

    def location(self, name: str, peer_address: str | None = None) -> ReplicaLocation:
        """Reserve addresses for a replica."""
        peer_address = peer_address or f"127.0.0.1:{free_port()}"
        http_address = f"127.0.0.1:{free_port()}" if self._has_http else None
        client_address = f"127.0.0.1:{free_port()}"
        return ReplicaLocation(peer_address, client_address, self.directory / name, http_address)

    def start_unnumbered(self, location: ReplicaLocation, *options: str) -> subprocess.Popen[bytes]:
        """Start a replica that joins and receives its number later."""
        process = self._spawn(self._joined_command(location, *options), location)
        self._unnumbered.append(process)
        return process

    def adopt(
        self,
        replica: int,
        location: ReplicaLocation,
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        """Register a replica that was added, and start it unless it has a process."""
        self._locations[replica] = location
        if process is None:
            self.start_joined(replica)
        else:
            self._running[replica] = process

    def addresses(self, replica: int) -> tuple[str, str]:
        """Return the peer address and the client address."""
        location = self._locations[replica]
        return location.peer_address, location.client_address

    def start_joined(self, replica: int, *options: str) -> None:
        """Start a replica that finds its peers through the join ticket in its data directory."""
        self._run(replica, self._joined_command(self._locations[replica], *options))

    def _joined_command(self, location: ReplicaLocation, *options: str) -> list[str]:
        command = [sys.executable, *self._program(location), "serve", *options]
        command += ["--listen", location.peer_address, "--data", str(location.data_dir)]
        return [*command, *self._service_options(location)]

    def collect_removed(self, unable_to_log: Iterable[int] = ()) -> tuple[int, ...]:
        """Retire the replicas that exited since the last call because they were removed.

        The output of each must report the removal, except for those in `unable_to_log`. Raises
        `UnexpectedExit`.
        """
        exit_codes = {each: process.poll() for each, process in self._running.items()}
        removed = tuple(each for each, code in exit_codes.items() if code is not None)
        for each in removed:
            output = self.output(each)
            has_reported = REMOVED in output or each in unable_to_log
            if exit_codes[each] != 0 or not has_reported:
                raise UnexpectedExit(
                    f"replica {each} exited with {exit_codes[each]}: "
                    f"{output[-OUTPUT_TAIL_CHARACTERS:]}"
                )
            del self._running[each]
        self._retired.update(removed)
        return removed

    def destroy(self, replica: int) -> None:
        """Kill the replica for good, if it runs, and delete its data directory."""
        self.kill(*({replica} & self._running.keys()))
        self._retired.add(replica)
        shutil.rmtree(self.data_dir(replica))

    def kill(self, *replicas: int) -> None:
        """Send SIGKILL to all of them at once."""
        killed = [self._running.pop(each) for each in tuple(replicas)]
        for process in killed:
            process.send_signal(signal.SIGKILL)
        for process in killed:
            process.wait()

    def stop(self, replica: int) -> int:
        """Terminate the replica, and return its exit code.

        A SIGINT during the first imports would be raised as any exception, with any exit code.
        """
        process = self._running.pop(replica)
        process.send_signal(signal.SIGTERM)
        return process.wait(TIMEOUT_S)

    def freeze(self, *replicas: int) -> None:
        """Stop the processes with SIGSTOP. Their connections stay open."""
        for each in replicas:
            self._running[each].send_signal(signal.SIGSTOP)

    def thaw(self, *replicas: int) -> None:
        for each in replicas:
            self._running[each].send_signal(signal.SIGCONT)

    async def exit_code(self, replica: int) -> int:
        """Wait until the replica exits, and return its exit code."""
        process = self._running[replica]
        async with asyncio.timeout(TIMEOUT_S):
            while process.poll() is None:
                await asyncio.sleep(0.02)
        return self._running.pop(replica).returncode

    def location_of(self, replica: int) -> ReplicaLocation:
        return self._locations[replica]

    def process_id(self, replica: int) -> int:
        return self._running[replica].pid

    def data_dir(self, replica: int) -> Path:
        return self._locations[replica].data_dir

    def output(self, replica: int) -> str:
        """Return the output of all processes of the replica."""
        return self._locations[replica].output_path.read_text()

    async def until_all_joined(self) -> None:
        """Wait until all replicas have joined.

        A new replica waits for all others, and thus for a replica that is killed too early.
        """
        async with asyncio.timeout(TIMEOUT_S):
            while any(each["waits_for"] is not None for each in await self.statuses()):
                await asyncio.sleep(0.02)

    async def until_quiescent(self) -> None:
        """Wait until all replicas have committed the same length and nothing is tentative."""
        async with asyncio.timeout(TIMEOUT_S):
            while not is_quiescent(await self.statuses()):
                await asyncio.sleep(0.02)

    async def statuses(self, *replicas: int) -> list[dict[str, Any]]:
        """Return the statuses of these replicas, or of all, once they are reachable."""
        return list(await asyncio.gather(*map(self.status, replicas or self.all)))

    async def status(self, replica: int) -> dict[str, Any]:
        async with self.client(replica) as db:
            return await db.status()

    async def status_unless_exited(self, replica: int) -> dict[str, Any] | None:
        """Return the status, or None if the replica exits first."""
        process = self._running[replica]
        async with asyncio.timeout(TIMEOUT_S):
            while process.poll() is None:
                request = asyncio.ensure_future(self.status(replica))
                while not request.done() and process.poll() is None:
                    await asyncio.wait({request}, timeout=0.05)
                if not request.cancel():
                    with suppress(NotDone):  # a stopping replica closes its connections
                        return request.result()
        return None

    def client(
        self, *replicas: int, extra_locations: Iterable[ReplicaLocation] = (), **options: Any
    ) -> Database:
        """Return a client. `extra_locations` may have replicas in future."""
        addresses = [self._locations[each].client_address for each in replicas or self.all]
        addresses += [location.client_address for location in extra_locations]
        defaults = {"timeout": TIMEOUT_S, "patience": TIMEOUT_S, "authority": self._authority}
        return connect(addresses, **{**defaults, **options})
