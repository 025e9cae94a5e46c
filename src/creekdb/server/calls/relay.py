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
from creekdb.protocol.effects import Event, Installed, Kind, RbDelivered, Response, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.server.calls.admission_control import Undecided
from creekdb.server.calls.dispatcher import Desk
from creekdb.server.observability.latency import Latencies
from creekdb.server.runtime.driver import Driver
from creekdb.server.storage.journal import Journal

if TYPE_CHECKING:
    from creekdb.server.runtime.server import Server


class Onlooker(Protocol):
    def invoked(self, id: Dot) -> None:
        """A client of this replica has called."""

    def answered(self, response: Response) -> None:
        """This leaves now."""

    def executing(self, tasks: tuple[Task, ...]) -> None: ...


class Traffic:
    """Between the `desk` and the `driver`, which are told to it before there is any."""

    def __init__(self, latencies: Latencies, undecided: Undecided) -> None:
        self._latencies = latencies
        self._undecided = undecided
        self.desk: Desk | None = None
        self.driver: Driver | None = None
        self.onlooker: Onlooker | None = None
        self.own: dict[Dot, Future[Any]] = {}
        """Calls of the replica itself, not of a client."""

    def invoke(
        self, operation: Operation, strong: bool, session: int, after: tuple[Dot, ...]
    ) -> Dot:
        assert self.driver is not None
        at = time.perf_counter()
        id = self.driver.invoke(operation, strong, session, after)
        self._latencies.invoked(id, strong, at)
        if self.onlooker is not None:
            self.onlooker.invoked(id)
        if strong:
            self._undecided.issued(id)
        return id

    def respond(self, responses: Sequence[Response]) -> None:
        desk, onlooker, own = self.desk, self.onlooker, self.own
        assert desk is not None
        now = time.perf_counter()
        for response in responses:
            self._latencies.answered(response, now)
            if response.kind is Kind.STABLE:
                self._undecided.answered(response.id)
            if onlooker is not None:
                onlooker.answered(response)
            if own and response.id in own:
                own.pop(response.id).set_result(response.outcome.value or ())
            desk.respond(response)


UNTOLD_S: Final = 0.05
"""Between two looks whether all answers have left."""


class Noticing:
    def __init__(self, server: "Server") -> None:
        self._server = server
        self._disk_told = ""
        """Why it does not work, as it was told last."""

    def happened(self, events: tuple[Event, ...]) -> None:
        server = self._server
        if len(server.undecided):
            server.undecided.observe(events)
        if any(type(event) is Installed for event in events):
            asyncio.get_running_loop().call_soon(self._look_for_untold)
        if not server.desk.waiting:
            return
        # Not before the effects that these events come with are carried out: who comes after a
        # request is executed after it, and its records follow those of that request.
        loop = asyncio.get_running_loop()
        for event in events:
            if isinstance(event, RbDelivered):
                loop.call_soon(server.desk.arrived, event.id)
            elif isinstance(event, Installed):
                loop.call_soon(server.desk.arrived_all)

    def disk_works(self) -> None:
        """More has become durable."""
        server = self._server
        if self._disk_told:
            self._disk_told = ""
            server.events.info("disk.works", "the disk works again")
        server.driver.release()

    def disk_failed(self, fault: StorageFault) -> None:
        server = self._server
        if server.journal.broken:
            server.fail(fault)
        elif self._disk_told != str(fault):
            self._disk_told = str(fault)
            server.events.error("disk.failed", self._disk_told)
            server.driver.disk_failed()
            server.desk.look_again()

    def _look_for_untold(self) -> None:
        """A checkpoint brings answers that clients wait for, but not any number of them."""
        server = self._server
        awaits = server.driver.replica.awaits
        untold = [id for id in server.desk.asked() if not awaits(id)]
        if untold:
            server.tasks.spawn(_give_up(untold, server.desk, server.journal))
        for id in [each for each in server.traffic.own if not awaits(each)]:
            server.traffic.own.pop(id).set_result(())


async def _give_up(ids: list[Dot], desk: Desk, journal: Journal) -> None:
    """Once those answers have left that are known: they wait for the disk."""
    end = journal.end
    while journal.durable < end:
        await asyncio.sleep(UNTOLD_S)
    await asyncio.sleep(UNTOLD_S)
    desk.give_up(ids)
