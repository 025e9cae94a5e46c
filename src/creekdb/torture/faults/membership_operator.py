"""Operator that changes the members of a cluster with `creek` commands.

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
from creekdb.torture.faults.links import LinkProxies
from creekdb.torture.processes import (
    CREEK,
    TIMEOUT_S,
    ReplicaLocation,
    ReplicaProcesses,
    is_quiescent,
)

SPARE_LOCATIONS = 4
"""Number of locations for new replicas."""
COMMAND_TIMEOUT_S = (0.3, 1.2)
"""Range of the timeout of an interrupted command, in seconds. Its start takes most of that time."""


class Operator:
    """Source of membership changes.

    Random draws happen at the time of the request. A request returns the task of the change, whose
    result is a line that describes it. `on_added` is called with each new replica.
    """

    def __init__(
        self,
        processes: ReplicaProcesses,
        links: LinkProxies,
        random: Random,
        on_added: Callable[[int], None],
    ) -> None:
        self._processes = processes
        self._links = links
        self._random = random
        self._on_added = on_added
        self.locations = [
            self._processes.location(f"new-{number}") for number in range(SPARE_LOCATIONS)
        ]
        """Locations of all replicas that may be added. Clients use them from the start."""
        self._free = list(self.locations)
        self._changes: list[asyncio.Task[str]] = []
        self.has_changed = False
        """True if a membership change was requested."""

    # --- requests -----------------------------------------------------------------------------

    @property
    def has_free_location(self) -> bool:
        """True if a further replica can be added."""
        return bool(self._free)

    def add(self) -> "asyncio.Task[str]":
        return self._start(
            self._add("add", self._free.pop(), self._draw_addresses(), self._draw_timeout())
        )

    def replace(self, replica: int) -> "asyncio.Task[str]":
        change = f"replace {replica}"
        return self._start(
            self._add(change, self._free.pop(), self._draw_addresses(), self._draw_timeout())
        )

    def join(self, at: int) -> "asyncio.Task[str]":
        address = self._processes.addresses(at)[1]
        return self._start(self._join(self._free.pop(), address, self._draw_timeout()))

    def remove(self, replica: int) -> "asyncio.Task[str]":
        return self._start(self._remove(replica, self._draw_addresses(excluding=replica)))

    def _start(self, change: Coroutine[Any, Any, str]) -> "asyncio.Task[str]":
        self.has_changed = True
        task = asyncio.create_task(change)
        self._changes.append(task)
        return task

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
    ) -> str:
        proxy, address = await self._links.open_proxy(location.peer_address)
        arguments = ["member", *change.split(), address, "--data", str(location.data_dir), *at]
        output_line = await self._command(*arguments, timeout_s=timeout_s)
        ticket = read_ticket(location.data_dir)
        if ticket is None:
            return f"{change}: {output_line}"
        link_addresses = await self._links.add(ticket.replica, proxy)
        members = tuple(
            (each, link_addresses.get(each, address)) for each, address in ticket.members
        )
        changed = msgspec.structs.replace(ticket, members=members, address=location.peer_address)
        write_ticket(changed, location.data_dir)
        self._processes.adopt(ticket.replica, location)
        self._on_added(ticket.replica)
        return f"{change}, as {ticket.replica}: {output_line}"

    async def _join(self, location: ReplicaLocation, at: str, timeout_s: float | None) -> str:
        """Start a replica with `--join`. Peers dial it directly, so its links cannot be cut."""
        process = self._processes.start_unnumbered(location, "--join", at)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while process.poll() is None and read_ticket(location.data_dir) is None:
                    await asyncio.sleep(0.02)
        ticket = read_ticket(location.data_dir)
        if ticket is None:
            process.kill()
            return f"join: exited with {process.wait()}"
        self._processes.adopt(ticket.replica, location, process)
        self._on_added(ticket.replica)
        return f"join, as {ticket.replica}"

    async def _remove(self, replica: int, at: list[str]) -> str:
        output_line = await self._command("member", "remove", str(replica), *at)
        return f"remove {replica}: {output_line}"

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

        All faults must be healed, all replicas that can run must have been started, and no client
        may call.
        """
        await asyncio.gather(*self._changes)
        self._changes.clear()
        async with asyncio.timeout(TIMEOUT_S):
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
