"""A cluster of real processes to which something happens while clients use it.

A story is a coroutine that gets a `Cluster`: it starts loads and breaks things. When it is over,
everything that runs is mended, and the cluster is judged: all replicas come to rest in one state,
nothing that was answered is lost, nothing was done twice, and what the replicas recorded of
themselves passes every checker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from creekdb.checkers import Ok, check_all
from creekdb.client import Database
from creekdb.evaluation import datatype_of_history
from creekdb.history import History, merge_recordings
from creekdb.load.local_cluster import free_port
from tests.cluster.faults_links import Links
from tests.cluster.faults_load import Load
from tests.cluster.house import is_settled
from tests.cluster.processes import Processes

TICK_MS = 10
BOUND_S = 60.0
"""Whatever takes longer will not happen any more."""


class Cluster:
    """What a story is about: its processes, the links between them, and its clients."""

    def __init__(self, processes: Processes, links: Links, stack: AsyncExitStack) -> None:
        self.processes = processes
        self.links = links
        self._stack = stack
        self.loads: list[Load] = []

    # --- clients --------------------------------------------------------------------------------

    async def client(self, *replicas: int, **more: Any) -> Database:
        """One that knows these replicas, and begins at the first."""
        made = self.processes.client(*replicas, **{"timeout": BOUND_S, **more})
        return await self._stack.enter_async_context(made)

    async def load(
        self,
        operations: int = 120,
        at: Iterable[Iterable[int]] = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 1, 2)),
        weak_only: bool = False,
        **more: Any,
    ) -> Load:
        """A load that has begun. `at`: for each client, the replicas that it knows."""
        clients = [await self.client(*each, **more) for each in at]
        load = Load(f"load {len(self.loads)}", clients, operations, weak_only)
        self.loads.append(load)
        self._stack.callback(load.cancel)
        load.start()
        return load

    # --- looking on -----------------------------------------------------------------------------

    async def until(
        self, what: Callable[[list[dict[str, Any]]], bool], *replicas: int
    ) -> list[dict[str, Any]]:
        """Until it is so what these replicas, or all that run, say of themselves."""
        asked = replicas or self.processes.running
        said: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(BOUND_S):
                while True:
                    said = await self.processes.statuses(*asked)
                    if what(said):
                        return said
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"this did not change any more: {said}") from None

    async def up(self) -> None:
        """Until all that run have started, are connected to each other, and take part."""
        others = len(self.processes.running) - 1

        def takes_part(said: dict[str, Any]) -> bool:
            return len(said["connected"]) >= others and said["waits_for"] is None

        await self.until(lambda said: all(map(takes_part, said)))

    async def leader(self, *replicas: int, but: int | None = None) -> int:
        """The one that these replicas, or all that run, agree on."""

        def is_agreed(said: list[dict[str, Any]]) -> bool:
            leaders = {each["leader"] for each in said}
            return len(leaders) == 1 and not leaders & {None, but}

        said = await self.until(is_agreed, *replicas)
        leader: int = said[0]["leader"]
        return leader

    # --- in the end -----------------------------------------------------------------------------

    async def loads_end(self) -> None:
        for load in self.loads:
            async with asyncio.timeout(BOUND_S):
                await load.ends()

    async def rest(self, may_fail: bool = False) -> None:
        """Until the loads have ended, and the replicas have nothing more to do."""
        await self.loads_end()
        await self.until(is_settled)
        async with self.processes.client() as db:
            kept = dict(await db.strong.scan(""))
        for load in self.loads:
            load.judge(kept, may_fail)
        await self.until(is_settled)


def tell(
    folder: Path,
    story: Callable[[Cluster], Awaitable[None]],
    *options: str,
    replicas: int = 3,
    programs: Mapping[int, tuple[str, ...]] | None = None,
    configs: Mapping[int, Path] | None = None,
    trusted: Path | None = None,
    checkpoint_every: int = 150,
    may_fail: bool = False,
) -> Cluster:
    """Let it happen to a cluster that has just come up, and judge what comes of it. `may_fail`:
    calls need not be answered, only what they are told must be true."""
    members = [f"127.0.0.1:{free_port()}" for _ in range(replicas)]
    recorded = folder / "recorded"

    async def whole() -> Cluster:
        async with AsyncExitStack() as stack:
            links = await stack.enter_async_context(Links(members))
            processes = Processes(
                folder,
                replicas,
                *("--tick-ms", str(TICK_MS), "--record", str(recorded), "--record-orders"),
                *options,
                members=members,
                way=links.way,
                programs=programs,
                configs=configs,
                trusted=trusted,
                environment={"CREEK_CHECKPOINT_EVERY": str(checkpoint_every)},
            )
            stack.enter_context(processes)
            cluster = Cluster(processes, links, stack)
            await cluster.up()
            await story(cluster)
            await cluster.rest(may_fail)
            codes = {each: processes.stop(each) for each in processes.running}
            assert not any(codes.values()), codes
            return cluster

    cluster = asyncio.run(whole())
    judge(merge_recordings(recorded))
    return cluster


def judge(history: History) -> None:
    """It came to rest, and every checker is content."""
    assert history.quiescent
    told = check_all(history, datatype_of_history(history))
    assert all(isinstance(each, Ok) for each in told), [each.describe() for each in told]
