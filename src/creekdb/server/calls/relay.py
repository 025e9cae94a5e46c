"""Whoever looks on while a replica works: the page, for instance, while somebody has it open.

What goes through a replica: calls on their way in, answers on their way out, both counted.

What follows for those who wait, when something happened at a replica or to its disk.
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
        """A client of this replica has called."""

    def on_response(self, response: Response) -> None:
        """This leaves now."""

    def on_tasks(self, tasks: tuple[Task, ...]) -> None: ...


class CallRelay:
    """Between the `desk` and the `driver`, which are told to it before there is any."""

    def __init__(self, latencies: CallLatencies, undecided: PendingStrongCalls) -> None:
        self._latencies = latencies
        self._pending_strong_calls = undecided
        self.dispatcher: CallDispatcher | None = None
        self.driver: Driver | None = None
        self.observer: CallObserver | None = None
        self.internal_calls: dict[Dot, Future[Any]] = {}
        """Calls of the replica itself, not of a client."""

    def invoke(
        self, operation: Operation, strong: bool, session: int, after: tuple[Dot, ...]
    ) -> Dot:
        assert self.driver is not None
        at = time.perf_counter()
        id = self.driver.invoke(operation, strong, session, after)
        self._latencies.record_invocation(id, strong, at)
        if self.observer is not None:
            self.observer.on_invocation(id)
        if strong:
            self._pending_strong_calls.add(id)
        return id

    def respond(self, responses: Sequence[Response]) -> None:
        desk, onlooker, own = self.dispatcher, self.observer, self.internal_calls
        assert desk is not None
        now = time.perf_counter()
        for response in responses:
            self._latencies.record_response(response, now)
            if response.kind is ResponseKind.STABLE:
                self._pending_strong_calls.remove(response.id)
            if onlooker is not None:
                onlooker.on_response(response)
            if own and response.id in own:
                own.pop(response.id).set_result(response.outcome.value or ())
            desk.respond(response)


DURABLE_POLL_S: Final = 0.05
"""Between two looks whether all answers have left."""


class ReplicaEventHandler:
    def __init__(self, server: "Server") -> None:
        self._server = server
        self._logged_disk_failure = ""
        """Why it does not work, as it was told last."""

    def on_events(self, events: tuple[Event, ...]) -> None:
        server = self._server
        if len(server.pending_strong_calls):
            server.pending_strong_calls.remove_installed(events)
        if any(type(event) is CheckpointInstalled for event in events):
            asyncio.get_running_loop().call_soon(self._abandon_lost_calls)
        if not server.dispatcher.dependency_queue:
            return
        # Not before the effects that these events come with are carried out: who comes after a
        # request is executed after it, and its records follow those of that request.
        loop = asyncio.get_running_loop()
        for event in events:
            if isinstance(event, RbDelivered):
                loop.call_soon(server.dispatcher.release_dependents, event.id)
            elif isinstance(event, CheckpointInstalled):
                loop.call_soon(server.dispatcher.release_arrived)

    def on_durable(self) -> None:
        """More has become durable."""
        server = self._server
        if self._logged_disk_failure:
            self._logged_disk_failure = ""
            server.event_log.info("disk.works", "the disk works again")
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
        """A checkpoint brings answers that clients wait for, but not any number of them."""
        server = self._server
        awaits = server.driver.replica.has_pending_response
        untold = [id for id in server.dispatcher.open_calls() if not awaits(id)]
        if untold:
            server.task_supervisor.spawn(
                _abandon_when_durable(untold, server.dispatcher, server.journal)
            )
        for id in [each for each in server.relay.internal_calls if not awaits(each)]:
            server.relay.internal_calls.pop(id).set_result(())


async def _abandon_when_durable(ids: list[Dot], desk: CallDispatcher, journal: Journal) -> None:
    """Once those answers have left that are known: they wait for the disk."""
    end = journal.end_position
    while journal.durable_position < end:
        await asyncio.sleep(DURABLE_POLL_S)
    await asyncio.sleep(DURABLE_POLL_S)
    desk.abandon(ids)
