"""Who changes the members of a story's cluster, by command, while other things happen to it.

A change goes on by itself once it is asked for, and may be refused, or cut short: whether it was
made is then seen from the members. In the end all is put in order (`finish`). A number that was
given and whose folder has no ticket is removed, since nobody can be that replica; and who was
removed, and runs or comes back, ends by itself once others have what it answered.
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
from tests.cluster.faults_story import BOUND_S, Cluster
from tests.cluster.house import is_settled
from tests.cluster.processes import CREEK, Place

COMING = 4
"""Places for replicas that are added."""
SHORT_S = (0.3, 1.2)
"""After which a command is killed, if it is; to start takes most of it."""
LOAD = 30
"""Operations of clients that go to a new replica."""


class Operator:
    """What is drawn is drawn when it is asked for; `note` is told what happens."""

    def __init__(self, cluster: Cluster, random: Random, note: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._processes = cluster.processes
        self._random = random
        self._note = note
        self.places = [self._processes.place(f"new-{number}") for number in range(COMING)]
        """All of them: clients know them from the beginning."""
        self._free = list(self.places)
        self._under_way: list[asyncio.Task[None]] = []
        self.has_begun = False
        """Have the members been changed, perhaps?"""

    # --- what is asked for --------------------------------------------------------------------

    def add(self) -> None:
        if self._free:
            self._begin(self._add("add", self._free.pop(), self._at(), self._cut_short()))

    def replace(self, replica: int) -> None:
        if self._free:
            what = f"replace {replica}"
            self._begin(self._add(what, self._free.pop(), self._at(), self._cut_short()))

    def join(self) -> None:
        if self._free and (at := self._at()):
            self._begin(self._join(self._free.pop(), at, self._cut_short()))

    def remove(self, replica: int) -> None:
        self._begin(self._remove(replica, self._at(but=replica)))

    def _begin(self, change: Coroutine[Any, Any, None]) -> None:
        self.has_begun = True
        self._under_way.append(asyncio.create_task(change))

    def _at(self, but: int | None = None) -> list[str]:
        """Where to ask: at all that run, in some order."""
        running = [each for each in self._processes.running if each != but]
        asked = self._random.sample(running, len(running))
        return [word for each in asked for word in ("--at", self._processes.where(each)[1])]

    def _cut_short(self) -> float | None:
        return self._random.uniform(*SHORT_S) if self._random.random() < 0.2 else None

    # --- what is done -------------------------------------------------------------------------

    async def _add(self, what: str, place: Place, at: list[str], cut_short: float | None) -> None:
        door, address = await self._cluster.links.open_door(place.listens)
        words = ["member", *what.split(), address, "--data", str(place.data), *at]
        told = await self._command(*words, cut_short=cut_short)
        ticket = read_ticket(place.data)
        if ticket is None:
            self._note(f"{what}: {told}")
            return
        ways = await self._cluster.links.add(ticket.replica, door)
        members = tuple((each, ways.get(each, found)) for each, found in ticket.members)
        changed = msgspec.structs.replace(ticket, members=members, address=place.listens)
        write_ticket(changed, place.data)
        self._note(f"{what}, as {ticket.replica}: {told}")
        self._processes.take_in(ticket.replica, place)
        await self._load(ticket.replica)

    async def _join(self, place: Place, at: list[str], cut_short: float | None) -> None:
        """It is found by all without a detour: no links of it can be cut."""
        process = self._processes.start_nameless(place, "--join", at[1])
        with suppress(TimeoutError):
            async with asyncio.timeout(cut_short):
                while process.poll() is None and read_ticket(place.data) is None:
                    await asyncio.sleep(0.02)
        ticket = read_ticket(place.data)
        if ticket is None:
            process.kill()
            self._note(f"join: ended with {process.wait()}")
            return
        self._note(f"join, as {ticket.replica}")
        self._processes.take_in(ticket.replica, place, process)
        await self._load(ticket.replica)

    async def _load(self, replica: int) -> None:
        others = [each for each in self._processes.all if each != replica]
        at = [(replica, *others)] * 2
        await self._cluster.load(LOAD, at=at, more_at=self.places)

    async def _remove(self, replica: int, at: list[str]) -> None:
        told = await self._command("member", "remove", str(replica), *at)
        self._note(f"remove {replica}: {told}")

    async def _command(self, *words: str, cut_short: float | None = None) -> str:
        """What it said in the end."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *CREEK, *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ,
        )
        try:
            async with asyncio.timeout(cut_short):
                said, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return "cut short"
        return said.decode().strip().splitlines()[-1]

    # --- in the end ---------------------------------------------------------------------------

    async def finish(self) -> None:
        """Everything is mended, and all that can run do. Until the members are those that run, and
        nothing is under way that could change them."""
        await asyncio.gather(*self._under_way)
        self._under_way.clear()
        await self._cluster.loads_end()
        async with asyncio.timeout(BOUND_S):
            while not await self._is_in_order():
                await asyncio.sleep(0.02)

    async def _is_in_order(self) -> bool:
        self._processes.dismissed()
        running = self._processes.running
        asked = await asyncio.gather(*map(self._processes.status_if_it_stays, running))
        said = [each for each in asked if each is not None]
        latest = max(said, key=lambda each: each["epoch"])
        if nobody := {*latest["members"]} - {*self._processes.all}:
            await self._remove(min(nobody), self._at())
        are_members = all({*each["members"]} == {*running} for each in said)
        return are_members and is_settled(said)
