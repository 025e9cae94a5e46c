"""Port between the HTTP interface and its replica, and the implementation by a live server."""

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
from creekdb.wire.reject_reason import RejectReason

ItemIterator: TypeAlias = Generator[tuple[Key, Any], None, None]
BackendEvent: TypeAlias = CallIssued | CallResponse | Rejected
"""Events of one call: its identifier and then its responses, or a rejection."""


class BackendCall(NamedTuple):
    operation: str
    arguments: tuple[Any, ...]
    strong: bool
    client: str = ""
    """Client name. A retry with the same name and number is the same call; without a name, every
    request is a new call."""
    number: int = 0
    after: tuple[Dot, ...] = ()
    wait_ms: int = 0
    """Upper bound for the wait for missing dependencies, in milliseconds."""


class Backend(Protocol):
    datatype: DataType

    def invoke(
        self, call: BackendCall, on_event: Callable[[BackendEvent], None]
    ) -> Callable[[], None]:
        """Issue the call and pass its events to `on_event`, up to the last response.

        The returned function cancels the subscription.
        """

    def allows(self, token: str) -> bool:
        """True if a client with this token, or with an empty one, may call operations."""

    def is_loopback_only(self) -> bool:
        """True if the replica requires no token and listens on a loopback address only."""

    def count_rejection(self, reason: RejectReason) -> None:
        """Count one rejected request under its reason."""

    def status(self) -> dict[str, Any]: ...

    def readiness_problems(self) -> list[str]:
        """Return the reasons why clients should avoid this replica, or an empty list."""

    def readable_lengths(self) -> range: ...

    def committed_items(self, length: int, start: CollationKey, stop: CollationKey) -> ItemIterator:
        """Iterate over the registers of the data type, like `Replica.committed_items`.

        The caller must close the iterator; the replica executes nothing while it is open.
        """

    async def wait_durable(self) -> bool:
        """Wait briefly until everything committed so far is on disk; return False on failure."""

    async def wait_call_durable(self) -> bool:
        """Wait like `wait_durable`, unless responses do not wait for the disk either."""

    def metrics(self) -> str: ...


READY_LAG_MAX: Final = 64
"""Upper bound for the lag of a ready replica, in decided instances."""


class ReplicaBackend:
    """`Backend` of a live server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.datatype = server.dispatcher.datatype

    def invoke(
        self, call: BackendCall, on_event: Callable[[BackendEvent], None]
    ) -> Callable[[], None]:
        sink = _HttpResponseSink(self._server.dispatcher, call, on_event)
        sink.start()
        return sink.unsubscribe

    def allows(self, token: str) -> bool:
        return self._server.dispatcher.tokens.can_call(token)

    def is_loopback_only(self) -> bool:
        host, _ = parse_address(self._server.config.http)
        return not self._server.dispatcher.tokens.is_required and is_loopback(host)

    def count_rejection(self, reason: RejectReason) -> None:
        self._server.dispatcher.count(reason)

    def status(self) -> dict[str, Any]:
        return self._server.status()

    def readiness_problems(self) -> list[str]:
        server = self._server
        rejection = server.dispatcher.rejection(False, False)
        problems = [] if rejection is None else [rejection[1]]
        replica = server.driver.replica.view
        if server.dispatcher.startup_barrier is not None:
            problems.append(
                "the data directory was empty at the start, and the replica has not joined yet"
            )
        leader = replica.leader()
        if leader is None:
            problems.append("no leader is elected")
        elif leader != server.config.replica and leader not in server.peers.connected_members():
            problems.append(f"the leader, replica {leader}, is not connected")
        lag = lag_instances(replica.stable_instances(), server.config.replica)
        if lag > READY_LAG_MAX:
            problems.append(f"the replica lags by {lag} decided instances")
        return problems

    def readable_lengths(self) -> range:
        return self._server.driver.replica.view.readable_lengths()

    def committed_items(self, length: int, start: CollationKey, stop: CollationKey) -> ItemIterator:
        driver = self._server.driver
        stop = min(stop, LAST_COLLATION_KEY)
        if start < stop:
            with driver.executor.lock:
                yield from driver.replica.view.committed_items(length, start, stop)

    async def wait_durable(self) -> bool:
        self._server.driver.apply_effects()  # appends all their causes to the journal
        return await wait_until_durable(self._server.journal)

    async def wait_call_durable(self) -> bool:
        return self._server.config.durability == "memory" or await self.wait_durable()

    def metrics(self) -> str:
        return render_metrics(metric_families(self._server))


class _HttpResponseSink:
    """`ResponseSink` of one HTTP call."""

    def __init__(
        self,
        dispatcher: CallDispatcher,
        call: BackendCall,
        on_event: Callable[[BackendEvent], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._on_event = on_event
        self.client = call.client
        self.token = ""  # HTTP calls cannot change the membership
        self._call = CallRequest(
            call.number,
            call.operation,
            call.arguments,
            call.strong,
            after=call.after,
            wait_ms=call.wait_ms,
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

    # --- callbacks of the dispatcher ----------------------------------------------------------

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

    def reject(self, call: CallRequest, reason: RejectReason, message: str) -> None:
        self._finish()
        self._on_event(Rejected(call.number, reason, message))

    def retry(self, number: int) -> None:
        self._dispatcher.dispatch(self, self._call)

    def reject_expired(self, number: int, missing: Dot) -> None:
        has_joined = missing != self._dispatcher.startup_barrier
        reason = RejectReason.DEADLINE if has_joined else RejectReason.NOT_READY
        self.reject(self._call, reason, self._dispatcher.expiry_message(missing))

    def reject_unknown_outcome(self, number: int) -> None:
        self.unsubscribe()
        message = "the call was executed, but this replica no longer has its response"
        self._on_event(Rejected(number, RejectReason.UNKNOWN_OUTCOME, message, is_certain=False))

    def _finish(self) -> None:
        if self._is_pending:
            self._is_pending = False
            self._dispatcher.in_flight -= 1
            self._dispatcher.dependency_queue.remove((self, self._call.number))
