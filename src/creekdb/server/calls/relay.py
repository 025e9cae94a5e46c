"""Path of calls from the dispatcher to the driver, and of responses back.

`CallRelay` passes both on and measures their latency. A `CallObserver` sees them as well, for
example the page while a browser has it open. `ReplicaEventHandler` applies replica events and
changes of the disk to the calls that wait.
"""

import asyncio
import time
from asyncio import Future
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from creekdb.errors import StorageFault
from creekdb.protocol.effects import (
    CheckpointInstalled,
    Event,
    RbDelivered,
    Response,
    ResponseKind,
    Task,
)
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.server.calls.admission_control import PendingStrongCalls
from creekdb.server.calls.dispatcher import CallDispatcher
from creekdb.server.observability.latency import CallLatencies
from creekdb.server.runtime.driver import Driver
from creekdb.server.storage.journal import Journal

if TYPE_CHECKING:
    from creekdb.server.runtime.server import Server


class CallObserver(Protocol):
    def on_invocation(self, id: Dot) -> None:
        """Observe a call of a client of this replica."""

    def on_response(self, response: Response) -> None:
        """Observe a response that is sent now."""

    def on_tasks(self, tasks: tuple[Task, ...]) -> None: ...


class CallRelay:
    """Link between the dispatcher and the driver. Both are assigned after construction."""

    def __init__(self, latencies: CallLatencies, pending_strong_calls: PendingStrongCalls) -> None:
        self._latencies = latencies
        self._pending_strong_calls = pending_strong_calls
        self.dispatcher: CallDispatcher | None = None
        self.driver: Driver | None = None
        self.observer: CallObserver | None = None
        self.internal_calls: dict[Dot, Future[Any]] = {}
        """Calls of the replica itself, without a client."""

    def invoke(
        self, operation: Operation, strong: bool, session: int, after: tuple[Dot, ...]
    ) -> Dot:
        assert self.driver is not None
        started_s = time.perf_counter()
        id = self.driver.invoke(operation, strong, session, after)
        self._latencies.record_invocation(id, strong, started_s)
        if self.observer is not None:
            self.observer.on_invocation(id)
        if strong:
            self._pending_strong_calls.add(id)
        return id

    def respond(self, responses: Sequence[Response]) -> None:
        dispatcher, observer, internal_calls = self.dispatcher, self.observer, self.internal_calls
        assert dispatcher is not None
        now_s = time.perf_counter()
        for response in responses:
            self._latencies.record_response(response, now_s)
            if response.kind is ResponseKind.STABLE:
                self._pending_strong_calls.remove(response.id)
            if observer is not None:
                observer.on_response(response)
            if internal_calls and response.id in internal_calls:
                internal_calls.pop(response.id).set_result(response.outcome.value or ())
            dispatcher.respond(response)


DURABLE_POLL_S: Final = 0.05
"""Interval between two checks of the durable position, in seconds."""


class ReplicaEventHandler:
    def __init__(self, server: "Server") -> None:
        self._server = server
        self._logged_disk_failure = ""
        """Disk failure that was logged last. Empty while the disk works."""

    def on_events(self, events: tuple[Event, ...]) -> None:
        server = self._server
        if len(server.pending_strong_calls):
            server.pending_strong_calls.remove_installed(events)
        if any(type(event) is CheckpointInstalled for event in events):
            asyncio.get_running_loop().call_soon(self._abandon_lost_calls)
        if not server.dispatcher.dependency_queue:
            return
        # Release dependents after the effects of this batch are applied. A dependent call is
        # executed after its request, and its records follow the records of that request.
        loop = asyncio.get_running_loop()
        for event in events:
            if isinstance(event, RbDelivered):
                loop.call_soon(server.dispatcher.release_dependents, event.id)
            elif isinstance(event, CheckpointInstalled):
                loop.call_soon(server.dispatcher.release_arrived)

    def on_durable(self) -> None:
        """Release held responses and messages. A longer prefix of the journal is durable."""
        server = self._server
        if self._logged_disk_failure:
            self._logged_disk_failure = ""
            server.event_log.info("disk.works", "the disk has recovered")
        server.driver.release()

    def on_disk_failure(self, fault: StorageFault) -> None:
        server = self._server
        if server.journal.is_broken:
            server.fail(fault)
        elif self._logged_disk_failure != str(fault):
            self._logged_disk_failure = str(fault)
            server.event_log.error("disk.failed", self._logged_disk_failure)
            server.driver.release_reads()
            server.dispatcher.recheck_dependencies()

    def _abandon_lost_calls(self) -> None:
        """Abandon open calls without a pending response, after a checkpoint was installed.

        A checkpoint carries outcomes for waiting clients, but only a bounded number of them.
        """
        server = self._server
        is_awaited = server.driver.replica.view.has_pending_response
        lost = [id for id in server.dispatcher.open_calls() if not is_awaited(id)]
        if lost:
            server.task_supervisor.spawn(
                _abandon_when_durable(lost, server.dispatcher, server.journal)
            )
        for id in [each for each in server.relay.internal_calls if not is_awaited(each)]:
            server.relay.internal_calls.pop(id).set_result(())


async def _abandon_when_durable(
    ids: list[Dot], dispatcher: CallDispatcher, journal: Journal
) -> None:
    """Abandon the calls after all known responses, which wait for the disk, have been sent."""
    end = journal.end_position
    while journal.durable_position < end:
        await asyncio.sleep(DURABLE_POLL_S)
    await asyncio.sleep(DURABLE_POLL_S)
    dispatcher.abandon(ids)
