"""Loss of data on a disk of a quiescent cluster, and the recovery that the operator performs.

Requests that only one replica has would be lost with its disk. A quiescent cluster has none.
"""

import asyncio
import shutil
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from creekdb.errors import CreekError
from creekdb.torture.faults.membership_operator import Operator
from creekdb.torture.processes import (
    OUTPUT_TAIL_CHARACTERS,
    TIMEOUT_S,
    ReplicaProcesses,
    UnexpectedExit,
)

PAUSE_S: Final = (0.1, 1.2)
"""Range of the time between a start and the next fault, in seconds."""
POLL_S: Final = 0.05
DATA_LOST: Final = "data lost"
"""Part of the output of a replica that detects the loss of its data."""


class UndetectedRollback(CreekError):
    """A replica does not detect that its data directory is an older copy."""


class DiskCopy(NamedTuple):
    """Copy of the data directory of a replica."""

    replica: int
    path: Path


class DataLoss:
    """Losses of data. `recordings` is the directory in which replicas record their events."""

    def __init__(
        self, processes: ReplicaProcesses, operator: Operator, copies: Path, recordings: Path
    ) -> None:
        self._processes = processes
        self._operator = operator
        self._copies = copies
        self._recordings = recordings

    async def lose_disk(self, random: Random) -> str | None:
        """Lose a disk. Return its replica, or None if no replica could recover from that."""
        if not self._can_recover:
            return None
        victim = random.choice(self._processes.all)
        self._processes.kill(victim)
        return await self._recover(random, victim)

    def copy_disk(self, random: Random) -> DiskCopy:
        """Copy a data directory for `roll_back_disk`, while its replica is down."""
        victim = random.choice(self._processes.all)
        path = self._copies / f"disk of {victim}"
        self._processes.kill(victim)
        shutil.copytree(self._processes.data_dir(victim), path)
        self._processes.start(victim)
        return DiskCopy(victim, path)

    async def roll_back_disk(self, copy: DiskCopy, random: Random) -> str | None:
        """Put the copy in place. The replica must detect that it lacks data, and exit.

        The recording of its last process is deleted, because that process acted on old data.
        Returns None if no replica could recover from that.
        """
        if not self._can_recover:
            return None
        victim, data = copy.replica, self._processes.data_dir(copy.replica)
        self._processes.kill(victim)
        shutil.rmtree(data)
        shutil.copytree(copy.path, data)
        recorded = set(self._recordings.iterdir())
        self._processes.start(victim)
        await self._require_detection(victim)
        for path in set(self._recordings.iterdir()) - recorded:
            path.unlink()
        return await self._recover(random, victim)

    async def _require_detection(self, victim: int) -> None:
        try:
            code = await self._processes.exit_code(victim)
        except TimeoutError:
            message = f"replica {victim} runs with an older copy of its data directory"
            raise UndetectedRollback(message) from None
        output = self._processes.output(victim)
        if code == 0 or DATA_LOST not in output:
            tail = output[-OUTPUT_TAIL_CHARACTERS:]
            raise UnexpectedExit(f"replica {victim} exited with {code}: {tail}")

    # --- recovery -------------------------------------------------------------------------------

    @property
    def _can_recover(self) -> bool:
        """True if a replica can recover from an empty disk, or can be replaced."""
        has_majority = len(self._processes.all) > 2 and self._operator.has_free_location
        return not self._operator.has_changed or has_majority

    async def _recover(self, random: Random, victim: int) -> str:
        """Recover a replica that does not run, without its data. Return a description."""
        if self._operator.has_changed:
            return await self._replace(victim)
        return await self._restart_without_disk(random, victim)

    async def _restart_without_disk(self, random: Random, victim: int) -> str:
        others = sorted({*self._processes.all} - {victim})
        down = random.sample(others, random.choice((0, 1)))
        self._processes.kill(*down)
        shutil.rmtree(self._processes.data_dir(victim))
        self._processes.start(victim)
        await asyncio.sleep(random.uniform(*PAUSE_S))
        if random.random() < 0.5:  # during recovery
            self._processes.kill(victim)
            self._processes.start(victim)
        self._processes.start(*down)
        return f"{victim}{f' while {down[0]} is down' if down else ''}"

    async def _replace(self, victim: int) -> str:
        """Replace a replica that cannot recover its disk, since the members were changed."""
        self._processes.destroy(victim)
        async with asyncio.timeout(TIMEOUT_S):
            while any(
                victim in each["connected"]
                for each in await self._processes.statuses(*self._processes.running)
            ):
                await asyncio.sleep(POLL_S)
        return await self._operator.replace(victim)
