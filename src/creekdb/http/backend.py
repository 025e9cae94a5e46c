"""What the gateway asks of the replica that it stands before.

A live server, asked as the gateway asks.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from creekdb.execution.datatype import DataType
from creekdb.execution.keys import LAST_COLLATION_KEY, CollationKey
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.values import Key
from creekdb.server.backup.capture import wait_until_durable
from creekdb.server.calls.dispatcher import CallDispatcher
from creekdb.server.observability.metrics import lag_instances, metric_families, render_metrics
from creekdb.server.runtime.server import Server
from creekdb.wire.addresses import is_loopback, parse_address
from creekdb.wire.messages import CallIssued, CallRequest, CallResponse, Rejected

ItemIterator: TypeAlias = Generator[tuple[Key, Any], None, None]
BackendEvent: TypeAlias = CallIssued | CallResponse | Rejected
"""First that a call has its place, and then its answers; or that it is refused."""


class BackendCall(NamedTuple):
    operation: str
    arguments: tuple[Any, ...]
    strong: bool
    client: str = ""
    """With a name and a number, asked again it is the same call; without, it is another one."""
    number: int = 0
    after: tuple[Dot, ...] = ()
    wait_ms: int = 0
    """How long those before it may take to arrive."""


class Backend(Protocol):
    datatype: DataType

    def invoke(
        self, asked: BackendCall, hear: Callable[[BackendEvent], None]
    ) -> Callable[[], None]:
        """`hear` is told what comes of it, from now on and until the last answer. Call what is
        returned to hear no more."""

    def allows(self, token: str) -> bool:
        """May one with this token, or with none, ask for anything?"""

    def is_loopback_only(self) -> bool:
        """May everybody on this machine ask, and nobody else?"""

    def count_rejection(self, reason: str) -> None:
        """Something was refused."""

    def status(self) -> dict[str, Any]: ...

    def readiness_problems(self) -> list[str]:
        """Why it should not be asked for anything at present."""

    def readable_lengths(self) -> range: ...

    def committed_items(self, length: int, start: CollationKey, stop: CollationKey) -> ItemIterator:
        """As `creekdb.schemes.core.replica.Replica` has it, without what is not the data type's. To
        be closed: meanwhile nothing is executed."""

    async def wait_durable(self) -> bool:
        """Is what was committed so far on disk? If not, it is waited for, but not for long: what is
        not may come to nothing."""

    async def wait_call_durable(self) -> bool:
        """Is what was called so far as safe as what was answered? If not, the same."""

    def metrics(self) -> str: ...


READY_LAG_MAX: Final = 64
"""Decisions that a replica may be behind and count as ready."""


class ReplicaBackend:
    """A `Backend`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.datatype = server.dispatcher.datatype

    def invoke(
        self, asked: BackendCall, hear: Callable[[BackendEvent], None]
    ) -> Callable[[], None]:
        caller = _HttpResponseSink(self._server.dispatcher, asked, hear)
        caller.start()
        return caller.unsubscribe

    def allows(self, token: str) -> bool:
        return self._server.dispatcher.tokens.can_call(token)

    def is_loopback_only(self) -> bool:
        host, _ = parse_address(self._server.config.http)
        return not self._server.dispatcher.tokens.is_required and is_loopback(host)

    def count_rejection(self, reason: str) -> None:
        self._server.dispatcher.count(reason)

    def status(self) -> dict[str, Any]:
        return self._server.status()

    def readiness_problems(self) -> list[str]:
        server = self._server
        refusal = server.dispatcher.rejection(False, False)
        reasons = [] if refusal is None else [refusal[1]]
        replica = server.driver.replica
        if server.dispatcher.startup_barrier is not None:
            reasons.append("its disk was empty, and it does not take part yet")
        leader = replica.leader()
        if leader is None:
            reasons.append("nobody leads")
        elif leader != server.config.replica and leader not in server.peers.connected_members():
            reasons.append(f"there is no connection to replica {leader}, which leads")
        behind = lag_instances(replica.stable_instances(), server.config.replica)
        if behind > READY_LAG_MAX:
            reasons.append(f"it is {behind} decisions behind")
        return reasons

    def readable_lengths(self) -> range:
        return self._server.driver.replica.readable_lengths()

    def committed_items(self, length: int, start: CollationKey, stop: CollationKey) -> ItemIterator:
        driver = self._server.driver
        stop = min(stop, LAST_COLLATION_KEY)
        if start < stop:
            with driver.executor.lock:
                yield from driver.replica.committed_items(length, start, stop)

    async def wait_durable(self) -> bool:
        self._server.driver.apply_effects()  # so that the journal has all that led to it
        return await wait_until_durable(self._server.journal)

    async def wait_call_durable(self) -> bool:
        return self._server.config.durability == "memory" or await self.wait_durable()

    def metrics(self) -> str:
        return render_metrics(metric_families(self._server))


class _HttpResponseSink:
    """One call, at the desk where the connections of clients call as well."""

    def __init__(
        self, desk: CallDispatcher, asked: BackendCall, hear: Callable[[BackendEvent], None]
    ) -> None:
        self._dispatcher = desk
        self._on_event = hear
        self.client = asked.client
        self.token = ""  # members are not changed over HTTP
        self._call = CallRequest(
            asked.number,
            asked.operation,
            asked.arguments,
            asked.strong,
            after=asked.after,
            wait_ms=asked.wait_ms,
        )
        self._id: Dot | None = None
        self._is_pending = True

    def start(self) -> None:
        self._dispatcher.in_flight += 1
        self._dispatcher.dispatch(self, self._call)

    def unsubscribe(self) -> None:
        self._finish()
        if self._id is not None:
            self._dispatcher.unregister((self._id,))

    # --- what the desk says -------------------------------------------------------------------

    def session_id(self, number: int) -> int:
        return self._dispatcher.next_session()

    def report_issued(self, number: int, id: Dot) -> None:
        self._id = id
        self._on_event(CallIssued(number, id))

    def respond(self, number: int, response: Response) -> None:
        outcome = response.outcome
        kind = response.kind
        if kind is not ResponseKind.TENTATIVE or response.id.event < 0:
            self.unsubscribe()
        elif not self._call.strong:
            self._finish()
        self._on_event(
            CallResponse(number, kind.value, outcome.value, outcome.error, response.changed)
        )

    def reject(self, call: CallRequest, reason: str, message: str) -> None:
        self._finish()
        self._on_event(Rejected(call.number, reason, message))

    def retry(self, number: int) -> None:
        self._dispatcher.dispatch(self, self._call)

    def reject_expired(self, number: int, missing: Dot) -> None:
        reason = "not_ready" if missing == self._dispatcher.startup_barrier else "deadline"
        self.reject(self._call, reason, self._dispatcher.expiry_message(missing))

    def reject_unknown_outcome(self, number: int) -> None:
        self.unsubscribe()
        message = "it was done, and what came of it is not known at this replica"
        self._on_event(Rejected(number, "untold", message, is_certain=False))

    def _finish(self) -> None:
        if self._is_pending:
            self._is_pending = False
            self._dispatcher.in_flight -= 1
            self._dispatcher.dependency_queue.remove((self, self._call.number))
