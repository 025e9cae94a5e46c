"""State of one replica as the page shows it: recent operations, links, latencies and counters.

All open pages share one update, so the cost is bounded by the update rate and by the number of
operations shown. After the last page is closed, updates continue for a while because pages are
reloaded. Then they stop, and the history is discarded.

Under `creek up`, calls are observed from the start, so that a page shows the responses of earlier
calls. Elsewhere, only calls made while a page is open are observed.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from creekdb.http import sql
from creekdb.http.operations import OperationCatalog, OperationSpec
from creekdb.protocol.effects import Response, Task, TaskKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import NOOP, Operation, Outcome, Request
from creekdb.server.observability.latency import LATENCY_BOUNDS_S
from creekdb.server.observability.status import UNLOGGED_REASONS, ReplicaSources
from creekdb.server.runtime.task_supervisor import Spawn
from creekdb.wire.counters import ServerCounter
from creekdb.wire.deduplication import INTERNAL_PREFIX, describe_call
from creekdb.wire.dev_control import DevControl

OPERATIONS_MAX: Final = 1024
RESPONSES_MAX: Final = 8
"""Upper bound for the retained responses of one call: the first and the latest ones."""
TEXT_MAX: Final = 80


class OperationHistory(msgspec.Struct):
    executions: int = 0
    started_s: float | None = None
    """Monotonic time of the call in seconds, or None for a call of another replica."""
    called_at_ms: int = 0
    """Wall-clock time of the call, in milliseconds since the epoch."""
    responses: list[dict[str, Any]] = []


class CallHistory:
    """`CallObserver` that counts executions and records responses of the latest operations.

    `is_sql`: True if calls are shown as SQL statements.
    """

    def __init__(self, is_sql: bool = False) -> None:
        self._describe = sql.describe_operation if is_sql else describe_call
        self._describe_outcome = sql.describe_outcome if is_sql else outcome_text
        self._by_id: dict[Dot, OperationHistory] = {}

    def on_invocation(self, id: Dot) -> None:
        history = self._history_of(id)
        history.started_s, history.called_at_ms = time.perf_counter(), time.time_ns() // 1_000_000

    def on_response(self, response: Response) -> None:
        history = self._by_id.get(response.id)
        if history is None or history.started_s is None:
            return
        entry = {
            "kind": response.kind.value,
            "ms": round((time.perf_counter() - history.started_s) * 1000, 2),
            "says": shorten(self._describe_outcome(response.outcome)),
            "raised": response.outcome.error is not None,
            "changed": response.changed,
        }
        if len(history.responses) == RESPONSES_MAX:
            del history.responses[1]
        history.responses.append(entry)

    def on_tasks(self, tasks: tuple[Task, ...]) -> None:
        for task in tasks:
            if task.kind is TaskKind.EXECUTE:
                self._history_of(task.request.id).executions += 1

    def entry(self, request: Request) -> dict[str, Any]:
        """Return the request as the page shows it."""
        operation = request.operation
        history = self._by_id.get(request.id)
        fields: dict[str, Any] = {
            "id": str(request.id),
            "says": shorten(self._describe(operation)),
            "strong": request.strong,
            "own": is_internal(operation),
            "runs": 0 if history is None else history.executions,
        }
        if history is not None and history.started_s is not None:
            fields |= {"called_at": history.called_at_ms, "responses": history.responses}
        return fields

    def _history_of(self, id: Dot) -> OperationHistory:
        history = self._by_id.get(id)
        if history is None:
            history = self._by_id[id] = OperationHistory()
            if len(self._by_id) > OPERATIONS_MAX:
                del self._by_id[next(iter(self._by_id))]
        return history


def is_internal(operation: Operation) -> bool:
    """True if the cluster, not a client, issued the operation."""
    return operation == NOOP or (
        operation.name.startswith(INTERNAL_PREFIX)
        and describe_call(operation).startswith(INTERNAL_PREFIX)
    )


def outcome_text(outcome: Outcome) -> str:
    return repr(outcome.value) if outcome.error is None else outcome.error


def shorten(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


UPDATE_INTERVAL_S: Final = 0.2
KEEPALIVE_S: Final = 2.0
"""Interval between keepalive comments on an idle stream, in seconds."""
OPERATIONS_SHOWN: Final = 50
"""Upper bound for the operations in each list."""
NETWORK_REASONS: Final = UNLOGGED_REASONS | {ServerCounter.CUT}
"""Rejection reasons that mean a broken link. The page shows them as links that are down."""


class PageFeed:
    def __init__(
        self,
        sources: ReplicaSources,
        operations: OperationCatalog,
        version: str,
        spawn: Spawn,
        dev_control: Callable[[], DevControl | None],
        idle_timeout_s: float,
    ) -> None:
        """`idle_timeout_s`: time for which updates continue without an open page, in seconds."""
        self._sources = sources
        self._spawn = spawn
        self._dev_control = dev_control
        self._idle_timeout_s = idle_timeout_s
        self._is_sql = sql.is_supported(operations)
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
        self._call_history = self._new_history()
        self._committed: deque[tuple[int, Request]] = deque(maxlen=OPERATIONS_SHOWN)
        """Latest committed requests with their positions, also after the replica compacted them."""
        self._state: dict[str, Any] = {}
        self._changed = asyncio.Event()
        self._update_task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._observes_always = False

    async def follow(self) -> AsyncGenerator[tuple[str, Any] | None, None]:
        """Iterate over the events of one page.

        `about` describes the replica, at first and after changes; `now` is its state. None stands
        for a keepalive.
        """
        self.open_pages += 1
        try:
            if self._update_task is None:
                self._update()
                self._update_task = self._spawn(self._update_loop())
            about: dict[str, Any] = {}
            while not self._is_stopped:
                changed, now = self._changed, self._state
                if about != (description := self._describe_replica()):
                    about = description
                    yield "about", about
                yield "now", now
                try:
                    async with asyncio.timeout(KEEPALIVE_S):
                        await changed.wait()
                except TimeoutError:
                    yield None
        finally:
            self.open_pages -= 1

    def observe_calls(self) -> None:
        """Observe calls from now on, also while no page is open."""
        self._observes_always = True
        self._sources.dispatcher.set_observer(self._call_history)

    def _new_history(self) -> CallHistory:
        return CallHistory(self._is_sql)

    async def stop(self) -> None:
        self._is_stopped = True
        self._changed.set()
        if self._update_task is not None:
            self._update_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._update_task

    async def _update_loop(self) -> None:
        self._sources.dispatcher.set_observer(self._call_history)
        idle_updates = 0
        try:
            while idle_updates * UPDATE_INTERVAL_S < self._idle_timeout_s:
                await asyncio.sleep(UPDATE_INTERVAL_S)
                self._update()
                idle_updates = 0 if self.open_pages else idle_updates + 1
        finally:
            if not self._observes_always:
                self._sources.dispatcher.set_observer(None)
                self._call_history = self._new_history()
            self._committed.clear()
            self._update_task = None

    def _update(self) -> None:
        now = self.replica_state()
        if now != self._state:
            self._state = now
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    # --- contents -----------------------------------------------------------------------------

    def _describe_replica(self) -> dict[str, Any]:
        status, dev_control = self._sources.status(), self._dev_control()
        urls = self._sources.peers.http_urls
        pages = {str(replica): url for replica, url in urls.items() if url}
        fields = {
            name: status[name] for name in ("cluster", "replica", "members", "datatype", "scheme")
        }
        dev_fields = None
        if dev_control is not None:
            dev_fields = {
                "control": dev_control.control,
                "secret": dev_control.secret,
                "replicas": sorted(dev_control.pages),
            }
            pages |= {str(replica): url for replica, url in dev_control.pages.items()}
        return fields | {
            "version": self._version,
            "pages": pages,
            "operations": self._operations,
            "bounds_s": LATENCY_BOUNDS_S,
            "trial": dev_fields,
        }

    def replica_state(self) -> dict[str, Any]:
        sources = self._sources
        replica, failure = sources.driver.replica.view, sources.failure() or sources.journal.fault
        counts = replica.probes.counts
        length = replica.committed_length()
        self._record_committed(length, replica.last_committed(OPERATIONS_SHOWN))
        call_history = self._call_history
        return {
            "leader": replica.leader(),
            "connected": sorted(sources.peers.connected_members()),
            "cut": sorted(sources.peers.disconnected),
            "waits_for": replica.awaited_members(),
            "differing": sources.differing_operations(),
            "problem": None if failure is None else str(failure),
            "lag": sources.lag_instances(),
            "committed_length": length,
            "tentative_length": replica.tentative_length(),
            "committed": [
                call_history.entry(request) | {"place": position}
                for position, request in self._committed
            ],
            "tentative": [
                call_history.entry(each) for each in replica.last_tentative(OPERATIONS_SHOWN)
            ],
            "calls": {
                response: {"counts": list(histogram.counts), "total_s": round(histogram.total, 6)}
                for response, histogram in sources.dispatcher.latencies.by_response().items()
            },
            "backlog": sources.driver.backlog,
            "undecided": len(sources.admission.pending_strong),
            "reexecutions": counts.get(Probe.REEXECUTED, 0),
            "apologies": counts.get(Probe.APOLOGY, 0),
            "refused": {
                reason: number
                for reason, number in sources.rejections_by_reason().items()
                if reason not in NETWORK_REASONS
            },
        }

    def _record_committed(self, length: int, last: tuple[Request, ...]) -> None:
        next_position = self._committed[-1][0] + 1 if self._committed else 0
        for position, request in enumerate(last, length - len(last)):
            if position >= next_position:
                self._committed.append((position, request))


def _declaration_order(operation: OperationSpec) -> tuple[bool, int]:
    """Sort key: operations of the data type in source order, and then the no-op."""
    return operation.name == NOOP.name, operation.source_line
