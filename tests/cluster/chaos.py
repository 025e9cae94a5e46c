"""Random faults on real processes. Usage: `python -m tests.cluster.chaos --minutes 5 --seed 1`.

Each run starts a new cluster and injects faults that are drawn from the seed and the number of the
run. All faults are healed at the end, and the run is verified like any `fault_scenario`. A seed
always draws the same faults, but their timing relative to messages varies, since processes are
real. Half of the runs also change the members (`membership_operator`). Later draws of such a run
depend on the members at that time.

Exits with 1 at the first run that fails, and keeps its directory with the output of the replicas.
"""

import argparse
import asyncio
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TypeAlias

from creekdb.wire.addresses import parse_address
from tests.cluster import disk_faults, skewed_clock
from tests.cluster.fault_scenario import ScenarioCluster, fault_scenario
from tests.cluster.membership_operator import Operator

STEPS = (4, 12)
OPERATIONS_PER_STEP = 80
"""Client operations per step."""
STEP_PAUSE_S = (0.05, 1.2)
"""Range of the pause between two faults, in seconds."""
STARTUP_S = (0.3, 3.0)
"""Range of the pause after a start, in seconds. A start may take less or more than that."""
OPEN_FILES_MAX = 160
"""Limit of open files for a replica whose connections are exhausted."""
CONNECTIONS = 400
"""Connections that exhaust that limit."""


Fault: TypeAlias = Callable[[ScenarioCluster], Awaitable[None]]


class Chaos:
    """Cluster parameters and faults of one run."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self.replicas = self._random.choice((3, 3, 5))
        self.checkpoint_every = self._random.choice((20, 150, 10_000))
        self.programs: dict[int, tuple[str, ...]] = {}
        if self._random.random() < 0.3:
            skewed = self._random.randrange(self.replicas)
            skew_us = self._random.choice((-3_600, -10, 10, 3_600)) * 1_000_000
            self.programs[skewed] = (skewed_clock.__file__, str(skew_us))
        self.options: tuple[str, ...] = ()
        """Options for all replicas."""
        if self._random.random() < 0.5:
            self.options += ("--no-io-uring",)
        if self._random.random() < 0.3:
            self.options += ("--execution", "threads")
        self.changes_members = self._random.random() < 0.5
        """True if the run changes the members."""
        self._operator: Operator | None = None
        self._frozen: set[int] = set()
        self._failing: set[int] = set()
        self.events = [f"skew the clock of {each}" for each in self.programs]
        if self.options:
            self.events.append(" ".join(self.options))

    def __str__(self) -> str:
        members = " with membership changes" if self.changes_members else ""
        return f"{self.replicas} replicas{members}"

    async def run(self, cluster: ScenarioCluster) -> None:
        random, replicas = self._random, range(self.replicas)
        self._operator = Operator(cluster, random, self._log)
        at = [random.sample(replicas, self.replicas) for _ in range(6)]
        steps = random.randint(*STEPS)
        load = await cluster.load(
            OPERATIONS_PER_STEP * steps, at=at, extra_locations=self._operator.locations
        )
        for step in range(1, steps + 1):
            await load.permit(OPERATIONS_PER_STEP * step)
            await asyncio.sleep(random.uniform(*STEP_PAUSE_S))
            self._collect_removed(cluster)
            await random.choice(self._faults())(cluster)
        await self._heal_all(cluster)
        if random.random() < 0.3:
            await self._lose_disk(cluster)

    def _faults(self) -> list[Fault]:
        always: list[Fault] = [
            self._kill,
            self._kill_all,
            self._kill_all_repeatedly,
            self._kill_leader,
            self._start,
            self._freeze,
            self._thaw,
            self._partition,
            self._cut,
            self._heal_links,
            self._fail_disk,
            self._repair_disks,
            self._stop,
            self._fail_disk_during_catch_up,
            self._exhaust_connections,
        ]
        membership_changes: list[Fault] = [
            self._add,
            self._join,
            self._remove,
            self._remove_partitioned,
            self._replace,
        ]
        return (
            [*always, *membership_changes, *membership_changes] if self.changes_members else always
        )

    # --- faults ---------------------------------------------------------------------------------

    def _log(self, event: str) -> None:
        self.events.append(event)

    def _healthy_replica(self, cluster: ScenarioCluster) -> int | None:
        """Draw a running replica that is not frozen and whose disk works, or None."""
        candidates = sorted(set(cluster.processes.running) - self._frozen - self._failing)
        return self._random.choice(candidates) if candidates else None

    async def _kill(self, cluster: ScenarioCluster) -> None:
        victim = self._healthy_replica(cluster)
        if victim is not None:
            self._log(f"kill {victim}")
            cluster.processes.kill(victim)

    async def _kill_all(self, cluster: ScenarioCluster) -> None:
        self._log("kill all, start all")
        self._frozen.clear()
        self._failing.clear()
        cluster.processes.kill(*cluster.processes.running)
        cluster.processes.start(*cluster.processes.all)

    async def _kill_all_repeatedly(self, cluster: ScenarioCluster) -> None:
        """Kill all replicas again while they start or recover, or soon afterwards."""
        for _ in range(self._random.randint(2, 4)):
            await self._kill_all(cluster)
            await asyncio.sleep(self._random.uniform(*STARTUP_S))

    async def _kill_leader(self, cluster: ScenarioCluster) -> None:
        """Kill the leader according to a random replica."""
        queried = self._healthy_replica(cluster)
        if queried is None:
            return
        status = await cluster.processes.status_unless_exited(queried)
        leader = status and status["leader"]
        if leader in set(cluster.processes.running) - self._frozen:
            self._log(f"kill the leader, {leader}")
            self._failing.discard(leader)
            cluster.processes.kill(leader)

    async def _stop(self, cluster: ScenarioCluster) -> None:
        victim = self._healthy_replica(cluster)
        if victim is not None:
            self._log(f"stop {victim}")
            code = await asyncio.to_thread(cluster.processes.stop, victim)
            # The signal ends a process that has not installed its signal handler yet.
            output = cluster.processes.output(victim)
            was_interrupted = code in (-2, 130) or output.endswith("KeyboardInterrupt\n")
            assert code == 0 or was_interrupted, f"{victim} exited with {code}: {output[-2000:]}"

    async def _start(self, cluster: ScenarioCluster) -> None:
        for each in sorted(set(cluster.processes.all) - set(cluster.processes.running)):
            torn = self._random.random() < 0.3 and disk_faults.tear(
                cluster.processes.data_dir(each)
            )
            self._log(f"start {each}{', with a torn journal' if torn else ''}")
            cluster.processes.start(each)

    async def _freeze(self, cluster: ScenarioCluster) -> None:
        victim = self._healthy_replica(cluster)
        if victim is not None:
            self._log(f"freeze {victim}")
            self._frozen.add(victim)
            cluster.processes.freeze(victim)

    async def _thaw(self, cluster: ScenarioCluster) -> None:
        if self._frozen:
            self._log(f"thaw {sorted(self._frozen)}")
            cluster.processes.thaw(*self._frozen)
            self._frozen.clear()

    async def _partition(self, cluster: ScenarioCluster) -> None:
        replicas = cluster.processes.all
        side = self._random.sample(replicas, min(self._random.randint(1, 2), len(replicas)))
        silently = self._random.random() < 0.5
        self._log(f"partition {side} from the others{', silently' if silently else ''}")
        cluster.links.partition(side, silently)

    async def _cut(self, cluster: ScenarioCluster) -> None:
        if len(cluster.processes.all) < 2:
            return
        sender, receiver = self._random.sample(cluster.processes.all, 2)
        silently = self._random.random() < 0.5
        self._log(f"cut {sender} to {receiver}{', silently' if silently else ''}")
        cluster.links.cut(sender, receiver, silently)

    async def _heal_links(self, cluster: ScenarioCluster) -> None:
        self._log("heal all links")
        cluster.links.heal()

    async def _fail_disk(self, cluster: ScenarioCluster) -> None:
        victim = self._healthy_replica(cluster)
        if victim is not None:
            await self._fail_writes(cluster, victim)

    async def _fail_writes(self, cluster: ScenarioCluster, victim: int) -> None:
        # A replica that is still starting would exit.
        if await cluster.processes.status_unless_exited(victim) is None:
            return
        self._log(f"the disk of {victim} fails")
        self._failing.add(victim)
        disk_faults.fail_writes(cluster.processes.process_id(victim))

    async def _fail_disk_during_catch_up(self, cluster: ScenarioCluster) -> None:
        """Fail the disk of a replica that has just restarted and has to catch up."""
        victim = self._healthy_replica(cluster)
        if victim is not None:
            cluster.processes.kill(victim)
            await asyncio.sleep(self._random.uniform(*STEP_PAUSE_S))
            cluster.processes.start(victim)
            await self._fail_writes(cluster, victim)

    async def _exhaust_connections(self, cluster: ScenarioCluster) -> None:
        """Open more connections than the replica can accept, and drop them after a pause."""
        victim = self._healthy_replica(cluster)
        if victim is not None:
            self._log(f"exhaust the connections of {victim}")
            process = cluster.processes.process_id(victim)
            _, hard_limit = resource.prlimit(process, resource.RLIMIT_NOFILE)
            resource.prlimit(process, resource.RLIMIT_NOFILE, (OPEN_FILES_MAX, hard_limit))
            host, port = parse_address(cluster.processes.addresses(victim)[1])
            connections = [asyncio.open_connection(host, port) for _ in range(CONNECTIONS)]
            for each in await asyncio.gather(*connections, return_exceptions=True):
                if not isinstance(each, BaseException):
                    delay = self._random.uniform(*STEP_PAUSE_S)
                    asyncio.get_running_loop().call_later(delay, each[1].transport.abort)

    async def _repair_disks(self, cluster: ScenarioCluster) -> None:
        if self._failing:
            self._log(f"the disks of {sorted(self._failing)} work again")
        for each in self._failing:
            disk_faults.allow_writes(cluster.processes.process_id(each))
        self._failing.clear()

    # --- membership changes ---------------------------------------------------------------------

    def _collect_removed(self, cluster: ScenarioCluster) -> None:
        removed = cluster.processes.collect_removed(unable_to_log=self._failing)
        if removed:
            self._log(f"{', '.join(map(str, removed))} exited after removal")
            self._failing.difference_update(removed)

    async def _add(self, cluster: ScenarioCluster) -> None:
        self.operator.add()

    async def _join(self, cluster: ScenarioCluster) -> None:
        self.operator.join()

    async def _remove(self, cluster: ScenarioCluster) -> None:
        self.operator.remove(self._random.choice(cluster.processes.all))

    async def _remove_partitioned(self, cluster: ScenarioCluster) -> None:
        """Remove a replica that is partitioned and thus continues to respond."""
        victim = self._healthy_replica(cluster)
        if victim is not None:
            self._log(f"partition {victim} from the others")
            cluster.links.partition([victim], silently=self._random.random() < 0.5)
            self.operator.remove(victim)

    async def _replace(self, cluster: ScenarioCluster) -> None:
        self.operator.replace(self._random.choice(cluster.processes.all))

    @property
    def operator(self) -> Operator:
        assert self._operator is not None
        return self._operator

    # --- completion -----------------------------------------------------------------------------

    async def _heal_all(self, cluster: ScenarioCluster) -> None:
        self._collect_removed(cluster)
        await self._thaw(cluster)
        await self._heal_links(cluster)
        await self._repair_disks(cluster)
        await self._start(cluster)
        await self.operator.finish()
        await cluster.until_ready()

    async def _lose_disk(self, cluster: ScenarioCluster) -> None:
        """Lose a disk while the cluster is quiescent.

        Requests that only this replica has would be lost with its disk.
        """
        await cluster.quiesce(may_fail=True)
        victim = self._random.choice(cluster.processes.all)
        others = sorted({*cluster.processes.all} - {victim})
        if not self.operator.has_changed:
            await self._restart_without_disk(cluster, victim, others)
        elif len(others) > 1:
            await self._replace_after_disk_loss(cluster, victim)
        await cluster.load(100, at=[others, others[::-1]])

    async def _restart_without_disk(
        self, cluster: ScenarioCluster, victim: int, others: list[int]
    ) -> None:
        down = self._random.sample(others, self._random.choice((0, 1)))
        self._log(f"the disk of {victim} is lost{f' while {down[0]} is down' if down else ''}")
        cluster.processes.kill(victim, *down)
        shutil.rmtree(cluster.processes.data_dir(victim))
        cluster.processes.start(victim)
        await asyncio.sleep(self._random.uniform(*STEP_PAUSE_S))
        if self._random.random() < 0.5:  # during recovery
            self._log(f"kill {victim}")
            cluster.processes.kill(victim)
            cluster.processes.start(victim)
        cluster.processes.start(*down)

    async def _replace_after_disk_loss(self, cluster: ScenarioCluster, victim: int) -> None:
        """Replace a replica that cannot recover its disk, since the members were changed."""
        self._log(f"the disk of {victim} is lost for good")
        cluster.processes.destroy(victim)
        await cluster.until(
            lambda statuses: all(victim not in each["connected"] for each in statuses)
        )
        self.operator.replace(victim)
        await self.operator.finish()
        await cluster.until_ready()


async def run_scenario(chaos: Chaos, directory: Path) -> None:
    async with fault_scenario(
        directory,
        *chaos.options,
        replicas=chaos.replicas,
        programs=chaos.programs,
        checkpoint_every=chaos.checkpoint_every,
        may_fail=True,
    ) as cluster:
        await chaos.run(cluster)


def run_one(seed: str, directory: Path) -> bool:
    chaos = Chaos(seed)
    started = time.monotonic()
    try:
        asyncio.run(run_scenario(chaos, directory))
    except Exception:  # noqa: BLE001 - every failure is reported
        print(f"run {seed} in {directory}: {chaos}")
        print(*chaos.events, sep="\n")
        traceback.print_exc()
        return False
    duration_s = time.monotonic() - started
    print(f"run {seed}: {duration_s:5.1f} s, {chaos}: {'; '.join(chaos.events)}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="duration, in minutes")
    parser.add_argument("--seed", type=int, default=1, help="seed of all runs")
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument(
        "--out",
        type=Path,
        help="directory for the data of the runs (default: a new temporary directory)",
    )
    arguments = parser.parse_args()
    # A background job of a shell ignores SIGINT, and so would replicas that are stopped early.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = arguments.out or Path(tempfile.mkdtemp(prefix="creek-chaos-"))
    print(f"seed {arguments.seed}, in {out}", flush=True)
    deadline = time.monotonic() + 60 * arguments.minutes
    number = arguments.first
    while time.monotonic() < deadline:
        directory = out / str(number)
        directory.mkdir(parents=True)
        if not run_one(f"{arguments.seed} {number}", directory):
            print(
                "reproduce with: python -m tests.cluster.chaos "
                f"--seed {arguments.seed} --first {number}"
            )
            return 1
        shutil.rmtree(directory)
        sys.stdout.flush()
        number += 1
    print(f"{number - arguments.first} runs passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
