"""What goes through a replica: calls on their way in, answers on their way out, both counted."""

import time
from asyncio import Future
from collections.abc import Sequence
from typing import Any

from creekdb.cluster.bounds import Undecided
from creekdb.cluster.desk import Desk
from creekdb.cluster.driver import Driver
from creekdb.cluster.onlooker import Onlooker
from creekdb.cluster.timing import Latencies
from creekdb.protocol.effects import Kind, Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation


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
