"""What becomes of the operations that a replica has seen lately: how often each was executed here,
and of those that were called here, which answers left and when.

All that a page shows of one replica, a few times a second.

It is the same for every page that is open, and is put together once. What it costs is bounded: the
last operations, so many times a second. When the last page is closed it goes on for a while, since
pages are reloaded, and then it stops and forgets.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, Final

from creekdb.http.operations import Described, Operations
from creekdb.protocol.effects import Response, Task, Work
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import NOOP, Operation, Outcome, Request
from creekdb.server.observability.latency import SECONDS
from creekdb.server.observability.metrics import lag
from creekdb.server.observability.status import QUIET
from creekdb.server.runtime.server import Server
from creekdb.wire.deduplication import INTERNAL, described

LIVES_MAX: Final = 1024
ANSWERS_MAX: Final = 8
"""Of one call: the first, and the last ones."""
TEXT_MAX: Final = 80


class Life:
    __slots__ = ("answers", "called_at", "executions", "started")

    def __init__(self) -> None:
        self.executions = 0
        self.started: float | None = None
        """When it was called, if that was here, to count from."""
        self.called_at = 0
        """The same, by the clock on the wall, in milliseconds."""
        self.answers: list[dict[str, Any]] = []


class Lives:
    """An `Onlooker`. The oldest are forgotten."""

    def __init__(self) -> None:
        self._lives: dict[Dot, Life] = {}

    def invoked(self, id: Dot) -> None:
        life = self._of(id)
        life.started, life.called_at = time.perf_counter(), time.time_ns() // 1_000_000

    def answered(self, response: Response) -> None:
        life = self._lives.get(response.id)
        if life is None or life.started is None:
            return
        answer = {
            "kind": response.kind.value,
            "ms": round((time.perf_counter() - life.started) * 1000, 2),
            "says": told(response.outcome),
            "raised": response.outcome.error is not None,
            "changed": response.changed,
        }
        if len(life.answers) == ANSWERS_MAX:
            del life.answers[1]
        life.answers.append(answer)

    def executing(self, tasks: tuple[Task, ...]) -> None:
        for task in tasks:
            if task.work is Work.EXECUTE:
                self._of(task.request.id).executions += 1

    def entry(self, request: Request) -> dict[str, Any]:
        """A request as a page shows it."""
        operation = request.operation
        life = self._lives.get(request.id)
        shown: dict[str, Any] = {
            "id": str(request.id),
            "says": shortened(described(operation)),
            "strong": request.strong,
            "own": is_own(operation),
            "runs": 0 if life is None else life.executions,
        }
        if life is not None and life.started is not None:
            shown |= {"called_at": life.called_at, "answers": life.answers}
        return shown

    def _of(self, id: Dot) -> Life:
        life = self._lives.get(id)
        if life is None:
            life = self._lives[id] = Life()
            if len(self._lives) > LIVES_MAX:
                del self._lives[next(iter(self._lives))]
        return life


def is_own(operation: Operation) -> bool:
    """Is it the cluster's, and not a client's?"""
    return operation == NOOP or (
        operation.name.startswith(INTERNAL) and described(operation).startswith(INTERNAL)
    )


def told(outcome: Outcome) -> str:
    return shortened(repr(outcome.value) if outcome.error is None else outcome.error)


def shortened(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


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
