"""Access of the HTTP interface to its replica."""

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from creekdb.execution.keys import LAST_COLLATION_KEY, CollationKey
from creekdb.protocol.effects import Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.values import Key
from creekdb.server.backup.capture import wait_until_durable
from creekdb.server.calls.dispatcher import ClientCalls
from creekdb.server.observability.metrics import metric_families, render_metrics
from creekdb.server.observability.status import ReplicaSources
from creekdb.server.security.authentication import AccessTokens
from creekdb.wire.addresses import is_loopback, parse_address
from creekdb.wire.messages import CallIssued, CallRequest, CallResponse, Rejected
from creekdb.wire.reject_reason import RejectReason

ItemIterator: TypeAlias = Generator[tuple[Key, Any], None, None]
BackendEvent: TypeAlias = CallIssued | CallResponse | Rejected
"""Events of one call: its identifier and then its responses, or a rejection."""


READY_LAG_MAX: Final = 64
"""Upper bound for the lag of a ready replica, in decided instances."""


class ReplicaBackend:
    """Replica behind the HTTP interface."""

    def __init__(
        self, sources: ReplicaSources, tokens: AccessTokens, durable_timeout_s: float
    ) -> None:
        self._sources = sources
        self._tokens = tokens
        self._durable_timeout_s = durable_timeout_s
        self._dispatcher = sources.dispatcher
        self.datatype = sources.dispatcher.datatype

    def invoke(
        self, client: str, request: CallRequest, on_event: Callable[[BackendEvent], None]
    ) -> Callable[[], None]:
        """Issue the call and pass its events to `on_event`, up to the last response.

        A retry with the same client name and number is the same call. Without a name, every
        request is a new call. The returned function cancels the subscription.
        """
        calls = ClientCalls(self._dispatcher, _HttpSink(client, on_event))
        calls.submit(request)
        return calls.cancel_all

    def allows(self, token: str) -> bool:
        """True if a client with this token, or with an empty one, may call operations."""
        return self._tokens.can_call(token)

    def is_loopback_only(self) -> bool:
        """True if the replica requires no token and listens on a loopback address only."""
        host, _ = parse_address(self._sources.config.http)
        return not self._tokens.is_required and is_loopback(host)

    def count_rejection(self, reason: RejectReason) -> None:
        self._dispatcher.count(reason)

    def status(self) -> dict[str, Any]:
        return self._sources.status()

    def readiness_problems(self) -> list[str]:
        """Return the reasons why clients should avoid this replica, or an empty list."""
        sources = self._sources
        rejection = sources.admission.rejection(False, False)
        problems = [] if rejection is None else [rejection[1]]
        if not sources.membership.accepts_calls:
            problems.append(
                "the data directory was empty at the start, and the replica has not joined yet"
            )
        leader = sources.driver.replica.view.leader()
        if leader is None:
            problems.append("no leader is elected")
        elif leader not in (sources.config.replica, *sources.peers.connected_members()):
            problems.append(f"the leader, replica {leader}, is not connected")
        lag = sources.lag_instances()
        if lag > READY_LAG_MAX:
            problems.append(f"the replica lags by {lag} decided instances")
        return problems

    def readable_lengths(self) -> range:
        return self._sources.driver.replica.view.readable_lengths()

    def committed_items(self, length: int, start: CollationKey, stop: CollationKey) -> ItemIterator:
        """Iterate over the registers of the data type, like `ReplicaView.committed_items`.

        The caller must close the iterator; the replica executes nothing while it is open.
        """
        driver = self._sources.driver
        stop = min(stop, LAST_COLLATION_KEY)
        if start < stop:
            with driver.executor.lock:
                yield from driver.replica.view.committed_items(length, start, stop)

    async def wait_durable(self) -> bool:
        """Wait briefly until everything committed so far is on disk; return False on failure."""
        self._sources.driver.apply_effects()  # appends all their causes to the journal
        return await wait_until_durable(self._sources.journal, self._durable_timeout_s)

    async def wait_call_durable(self) -> bool:
        """Wait like `wait_durable`, unless responses do not wait for the disk either."""
        return self._sources.config.durability == "memory" or await self.wait_durable()

    def metrics(self) -> str:
        return render_metrics(metric_families(self._sources))


class _HttpSink:
    """`ResponseSink` of one HTTP call."""

    def __init__(self, client: str, on_event: Callable[[BackendEvent], None]) -> None:
        self.client = client
        self.token = ""  # HTTP calls cannot change the membership
        self.not_joined_reason = RejectReason.NOT_READY
        self._on_event = on_event

    def send_issued(self, number: int, id: Dot) -> None:
        self._on_event(CallIssued(number, id))

    def send_response(self, number: int, response: Response) -> None:
        outcome = response.outcome
        self._on_event(
            CallResponse(
                number, response.kind.value, outcome.value, outcome.error, response.changed
            )
        )

    def send_rejection(self, rejected: Rejected) -> None:
        self._on_event(rejected)
