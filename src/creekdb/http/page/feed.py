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

from creekdb.http.operations import OperationCatalog, OperationSpec
from creekdb.protocol.effects import Response, Task, TaskKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import NOOP, Operation, Outcome, Request
from creekdb.server.observability.latency import LATENCY_BOUNDS_S
from creekdb.server.observability.metrics import lag_instances
from creekdb.server.observability.status import UNLOGGED_REASONS
from creekdb.server.runtime.server import Server
from creekdb.wire.deduplication import INTERNAL_PREFIX, describe_call

OPERATIONS_MAX: Final = 1024
RESPONSES_MAX: Final = 8
"""Of one call: the first, and the last ones."""
TEXT_MAX: Final = 80


class OperationHistory:
    __slots__ = ("called_at_ms", "executions", "responses", "started_s")

    def __init__(self) -> None:
        self.executions = 0
        self.started_s: float | None = None
        """When it was called, if that was here, to count from."""
        self.called_at_ms = 0
        """The same, by the clock on the wall, in milliseconds."""
        self.responses: list[dict[str, Any]] = []


class CallHistory:
    """An `Onlooker`. The oldest are forgotten."""

    def __init__(self) -> None:
        self._by_id: dict[Dot, OperationHistory] = {}

    def on_invocation(self, id: Dot) -> None:
        life = self._history_of(id)
        life.started_s, life.called_at_ms = time.perf_counter(), time.time_ns() // 1_000_000

    def on_response(self, response: Response) -> None:
        life = self._by_id.get(response.id)
        if life is None or life.started_s is None:
            return
        answer = {
            "kind": response.kind.value,
            "ms": round((time.perf_counter() - life.started_s) * 1000, 2),
            "says": short_outcome(response.outcome),
            "raised": response.outcome.error is not None,
            "changed": response.changed,
        }
        if len(life.responses) == RESPONSES_MAX:
            del life.responses[1]
        life.responses.append(answer)

    def on_tasks(self, tasks: tuple[Task, ...]) -> None:
        for task in tasks:
            if task.kind is TaskKind.EXECUTE:
                self._history_of(task.request.id).executions += 1

    def entry(self, request: Request) -> dict[str, Any]:
        """A request as a page shows it."""
        operation = request.operation
        life = self._by_id.get(request.id)
        shown: dict[str, Any] = {
            "id": str(request.id),
            "says": shorten(describe_call(operation)),
            "strong": request.strong,
            "own": is_internal(operation),
            "runs": 0 if life is None else life.executions,
        }
        if life is not None and life.started_s is not None:
            shown |= {"called_at": life.called_at_ms, "answers": life.responses}
        return shown

    def _history_of(self, id: Dot) -> OperationHistory:
        life = self._by_id.get(id)
        if life is None:
            life = self._by_id[id] = OperationHistory()
            if len(self._by_id) > OPERATIONS_MAX:
                del self._by_id[next(iter(self._by_id))]
        return life


def is_internal(operation: Operation) -> bool:
    """Is it the cluster's, and not a client's?"""
    return operation == NOOP or (
        operation.name.startswith(INTERNAL_PREFIX)
        and describe_call(operation).startswith(INTERNAL_PREFIX)
    )


def short_outcome(outcome: Outcome) -> str:
    return shorten(repr(outcome.value) if outcome.error is None else outcome.error)


def shorten(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


UPDATE_INTERVAL_S: Final = 0.2
IDLE_TIMEOUT_S: Final = 300.0
"""How long it goes on without a page."""
KEEPALIVE_S: Final = 2.0
"""Between two signs of life, when nothing happens."""
OPERATIONS_SHOWN: Final = 50
"""Operations of each list."""
NETWORK_REASONS: Final = UNLOGGED_REASONS | {"cut"}
"""Counted like inputs that are refused; the page shows it as links that are down."""


class PageFeed:
    def __init__(self, server: Server, operations: OperationCatalog, version: str) -> None:
        self._server = server
        self._operations = [
            {
                "name": each.name,
                "readonly": each.is_readonly,
                "about": each.documentation.partition("\n\n")[0],
                "takes": [
                    {
                        "name": parameter.name,
                        "required": parameter.is_required,
                        "default": None if parameter.is_required else repr(parameter.default),
                        "type": parameter.schema.get("type"),
                        "rest": parameter.is_variadic,
                    }
                    for parameter in each.parameters
                ],
            }
            for each in sorted(operations.by_name.values(), key=_declaration_order)
        ]
        self._version = version
        self.open_pages = 0
        self._call_history = CallHistory()
        self._committed: deque[tuple[int, Request]] = deque(maxlen=OPERATIONS_SHOWN)
        """The last ones with their places, also when the replica has summed them up."""
        self._state: dict[str, Any] = {}
        self._changed = asyncio.Event()
        self._update_task: asyncio.Task[None] | None = None
        self._is_stopped = False

    async def follow(self) -> AsyncGenerator[tuple[str, Any] | None, None]:
        """`about` the replica, first and when that changes; how it is `now`; None when nothing has
        happened for a while."""
        self.open_pages += 1
        try:
            if self._update_task is None:
                self._update()
                self._update_task = self._server.task_supervisor.spawn(self._update_loop())
            about: dict[str, Any] = {}
            while not self._is_stopped:
                changed, now = self._changed, self._state
                if about != (known := self._describe_replica()):
                    about = known
                    yield "about", about
                yield "now", now
                try:
                    async with asyncio.timeout(KEEPALIVE_S):
                        await changed.wait()
                except TimeoutError:
                    yield None
        finally:
            self.open_pages -= 1

    async def stop(self) -> None:
        self._is_stopped = True
        self._changed.set()
        if self._update_task is not None:
            self._update_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._update_task

    async def _update_loop(self) -> None:
        self._server.set_observer(self._call_history)
        alone = 0
        try:
            while alone * UPDATE_INTERVAL_S < IDLE_TIMEOUT_S:
                await asyncio.sleep(UPDATE_INTERVAL_S)
                self._update()
                alone = 0 if self.open_pages else alone + 1
        finally:
            self._server.set_observer(None)
            self._call_history = CallHistory()
            self._committed.clear()
            self._update_task = None

    def _update(self) -> None:
        now = self.replica_state()
        if now != self._state:
            self._state = now
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    # --- what is shown ------------------------------------------------------------------------

    def _describe_replica(self) -> dict[str, Any]:
        server = self._server
        status, trial = server.status(), server.dev_control
        pages = {str(replica): at for replica, at in server.peers.http_urls.items() if at}
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
            "bounds_s": LATENCY_BOUNDS_S,
            "trial": told,
        }

    def replica_state(self) -> dict[str, Any]:
        server = self._server
        replica, counts = server.driver.replica, server.driver.replica.probes.counts
        length = replica.committed_length()
        self._record_committed(length, replica.last_committed(OPERATIONS_SHOWN))
        lives = self._call_history
        return {
            "leader": replica.leader(),
            "connected": sorted(server.peers.connected_members()),
            "cut": sorted(server.peers.disconnected),
            "waits_for": replica.awaited_members(),
            "problem": _failure_text(server),
            "lag": lag_instances(replica.stable_instances(), server.config.replica),
            "committed_length": length,
            "tentative_length": replica.tentative_length(),
            "committed": [
                lives.entry(request) | {"place": place} for place, request in self._committed
            ],
            "tentative": [lives.entry(each) for each in replica.last_tentative(OPERATIONS_SHOWN)],
            "calls": {
                answer: {"counts": list(histogram.counts), "total_s": round(histogram.total, 6)}
                for answer, histogram in server.latencies.by_response().items()
            },
            "backlog": server.driver.backlog,
            "undecided": len(server.pending_strong_calls),
            "reexecutions": counts.get(Probe.REEXECUTED, 0),
            "apologies": counts.get(Probe.APOLOGY, 0),
            "refused": {
                reason: number
                for reason, number in server.rejections_by_reason().items()
                if reason not in NETWORK_REASONS
            },
        }

    def _record_committed(self, length: int, last: tuple[Request, ...]) -> None:
        known = self._committed[-1][0] + 1 if self._committed else 0
        for place, request in enumerate(last, length - len(last)):
            if place >= known:
                self._committed.append((place, request))


def _declaration_order(operation: OperationSpec) -> tuple[bool, int]:
    """Those of the data type as they stand in its file, and then that of all."""
    return operation.name == NOOP.name, operation.source_line


def _failure_text(server: Server) -> str | None:
    """Why it cannot do its part."""
    if server.failure is not None:
        return str(server.failure)
    return None if server.journal.fault is None else str(server.journal.fault)
