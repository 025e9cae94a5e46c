"""Stories that nobody has thought of: `python -m tests.cluster.chaos --minutes 5 --seed 1`.

One cluster after the other has things happen to it that are drawn from the seed and the number of
the story; each is mended in the end, and judged like any other story (`faults_story`). What a seed
draws is always the same; when it meets which message is not, since processes are real. In half of
the stories the members are changed, too (`faults_members`): there, what is drawn later depends on
who has come and gone by then.

Exits with 1 at the first story that ends badly. Its folder stays, with all that replicas wrote.
"""

import argparse
import asyncio
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TypeAlias

from creekdb.wire.addresses import parse_address
from tests.cluster import faults_clock, faults_disk
from tests.cluster.faults_members import Operator
from tests.cluster.faults_story import Cluster, tell

STEPS = (4, 12)
OPERATIONS = 80
"""Of clients, at each step."""
PAUSE_S = (0.05, 1.2)
"""Between two things that happen, from and to."""
STARTING_S = (0.3, 3.0)
"""What a replica takes to start, or less, or more."""
FILES = 160
CROWD = 400
"""Connections to a replica that may have so many files."""


Act: TypeAlias = Callable[[Cluster], Awaitable[None]]


class Chaos:
    """One story."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self.replicas = self._random.choice((3, 3, 5))
        self.checkpoint_every = self._random.choice((20, 150, 10_000))
        self.programs: dict[int, tuple[str, ...]] = {}
        if self._random.random() < 0.3:
            wrong = self._random.randrange(self.replicas)
            by_us = self._random.choice((-3_600, -10, 10, 3_600)) * 1_000_000
            self.programs[wrong] = (faults_clock.__file__, str(by_us))
        self.options: tuple[str, ...] = ()
        """The same for all replicas."""
        if self._random.random() < 0.5:
            self.options += ("--no-io-uring",)
        if self._random.random() < 0.3:
            self.options += ("--execution", "threads")
        self.changes = self._random.random() < 0.5
        """Are the members changed?"""
        self._operator: Operator | None = None
        self._frozen: set[int] = set()
        self._failing: set[int] = set()
        self.happened = [f"the clock of {each} is wrong" for each in self.programs]
        if self.options:
            self.happened.append(" ".join(self.options))

    def __str__(self) -> str:
        members = ", and others" if self.changes else ""
        return f"{self.replicas} replicas{members}"

    async def story(self, cluster: Cluster) -> None:
        random, everyone = self._random, range(self.replicas)
        self._operator = Operator(cluster, random, self._note)
        at = [random.sample(everyone, self.replicas) for _ in range(6)]
        steps = random.randint(*STEPS)
        load = await cluster.load(OPERATIONS * steps, at=at, more_at=self._operator.places)
        for step in range(1, steps + 1):
            await load.allow(OPERATIONS * step)
            await asyncio.sleep(random.uniform(*PAUSE_S))
            self._look_who_left(cluster)
            await random.choice(self._acts())(cluster)
        await self._mend_all(cluster)
        if random.random() < 0.3:
            await self._lose_disk(cluster)

    def _acts(self) -> list[Act]:
        always: list[Act] = [
            self._kill,
            self._kill_all,
            self._kill_all_again,
            self._kill_leader,
            self._start,
            self._freeze,
            self._thaw,
            self._divide,
            self._cut,
            self._mend,
            self._fail_disk,
            self._mend_disk,
            self._stop,
            self._fail_disk_of_late,
            self._crowd,
        ]
        changes: list[Act] = [
            self._add,
            self._join,
            self._remove,
            self._remove_unheard,
            self._replace,
        ]
        return [*always, *changes, *changes] if self.changes else always

    # --- what can happen ------------------------------------------------------------------------

    def _note(self, what: str) -> None:
        self.happened.append(what)

    def _one(self, cluster: Cluster) -> int | None:
        """One that runs, and is in order."""
        able = sorted(set(cluster.processes.running) - self._frozen - self._failing)
        return self._random.choice(able) if able else None

    async def _kill(self, cluster: Cluster) -> None:
        victim = self._one(cluster)
        if victim is not None:
            self._note(f"kill {victim}")
            cluster.processes.kill(victim)

    async def _kill_all(self, cluster: Cluster) -> None:
        self._note("kill all, start all")
        self._frozen.clear()
        self._failing.clear()
        cluster.processes.kill(*cluster.processes.running)
        cluster.processes.start(*cluster.processes.all)

    async def _kill_all_again(self, cluster: Cluster) -> None:
        """While they start, recover, or have just begun."""
        for _ in range(self._random.randint(2, 4)):
            await self._kill_all(cluster)
            await asyncio.sleep(self._random.uniform(*STARTING_S))

    async def _kill_leader(self, cluster: Cluster) -> None:
        """The one whom somebody takes for the leader."""
        asked = self._one(cluster)
        if asked is None:
            return
        said = await cluster.processes.status_if_it_stays(asked)
        leader = said and said["leader"]
        if leader in set(cluster.processes.running) - self._frozen:
            self._note(f"kill the leader, {leader}")
            self._failing.discard(leader)
            cluster.processes.kill(leader)

    async def _stop(self, cluster: Cluster) -> None:
        asked = self._one(cluster)
        if asked is not None:
            self._note(f"stop {asked}")
            code = await asyncio.to_thread(cluster.processes.stop, asked)
            # Interrupted before it could listen to that, it is just gone.
            said = cluster.processes.said(asked)
            is_just_gone = code in (-2, 130) or said.endswith("KeyboardInterrupt\n")
            assert code == 0 or is_just_gone, f"{asked} stopped with {code}: {said[-2000:]}"

    async def _start(self, cluster: Cluster) -> None:
        for each in sorted(set(cluster.processes.all) - set(cluster.processes.running)):
            torn = self._random.random() < 0.3 and faults_disk.tear(cluster.processes.data(each))
            self._note(f"start {each}{', with a torn journal' if torn else ''}")
            cluster.processes.start(each)

    async def _freeze(self, cluster: Cluster) -> None:
        victim = self._one(cluster)
        if victim is not None:
            self._note(f"freeze {victim}")
            self._frozen.add(victim)
            cluster.processes.freeze(victim)

    async def _thaw(self, cluster: Cluster) -> None:
        if self._frozen:
            self._note(f"thaw {sorted(self._frozen)}")
            cluster.processes.thaw(*self._frozen)
            self._frozen.clear()

    async def _divide(self, cluster: Cluster) -> None:
        everyone = cluster.processes.all
        some = self._random.sample(everyone, min(self._random.randint(1, 2), len(everyone)))
        silently = self._random.random() < 0.5
        self._note(f"divide {some} from the rest{', silently' if silently else ''}")
        cluster.links.divide(some, silently)

    async def _cut(self, cluster: Cluster) -> None:
        if len(cluster.processes.all) < 2:
            return
        sender, receiver = self._random.sample(cluster.processes.all, 2)
        silently = self._random.random() < 0.5
        self._note(f"cut {sender} to {receiver}{', silently' if silently else ''}")
        cluster.links.cut(sender, receiver, silently)

    async def _mend(self, cluster: Cluster) -> None:
        self._note("mend all links")
        cluster.links.mend()

    async def _fail_disk(self, cluster: Cluster) -> None:
        victim = self._one(cluster)
        if victim is not None:
            await self._refuse_writes(cluster, victim)

    async def _refuse_writes(self, cluster: Cluster, victim: int) -> None:
        # One that still starts would give up.
        if await cluster.processes.status_if_it_stays(victim) is None:
            return
        self._note(f"the disk of {victim} fails")
        self._failing.add(victim)
        faults_disk.refuse_writes(cluster.processes.process_id(victim))

    async def _fail_disk_of_late(self, cluster: Cluster) -> None:
        """Of one that has just come back, and has to catch up."""
        victim = self._one(cluster)
        if victim is not None:
            cluster.processes.kill(victim)
            await asyncio.sleep(self._random.uniform(*PAUSE_S))
            cluster.processes.start(victim)
            await self._refuse_writes(cluster, victim)

    async def _crowd(self, cluster: Cluster) -> None:
        """More connections than one can have, which are dropped in a while."""
        victim = self._one(cluster)
        if victim is not None:
            self._note(f"a crowd comes to {victim}")
            process = cluster.processes.process_id(victim)
            _, most = resource.prlimit(process, resource.RLIMIT_NOFILE)
            resource.prlimit(process, resource.RLIMIT_NOFILE, (FILES, most))
            host, port = parse_address(cluster.processes.where(victim)[1])
            crowd = [asyncio.open_connection(host, port) for _ in range(CROWD)]
            for each in await asyncio.gather(*crowd, return_exceptions=True):
                if not isinstance(each, BaseException):
                    delay = self._random.uniform(*PAUSE_S)
                    asyncio.get_running_loop().call_later(delay, each[1].transport.abort)

    async def _mend_disk(self, cluster: Cluster) -> None:
        if self._failing:
            self._note(f"the disks of {sorted(self._failing)} work again")
        for each in self._failing:
            faults_disk.allow_writes(cluster.processes.process_id(each))
        self._failing.clear()

    # --- members that change --------------------------------------------------------------------

    def _look_who_left(self, cluster: Cluster) -> None:
        gone = cluster.processes.dismissed(mute=self._failing)
        if gone:
            self._note(f"{', '.join(map(str, gone))} left")
            self._failing.difference_update(gone)

    async def _add(self, cluster: Cluster) -> None:
        self.operator.add()

    async def _join(self, cluster: Cluster) -> None:
        self.operator.join()

    async def _remove(self, cluster: Cluster) -> None:
        self.operator.remove(self._random.choice(cluster.processes.all))

    async def _remove_unheard(self, cluster: Cluster) -> None:
        """One that does not hear of it, and goes on answering."""
        victim = self._one(cluster)
        if victim is not None:
            self._note(f"divide {victim} from the rest")
            cluster.links.divide([victim], silently=self._random.random() < 0.5)
            self.operator.remove(victim)

    async def _replace(self, cluster: Cluster) -> None:
        self.operator.replace(self._random.choice(cluster.processes.all))

    @property
    def operator(self) -> Operator:
        assert self._operator is not None
        return self._operator

    # --- in the end -----------------------------------------------------------------------------

    async def _mend_all(self, cluster: Cluster) -> None:
        self._look_who_left(cluster)
        await self._thaw(cluster)
        await self._mend(cluster)
        await self._mend_disk(cluster)
        await self._start(cluster)
        await self.operator.finish()
        await cluster.up()

    async def _lose_disk(self, cluster: Cluster) -> None:
        """What only this replica has is lost: so it happens when there is nothing."""
        await cluster.rest(may_fail=True)
        loser = self._random.choice(cluster.processes.all)
        others = sorted({*cluster.processes.all} - {loser})
        if not self.operator.has_begun:
            await self._come_back_with_nothing(cluster, loser, others)
        elif len(others) > 1:
            await self._be_replaced(cluster, loser, others)
        await cluster.load(100, at=[others, others[::-1]])

    async def _come_back_with_nothing(
        self, cluster: Cluster, loser: int, others: list[int]
    ) -> None:
        away = self._random.sample(others, self._random.choice((0, 1)))
        self._note(f"the disk of {loser} is lost{f', while {away[0]} is away' if away else ''}")
        cluster.processes.kill(loser, *away)
        shutil.rmtree(cluster.processes.data(loser))
        cluster.processes.start(loser)
        await asyncio.sleep(self._random.uniform(*PAUSE_S))
        if self._random.random() < 0.5:  # in the middle of it
            self._note(f"kill {loser}")
            cluster.processes.kill(loser)
            cluster.processes.start(loser)
        cluster.processes.start(*away)

    async def _be_replaced(self, cluster: Cluster, loser: int, others: list[int]) -> None:
        """Where the members were changed, it does not come back."""
        self._note(f"the disk of {loser} is lost, for good")
        cluster.processes.lose(loser)
        await cluster.until(lambda said: all(loser not in each["connected"] for each in said))
        self.operator.replace(loser)
        await self.operator.finish()
        await cluster.up()


def tell_one(seed: str, folder: Path) -> bool:
    chaos = Chaos(seed)
    began = time.monotonic()
    try:
        tell(
            folder,
            chaos.story,
            *chaos.options,
            replicas=chaos.replicas,
            programs=chaos.programs,
            checkpoint_every=chaos.checkpoint_every,
            may_fail=True,
        )
    except Exception:  # noqa: BLE001 - whatever it is, it is told
        print(f"story {seed} in {folder}: {chaos}")
        print(*chaos.happened, sep="\n")
        traceback.print_exc()
        return False
    took = time.monotonic() - began
    print(f"story {seed}: {took:5.1f} s, {chaos}: {'; '.join(chaos.happened)}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first story")
    parser.add_argument("--out", type=Path, help="where the folders are made")
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="creek-chaos-"))
    print(f"seed {given.seed}, in {out}", flush=True)
    until = time.monotonic() + 60 * given.minutes
    number = given.first
    while time.monotonic() < until:
        folder = out / str(number)
        folder.mkdir(parents=True)
        if not tell_one(f"{given.seed} {number}", folder):
            print(f"again: python -m tests.cluster.chaos --seed {given.seed} --first {number}")
            return 1
        shutil.rmtree(folder)
        sys.stdout.flush()
        number += 1
    print(f"{number - given.first} stories, all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
