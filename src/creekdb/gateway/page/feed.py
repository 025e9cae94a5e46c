"""All that a page shows of one replica, a few times a second.

It is the same for every page that is open, and is put together once. What it costs is bounded: the
last operations, so many times a second. When the last page is closed it goes on for a while, since
pages are reloaded, and then it stops and forgets.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, Final

from creekdb.gateway.operations import Described, Operations
from creekdb.gateway.page.lives import Lives
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import NOOP, Request
from creekdb.server.observability.latency import SECONDS
from creekdb.server.observability.metrics import lag
from creekdb.server.observability.status import QUIET
from creekdb.server.runtime.server import Server

PAUSE_S: Final = 0.2
LINGER_S: Final = 300.0
"""How long it goes on without a page."""
BEAT_S: Final = 2.0
"""Between two signs of life, when nothing happens."""
SHOWN: Final = 50
"""Operations of each list."""
NETWORK: Final = QUIET | {"cut"}
"""Counted like inputs that are refused; the page shows it as links that are down."""


class Feed:
    def __init__(self, server: Server, operations: Operations, version: str) -> None:
        self._server = server
        self._operations = [
            {
                "name": each.name,
                "readonly": each.readonly,
                "about": each.documentation.partition("\n\n")[0],
                "takes": [
                    {
                        "name": parameter.name,
                        "required": parameter.required,
                        "default": None if parameter.required else repr(parameter.default),
                        "type": parameter.schema.get("type"),
                        "rest": parameter.is_rest,
                    }
                    for parameter in each.parameters
                ],
            }
            for each in sorted(operations.all.values(), key=_declared)
        ]
        self._version = version
        self.pages = 0
        self._lives = Lives()
        self._committed: deque[tuple[int, Request]] = deque(maxlen=SHOWN)
        """The last ones with their places, also when the replica has summed them up."""
        self._now: dict[str, Any] = {}
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._stopped = False

    async def follow(self) -> AsyncGenerator[tuple[str, Any] | None, None]:
        """`about` the replica, first and when that changes; how it is `now`; None when nothing has
        happened for a while."""
        self.pages += 1
        try:
            if self._looking is None:
                self._look()
                self._looking = self._server.tasks.spawn(self._keep_looking())
            about: dict[str, Any] = {}
            while not self._stopped:
                changed, now = self._changed, self._now
                if about != (known := self._about()):
                    about = known
                    yield "about", about
                yield "now", now
                try:
                    async with asyncio.timeout(BEAT_S):
                        await changed.wait()
                except TimeoutError:
                    yield None
        finally:
            self.pages -= 1

    async def stop(self) -> None:
        self._stopped = True
        self._changed.set()
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

    async def _keep_looking(self) -> None:
        self._server.look_on(self._lives)
        alone = 0
        try:
            while alone * PAUSE_S < LINGER_S:
                await asyncio.sleep(PAUSE_S)
                self._look()
                alone = 0 if self.pages else alone + 1
        finally:
            self._server.look_on(None)
            self._lives = Lives()
            self._committed.clear()
            self._looking = None

    def _look(self) -> None:
        now = self.now()
        if now != self._now:
            self._now = now
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    # --- what is shown ------------------------------------------------------------------------

    def _about(self) -> dict[str, Any]:
        server = self._server
        status, trial = server.status(), server.trial
        pages = {str(replica): at for replica, at in server.peers.http.items() if at}
        shown = {
            name: status[name] for name in ("cluster", "replica", "members", "datatype", "scheme")
        }
        told = None
        if trial is not None:
            told = {
                "control": trial.control,
                "secret": trial.secret,
                "replicas": sorted(trial.pages),
            }
            pages |= {str(replica): at for replica, at in trial.pages.items()}
        return shown | {
            "version": self._version,
            "pages": pages,
            "operations": self._operations,
            "bounds_s": SECONDS,
            "trial": told,
        }

    def now(self) -> dict[str, Any]:
        server = self._server
        replica, counts = server.driver.replica, server.driver.replica.probes.counts
        length = replica.committed_length()
        self._remember(length, replica.last_committed(SHOWN))
        lives = self._lives
        return {
            "leader": replica.leader(),
            "connected": sorted(server.peers.connected()),
            "cut": sorted(server.peers.cut),
            "waits_for": replica.waits_for(),
            "problem": _problem(server),
            "lag": lag(replica.progress(), server.config.replica),
            "committed_length": length,
            "tentative_length": replica.tentative_length(),
            "committed": [
                lives.entry(request) | {"place": place} for place, request in self._committed
            ],
            "tentative": [lives.entry(each) for each in replica.last_tentative(SHOWN)],
            "calls": {
                answer: {"counts": list(histogram.counts), "total_s": round(histogram.total, 6)}
                for answer, histogram in server.latencies.by_answer().items()
            },
            "backlog": server.driver.backlog,
            "undecided": len(server.undecided),
            "reexecutions": counts.get(Probe.REEXECUTED, 0),
            "apologies": counts.get(Probe.APOLOGY, 0),
            "refused": {
                reason: number
                for reason, number in server.refused_by_reason().items()
                if reason not in NETWORK
            },
        }

    def _remember(self, length: int, last: tuple[Request, ...]) -> None:
        known = self._committed[-1][0] + 1 if self._committed else 0
        for place, request in enumerate(last, length - len(last)):
            if place >= known:
                self._committed.append((place, request))


def _declared(operation: Described) -> tuple[bool, int]:
    """Those of the data type as they stand in its file, and then that of all."""
    return operation.name == NOOP.name, operation.line


def _problem(server: Server) -> str | None:
    """Why it cannot do its part."""
    if server.failure is not None:
        return str(server.failure)
    return None if server.journal.failed is None else str(server.journal.failed)
