"""Injects the planned faults into the processes of a round, and heals each after its duration.

A fault claims the replicas that it affects, so that no other fault heals it early. Faults of links
share one claim. A fault waits until its claim is free, and is skipped at the end of the round.
"""

import asyncio
import resource
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from creekdb.client import CallFailed
from creekdb.client.backup_download import download_backup
from creekdb.errors import CreekError
from creekdb.server.backup.format import open_backup_writer
from creekdb.torture.faults import disk_faults
from creekdb.torture.faults.links import LinkProxies
from creekdb.torture.faults.membership_operator import Operator
from creekdb.torture.faults.plan import FaultKind, PlannedFault, RoundPlan
from creekdb.torture.faults.replica_control import ReplicaControl, write_control
from creekdb.torture.processes import TIMEOUT_S, ReplicaProcesses, UnexpectedExit
from creekdb.wire.addresses import parse_address

PAUSE_S: Final = (0.1, 1.2)
"""Range of short pauses inside a fault, in seconds."""
STARTUP_S: Final = (0.3, 3.0)
"""Range of the pause after a start, in seconds. A start may take less or more than that."""
POLL_S: Final = 0.05
OPEN_FILES_MAX: Final = 160
"""Limit of open files for a replica whose connections are exhausted."""
CONNECTIONS: Final = 400
"""Connections that exhaust that limit."""
LINK_DELAY_S: Final = (0.02, 0.3)
DISK_DELAY_S: Final = (0.02, 0.4)
CLOCK_STEPS_S: Final = (-3_600, -60, -10, 10, 60, 3_600)
STOPPED_CODES: Final = (0, -signal.SIGTERM)
"""Exit codes of a stopped process, with its signal handler and before it is installed."""


class InjectedFault(msgspec.Struct, frozen=True):
    """A fault that took place, in seconds from the start of the torture."""

    kind: FaultKind
    detail: str
    """Targets of the fault, and its parameters."""
    begin_s: float
    end_s: float


class _NoTarget(Exception):
    """No replica can be the target of the fault before the end of the round."""


class Nemesis:
    """Faults of one round. `now` returns the time of the torture, in seconds."""

    def __init__(
        self,
        plan: RoundPlan,
        processes: ReplicaProcesses,
        links: LinkProxies,
        operator: Operator,
        now: Callable[[], float],
        on_fault: Callable[[InjectedFault], None],
        backups: Path,
    ) -> None:
        self._plan = plan
        self._processes = processes
        self._links = links
        self._operator = operator
        self._now = now
        self._on_fault = on_fault
        self._backup_dir = backups
        self._begin_s = 0.0
        self._claimed: set[int] = set()
        self._unable_to_log: set[int] = set()
        self._link_claim = asyncio.Lock()
        self.injected: list[InjectedFault] = []
        self.backups: list[Path] = []
        """Complete backups, in the order in which they were taken."""

    async def run(self) -> None:
        """Inject all faults of the plan, and return when all are healed."""
        self._begin_s = self._now()
        async with asyncio.TaskGroup() as faults:
            for fault in self._plan.faults:
                await asyncio.sleep(max(0.0, self._begin_s + fault.at_s - self._now()))
                self.collect_removed()
                faults.create_task(self._inject(fault))

    async def _inject(self, fault: PlannedFault) -> None:
        inject = self._injections[fault.kind]
        try:
            async with inject(self, Random(fault.seed)) as detail:
                begin_s = self._now()
                await asyncio.sleep(fault.duration_s)
        except _NoTarget:
            return
        self.record(fault.kind, detail, begin_s)

    def record(self, kind: FaultKind, detail: str, begin_s: float) -> None:
        """Record a fault that has been healed."""
        injected = InjectedFault(kind, detail, begin_s, self._now())
        self.injected.append(injected)
        self._on_fault(injected)

    # --- targets --------------------------------------------------------------------------------

    def collect_removed(self) -> None:
        removed = self._processes.collect_removed(self._unable_to_log)
        self._claimed.difference_update(removed)

    @property
    def _healthy(self) -> list[int]:
        return sorted(set(self._processes.running) - self._claimed)

    async def _until(self, condition: Callable[[], object]) -> None:
        """Wait for the condition. Raise `_NoTarget` at the end of the round."""
        while not condition():
            if self._now() > self._begin_s + self._plan.duration_s:
                raise _NoTarget
            await asyncio.sleep(POLL_S)

    @asynccontextmanager
    async def _victim(self, random: Random) -> AsyncIterator[int]:
        """Claim a healthy replica. Wait for one if necessary."""
        await self._until(lambda: self._healthy)
        victim = random.choice(self._healthy)
        with self._claim(victim):
            yield victim

    @contextmanager
    def _claim(self, *replicas: int) -> Iterator[None]:
        self._claimed.update(replicas)
        try:
            yield
        finally:
            self._claimed.difference_update(replicas)

    def _start(self, *replicas: int) -> None:
        """Start the replicas that neither run nor were removed meanwhile."""
        startable = set(self._processes.all) - set(self._processes.running)
        self._processes.start(*(each for each in replicas if each in startable))

    def _kill(self, *replicas: int) -> None:
        self.collect_removed()
        self._processes.kill(*(each for each in replicas if each in self._processes.running))

    def _is_running(self, replica: int) -> bool:
        return replica in self._processes.running

    # --- processes ------------------------------------------------------------------------------

    @asynccontextmanager
    async def _kill_one(self, random: Random) -> AsyncIterator[str]:
        async with self._victim(random) as victim:
            self._kill(victim)
            yield f"{victim}"
            self._start(victim)

    @asynccontextmanager
    async def _kill_leader(self, random: Random) -> AsyncIterator[str]:
        """Kill the leader according to a random replica."""
        await self._until(lambda: self._healthy)
        status = await self._processes.status_unless_exited(random.choice(self._healthy))
        leader = status and status["leader"]
        if leader not in self._healthy:
            async with self._kill_one(random) as detail:
                yield detail
            return
        with self._claim(leader):
            self._kill(leader)
            yield f"{leader}"
            self._start(leader)

    @asynccontextmanager
    async def _kill_all(self, random: Random) -> AsyncIterator[str]:
        await self._kill_and_start_all()
        yield "all"

    async def _kill_and_start_all(self) -> None:
        self.collect_removed()
        killed = self._processes.running
        self._processes.kill(*killed)
        self._start(*killed)

    @asynccontextmanager
    async def _kill_all_repeatedly(self, random: Random) -> AsyncIterator[str]:
        """Kill all replicas again while they start or recover, or soon afterwards."""
        times = random.randint(2, 3)
        for _ in range(times - 1):
            await self._kill_and_start_all()
            await asyncio.sleep(random.uniform(*STARTUP_S))
        await self._kill_and_start_all()
        yield f"all, {times} times"

    @asynccontextmanager
    async def _pause(self, random: Random) -> AsyncIterator[str]:
        async with self._victim(random) as victim:
            self._processes.freeze(victim)
            try:
                yield f"{victim}"
            finally:
                if self._is_running(victim):
                    self._processes.thaw(victim)

    @asynccontextmanager
    async def _exhaust_connections(self, random: Random) -> AsyncIterator[str]:
        """Open more connections than the replica can accept, and drop them after the fault."""
        async with self._victim(random) as victim:
            process = self._processes.process_id(victim)
            limits = resource.prlimit(process, resource.RLIMIT_NOFILE)
            resource.prlimit(process, resource.RLIMIT_NOFILE, (OPEN_FILES_MAX, limits[1]))
            host, port = parse_address(self._processes.addresses(victim)[1])
            attempts = [asyncio.open_connection(host, port) for _ in range(CONNECTIONS)]
            opened = await asyncio.gather(*attempts, return_exceptions=True)
            try:
                yield f"{victim}"
            finally:
                for each in opened:
                    if not isinstance(each, BaseException):
                        each[1].transport.abort()
                with suppress(ProcessLookupError):
                    resource.prlimit(process, resource.RLIMIT_NOFILE, limits)

    # --- links ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def _link_fault(self) -> AsyncIterator[None]:
        async with self._link_claim:
            if self._now() > self._begin_s + self._plan.duration_s:
                raise _NoTarget
            try:
                yield
            finally:
                self._links.heal()

    def _draw_side(self, random: Random) -> list[int]:
        replicas = self._processes.all
        return sorted(random.sample(replicas, min(random.randint(1, 2), len(replicas))))

    @asynccontextmanager
    async def _partition(self, random: Random) -> AsyncIterator[str]:
        async with self._link_fault():
            side, silently = self._draw_side(random), random.random() < 0.5
            self._links.partition(side, silently)
            yield f"{_numbers(side)} from the others{', silently' if silently else ''}"

    @asynccontextmanager
    async def _cut_one_way(self, random: Random) -> AsyncIterator[str]:
        async with self._link_fault():
            if len(self._processes.all) < 2:
                raise _NoTarget
            sender, receiver = random.sample(self._processes.all, 2)
            silently = random.random() < 0.5
            self._links.cut(sender, receiver, silently)
            yield f"{sender} to {receiver}{', silently' if silently else ''}"

    @asynccontextmanager
    async def _flap(self, random: Random) -> AsyncIterator[str]:
        async with self._link_fault():
            side, silently = self._draw_side(random), random.random() < 0.5

            async def flap() -> None:
                while True:
                    self._links.partition(side, silently)
                    await asyncio.sleep(random.uniform(0.05, 0.4))
                    self._links.heal()
                    await asyncio.sleep(random.uniform(0.05, 0.4))

            flapping = asyncio.create_task(flap())
            try:
                yield f"{_numbers(side)} from the others"
            finally:
                flapping.cancel()
                with suppress(asyncio.CancelledError):
                    await flapping

    @asynccontextmanager
    async def _slow_links(self, random: Random) -> AsyncIterator[str]:
        async with self._link_fault():
            victim, delay_s = random.choice(self._processes.all), random.uniform(*LINK_DELAY_S)
            self._links.slow_down(victim, delay_s)
            yield f"{victim}, {1000 * delay_s:.0f} ms"

    @asynccontextmanager
    async def _reset_links(self, random: Random) -> AsyncIterator[str]:
        async with self._link_fault():
            victim = random.choice(self._processes.all)
            self._links.reset_connections(victim)
            yield f"{victim}"

    # --- disks and clocks -----------------------------------------------------------------------

    @asynccontextmanager
    async def _fail_disk(self, random: Random) -> AsyncIterator[str]:
        async with self._victim(random) as victim:
            await self._until_serving(victim)
            async with self._failing_writes(victim):
                yield f"{victim}"

    async def _until_serving(self, victim: int) -> None:
        """Wait until the replica has started, since a replica without a disk cannot start."""
        if await self._processes.status_unless_exited(victim) is None:
            raise _NoTarget

    @asynccontextmanager
    async def _failing_writes(self, victim: int) -> AsyncIterator[None]:
        process = self._processes.process_id(victim)
        self._unable_to_log.add(victim)
        disk_faults.fail_writes(process)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                disk_faults.allow_writes(process)

    @asynccontextmanager
    async def _fail_disk_during_catch_up(self, random: Random) -> AsyncIterator[str]:
        async with self._victim(random) as victim:
            self._kill(victim)
            await asyncio.sleep(random.uniform(*PAUSE_S))
            self._start(victim)
            if not self._is_running(victim):
                raise _NoTarget
            await self._until_serving(victim)
            async with self._failing_writes(victim):
                yield f"{victim}"

    def _control(self, victim: int, control: ReplicaControl) -> None:
        write_control(self._processes.location_of(victim).control_path, control)

    @asynccontextmanager
    async def _controlled(
        self, random: Random, control: ReplicaControl, detail: str
    ) -> AsyncIterator[str]:
        async with self._victim(random) as victim:
            await self._until_serving(victim)
            self._control(victim, control)
            try:
                yield f"{victim}{detail}"
            finally:
                self._control(victim, ReplicaControl())

    def _fill_disk(self, random: Random) -> AbstractAsyncContextManager[str]:
        return self._controlled(random, ReplicaControl(is_disk_full=True), "")

    def _slow_disk(self, random: Random) -> AbstractAsyncContextManager[str]:
        delay_s = random.uniform(*DISK_DELAY_S)
        control = ReplicaControl(disk_delay_us=int(1e6 * delay_s))
        return self._controlled(random, control, f", {1000 * delay_s:.0f} ms per write")

    def _step_clock(self, random: Random) -> AbstractAsyncContextManager[str]:
        step_s = random.choice(CLOCK_STEPS_S)
        control = ReplicaControl(clock_offset_us=1_000_000 * step_s)
        return self._controlled(random, control, f", {step_s:+} s")

    @asynccontextmanager
    async def _tear_write(self, random: Random) -> AsyncIterator[str]:
        async with self._victim(random) as victim:
            self._kill(victim)
            torn = disk_faults.tear(self._processes.data_dir(victim))
            yield f"{victim}" if torn else f"{victim}, whose journal is empty"
            self._start(victim)

    # --- members --------------------------------------------------------------------------------

    def _require_location(self) -> None:
        if not self._operator.has_free_location or not self._processes.running:
            raise _NoTarget

    @asynccontextmanager
    async def _add(self, random: Random) -> AsyncIterator[str]:
        self._require_location()
        yield _first_line(await self._operator.add())

    @asynccontextmanager
    async def _join(self, random: Random) -> AsyncIterator[str]:
        self._require_location()
        yield _first_line(await self._operator.join(random.choice(self._processes.running)))

    @asynccontextmanager
    async def _replace(self, random: Random) -> AsyncIterator[str]:
        self._require_location()
        yield _first_line(await self._operator.replace(random.choice(self._processes.all)))

    @asynccontextmanager
    async def _remove(self, random: Random) -> AsyncIterator[str]:
        await self._until(lambda: self._processes.running)
        yield _first_line(await self._operator.remove(random.choice(self._processes.all)))

    @asynccontextmanager
    async def _remove_partitioned(self, random: Random) -> AsyncIterator[str]:
        """Remove a replica that is partitioned and thus continues to respond."""
        async with self._victim(random) as victim, self._link_fault():
            self._links.partition([victim], silently=random.random() < 0.5)
            yield _first_line(await self._operator.remove(victim))

    # --- operations -----------------------------------------------------------------------------

    @asynccontextmanager
    async def _restart_in_turn(self, random: Random) -> AsyncIterator[str]:
        restarted = []
        for replica in self._processes.all:
            if replica not in self._healthy:
                continue
            with self._claim(replica):
                await self._stop(replica)
                self._start(replica)
                if self._is_running(replica):
                    await self._processes.status_unless_exited(replica)
            restarted.append(replica)
        if not restarted:
            raise _NoTarget
        yield _numbers(restarted)

    async def _stop(self, replica: int) -> None:
        code = await asyncio.to_thread(self._processes.stop, replica)
        if code not in STOPPED_CODES:
            output = self._processes.output(replica)
            raise UnexpectedExit(f"replica {replica} was stopped and exited with {code}: {output}")

    @asynccontextmanager
    async def _back_up(self, random: Random) -> AsyncIterator[str]:
        await self._until(lambda: self._healthy)
        addresses = [self._processes.addresses(each)[1] for each in self._healthy]
        random.shuffle(addresses)
        path = self._backup_dir / f"{len(self.backups)}-{self._now():.2f}.backup"
        outcome = "complete"
        try:
            async with asyncio.timeout(TIMEOUT_S):
                with open_backup_writer(path) as file:
                    await download_backup(addresses, file.write)
            self.backups.append(path)
        except (CallFailed, CreekError, OSError, TimeoutError) as error:
            outcome = f"failed: {type(error).__name__}"
        yield outcome

    _injections: Final[dict[FaultKind, Callable[..., AbstractAsyncContextManager[Any]]]] = {
        FaultKind.KILL: _kill_one,
        FaultKind.KILL_LEADER: _kill_leader,
        FaultKind.KILL_ALL: _kill_all,
        FaultKind.KILL_ALL_REPEATEDLY: _kill_all_repeatedly,
        FaultKind.PAUSE: _pause,
        FaultKind.EXHAUST_CONNECTIONS: _exhaust_connections,
        FaultKind.PARTITION: _partition,
        FaultKind.ONE_WAY_CUT: _cut_one_way,
        FaultKind.FLAPPING_LINKS: _flap,
        FaultKind.SLOW_LINKS: _slow_links,
        FaultKind.RESET_LINKS: _reset_links,
        FaultKind.FAILING_DISK: _fail_disk,
        FaultKind.FAILING_DISK_DURING_CATCH_UP: _fail_disk_during_catch_up,
        FaultKind.FULL_DISK: _fill_disk,
        FaultKind.SLOW_DISK: _slow_disk,
        FaultKind.TORN_WRITE: _tear_write,
        FaultKind.CLOCK_STEP: _step_clock,
        FaultKind.ADD_MEMBER: _add,
        FaultKind.JOIN_MEMBER: _join,
        FaultKind.REMOVE_MEMBER: _remove,
        FaultKind.REMOVE_PARTITIONED_MEMBER: _remove_partitioned,
        FaultKind.REPLACE_MEMBER: _replace,
        FaultKind.ROLLING_RESTART: _restart_in_turn,
        FaultKind.BACKUP: _back_up,
    }


def _numbers(replicas: list[int]) -> str:
    return ", ".join(map(str, replicas))


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
