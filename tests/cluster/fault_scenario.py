"""Fault scenarios on a cluster of real processes under client load.

A scenario is the body of `async with fault_scenario(…) as cluster`. It starts loads and injects
faults. At its end the cluster is verified. All replicas reach the same state, no acknowledged call
is lost, no call is executed twice, and the recordings of the replicas pass every checker.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from creekdb.checkers import Ok, check_all
from creekdb.client import Database
from creekdb.evaluation import datatype_of_history
from creekdb.history import History, merge_recordings
from creekdb.load.local_cluster import free_port
from creekdb.torture.faults.links import LinkProxies
from creekdb.torture.processes import ReplicaProcesses, is_quiescent
from tests.cluster.client_load import ClientLoad

TICK_MS = 10
STEP_TIMEOUT_S = 60.0
"""Upper bound for one step of a scenario, in seconds."""


class ScenarioCluster:
    """Processes of a scenario, the links between them, and their clients."""

    def __init__(
        self, processes: ReplicaProcesses, links: LinkProxies, stack: AsyncExitStack
    ) -> None:
        self.processes = processes
        self.links = links
        self._stack = stack
        self.loads: list[ClientLoad] = []

    # --- clients --------------------------------------------------------------------------------

    async def client(self, *replicas: int, **options: Any) -> Database:
        """Connect a client that uses these replicas, starting with the first."""
        client = self.processes.client(*replicas, **{"timeout": STEP_TIMEOUT_S, **options})
        return await self._stack.enter_async_context(client)

    async def load(
        self,
        operations: int = 120,
        at: Iterable[Iterable[int]] = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 1, 2)),
        weak_only: bool = False,
        **options: Any,
    ) -> ClientLoad:
        """Start a load. `at` lists the replicas of each client."""
        clients = [await self.client(*each, **options) for each in at]
        load = ClientLoad(f"load {len(self.loads)}", clients, operations, weak_only)
        self.loads.append(load)
        self._stack.callback(load.cancel)
        load.start()
        return load

    # --- observation ----------------------------------------------------------------------------

    async def until(
        self, condition: Callable[[list[dict[str, Any]]], bool], *replicas: int
    ) -> list[dict[str, Any]]:
        """Wait until the statuses of these replicas, or of all running ones, meet the condition."""
        polled = replicas or self.processes.running
        statuses: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S):
                while True:
                    statuses = await self.processes.statuses(*polled)
                    if condition(statuses):
                        return statuses
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"the condition was not met: {statuses}") from None

    async def until_ready(self) -> None:
        """Wait until all running replicas have joined and are connected to each other."""
        others = len(self.processes.running) - 1

        def is_ready(status: dict[str, Any]) -> bool:
            return len(status["connected"]) >= others and status["waits_for"] is None

        await self.until(lambda statuses: all(map(is_ready, statuses)))

    async def agreed_leader(self, *replicas: int, excluding: int | None = None) -> int:
        """Wait until these replicas, or all running ones, agree on a leader, and return it."""

        def is_agreed(statuses: list[dict[str, Any]]) -> bool:
            leaders = {each["leader"] for each in statuses}
            return len(leaders) == 1 and not leaders & {None, excluding}

        statuses = await self.until(is_agreed, *replicas)
        leader: int = statuses[0]["leader"]
        return leader

    # --- verification ---------------------------------------------------------------------------

    async def finish_loads(self) -> None:
        for load in self.loads:
            async with asyncio.timeout(STEP_TIMEOUT_S):
                await load.finish()

    async def quiesce(self, may_fail: bool = False) -> None:
        """Wait until loads have finished and replicas are quiescent, and verify the loads."""
        await self.finish_loads()
        await self.until(is_quiescent)
        async with self.processes.client() as db:
            state = dict(await db.strong.scan(""))
        for load in self.loads:
            load.verify(state, may_fail)
        await self.until(is_quiescent)


@asynccontextmanager
async def fault_scenario(
    directory: Path,
    *options: str,
    replicas: int = 3,
    programs: Mapping[int, tuple[str, ...]] | None = None,
    configs: Mapping[int, Path] | None = None,
    trusted: Path | None = None,
    checkpoint_every: int = 150,
    may_fail: bool = False,
) -> AsyncIterator[ScenarioCluster]:
    """Start a new cluster, and verify it at the end of the scenario.

    With `may_fail`, calls may fail, but their reported outcome must be true.
    """
    members = [f"127.0.0.1:{free_port()}" for _ in range(replicas)]
    recorded = directory / "recorded"

    async with AsyncExitStack() as stack:
        links = await stack.enter_async_context(LinkProxies(members))
        processes = ReplicaProcesses(
            directory,
            replicas,
            *("--tick-ms", str(TICK_MS), "--record", str(recorded), "--record-orders"),
            *options,
            members=members,
            link_address=links.address,
            programs=programs,
            configs=configs,
            trusted=trusted,
            environment={"CREEK_CHECKPOINT_EVERY": str(checkpoint_every)},
        )
        stack.enter_context(processes)
        cluster = ScenarioCluster(processes, links, stack)
        await cluster.until_ready()
        yield cluster
        await cluster.quiesce(may_fail)
        codes = {each: processes.stop(each) for each in processes.running}
        assert not any(codes.values()), codes
    check_history(merge_recordings(recorded))


def check_history(history: History) -> None:
    """Assert that the run is quiescent and that every checker accepts it."""
    assert history.quiescent
    verdicts = check_all(history, datatype_of_history(history))
    assert all(isinstance(each, Ok) for each in verdicts), [each.describe() for each in verdicts]
