"""Operator that changes the members of a scenario's cluster with `creek` commands.

Each change runs in the background and may be rejected or interrupted. The member list then shows
whether it took effect. `finish` restores consistency at the end. A member without a join ticket in
its data directory is removed, since no replica can run as that member. A replica that was removed
exits by itself once its peers have all requests that it responded to.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from creekdb.server.membership.join_ticket import read_ticket, write_ticket
from tests.cluster.fault_scenario import STEP_TIMEOUT_S, ScenarioCluster
from tests.cluster.in_process_cluster import is_quiescent
from tests.cluster.processes import CREEK, ReplicaLocation

SPARE_LOCATIONS = 4
"""Number of locations for new replicas."""
COMMAND_TIMEOUT_S = (0.3, 1.2)
"""Range of the timeout of an interrupted command, in seconds. Its start takes most of that time."""
LOAD_OPERATIONS = 30
"""Number of operations that clients call at a new replica."""


class Operator:
    """Source of membership changes.

    Random draws happen at the time of the request. `log` receives a line for each change.
    """

    def __init__(
        self, cluster: ScenarioCluster, random: Random, log: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._processes = cluster.processes
        self._random = random
        self._log = log
        self.locations = [
            self._processes.location(f"new-{number}") for number in range(SPARE_LOCATIONS)
        ]
        """Locations of all replicas that may be added. Clients use them from the start."""
        self._free = list(self.locations)
        self._changes: list[asyncio.Task[None]] = []
        self.has_changed = False
        """True if a membership change was requested."""

    # --- requests -----------------------------------------------------------------------------

    def add(self) -> None:
        if self._free:
            self._start(
                self._add("add", self._free.pop(), self._draw_addresses(), self._draw_timeout())
            )

    def replace(self, replica: int) -> None:
        if self._free:
            change = f"replace {replica}"
            self._start(
                self._add(change, self._free.pop(), self._draw_addresses(), self._draw_timeout())
            )

    def join(self) -> None:
        if self._free and (at := self._draw_addresses()):
            self._start(self._join(self._free.pop(), at, self._draw_timeout()))

    def remove(self, replica: int) -> None:
        self._start(self._remove(replica, self._draw_addresses(excluding=replica)))

    def _start(self, change: Coroutine[Any, Any, None]) -> None:
        self.has_changed = True
        self._changes.append(asyncio.create_task(change))

    def _draw_addresses(self, excluding: int | None = None) -> list[str]:
        """Return `--at` options for all running replicas in random order."""
        running = [each for each in self._processes.running if each != excluding]
        queried = self._random.sample(running, len(running))
        return [
            argument
            for each in queried
            for argument in ("--at", self._processes.addresses(each)[1])
        ]

    def _draw_timeout(self) -> float | None:
        return self._random.uniform(*COMMAND_TIMEOUT_S) if self._random.random() < 0.2 else None

    # --- execution ---------------------------------------------------------------------------

    async def _add(
        self, change: str, location: ReplicaLocation, at: list[str], timeout_s: float | None
    ) -> None:
        proxy, address = await self._cluster.links.open_proxy(location.peer_address)
        arguments = ["member", *change.split(), address, "--data", str(location.data_dir), *at]
        output_line = await self._command(*arguments, timeout_s=timeout_s)
        ticket = read_ticket(location.data_dir)
        if ticket is None:
            self._log(f"{change}: {output_line}")
            return
        link_addresses = await self._cluster.links.add(ticket.replica, proxy)
        members = tuple(
            (each, link_addresses.get(each, address)) for each, address in ticket.members
        )
        changed = msgspec.structs.replace(ticket, members=members, address=location.peer_address)
        write_ticket(changed, location.data_dir)
        self._log(f"{change}, as {ticket.replica}: {output_line}")
        self._processes.adopt(ticket.replica, location)
        await self._load(ticket.replica)

    async def _join(
        self, location: ReplicaLocation, at: list[str], timeout_s: float | None
    ) -> None:
        """Start a replica with `--join`. Peers dial it directly, so its links cannot be cut."""
        process = self._processes.start_unnumbered(location, "--join", at[1])
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while process.poll() is None and read_ticket(location.data_dir) is None:
                    await asyncio.sleep(0.02)
        ticket = read_ticket(location.data_dir)
        if ticket is None:
            process.kill()
            self._log(f"join: exited with {process.wait()}")
            return
        self._log(f"join, as {ticket.replica}")
        self._processes.adopt(ticket.replica, location, process)
        await self._load(ticket.replica)

    async def _load(self, replica: int) -> None:
        others = [each for each in self._processes.all if each != replica]
        at = [(replica, *others)] * 2
        await self._cluster.load(LOAD_OPERATIONS, at=at, extra_locations=self.locations)

    async def _remove(self, replica: int, at: list[str]) -> None:
        output_line = await self._command("member", "remove", str(replica), *at)
        self._log(f"remove {replica}: {output_line}")

    async def _command(self, *arguments: str, timeout_s: float | None = None) -> str:
        """Run a command, and return the last line of its output."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *CREEK, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ,
        )
        try:
            async with asyncio.timeout(timeout_s):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return "interrupted"
        return output.decode().strip().splitlines()[-1]

    # --- completion ---------------------------------------------------------------------------

    async def finish(self) -> None:
        """Wait until the members are the running replicas and no change is in progress.

        All faults must be healed, and all replicas that can run must have been started.
        """
        await asyncio.gather(*self._changes)
        self._changes.clear()
        await self._cluster.finish_loads()
        async with asyncio.timeout(STEP_TIMEOUT_S):
            while not await self._is_consistent():
                await asyncio.sleep(0.02)

    async def _is_consistent(self) -> bool:
        """True if the cluster is quiescent and its members are the running replicas."""
        self._processes.collect_removed()
        running = self._processes.running
        queried = await asyncio.gather(*map(self._processes.status_unless_exited, running))
        statuses = [each for each in queried if each is not None]
        latest = max(statuses, key=lambda each: each["epoch"])
        if absent := {*latest["members"]} - {*self._processes.all}:
            await self._remove(min(absent), self._draw_addresses())
        are_members = all({*each["members"]} == {*running} for each in statuses)
        return are_members and is_quiescent(statuses)
