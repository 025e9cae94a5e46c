"""Call dispatcher: the states of a call, its dependencies, and the startup barrier."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from creekdb.datatypes.kv import KV
from creekdb.datatypes.sql import SQL
from creekdb.errors import MalformedMessage, StorageFault
from creekdb.execution.datatype import DataType
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.request import Operation, Outcome
from creekdb.schemes.core.view import ReplicaView
from creekdb.server.calls.admission_control import (
    AdmissionControl,
    AdmissionLimits,
    OperationResolver,
)
from creekdb.server.calls.capabilities import Capabilities
from creekdb.server.calls.dispatcher import CallDispatcher, CallLimits, ClientCalls
from creekdb.server.membership.changes import ADD_MEMBER
from creekdb.server.observability.latency import CallLatencies
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.driver import EffectListener
from creekdb.server.security.authentication import AccessTokens
from creekdb.wire.messages import (
    APPLICATION_BYTES_FEATURE,
    CallRequest,
    OperationArity,
    Rejected,
)
from creekdb.wire.reject_reason import RejectReason
from creekdb.wire.sink_ledgers import APPLICATION_BYTES_MAX
from creekdb.wire.staging import APPLY

DEPENDENCY = Dot(1, 7)
TENTATIVE, STABLE, FINAL = ResponseKind.TENTATIVE, ResponseKind.STABLE, ResponseKind.FINAL


class FakeSink:
    """Client that records everything it receives."""

    client, token = "ann", ""
    not_joined_reason = RejectReason.DEADLINE

    def __init__(self) -> None:
        self.ids: list[Dot] = []
        self.responses: list[tuple[int, ResponseKind]] = []
        self.rejections: list[str] = []

    def send_issued(self, number: int, id: Dot) -> None:
        self.ids.append(id)

    def send_response(self, number: int, response: Response) -> None:
        self.responses.append((number, response.kind))

    def send_rejection(self, rejected: Rejected) -> None:
        self.rejections.append(rejected.reason)


class FakeView(ReplicaView):
    def __init__(self) -> None:
        self.arrived: set[Dot] = set()

    def has_request(self, id: Dot) -> bool:
        return id in self.arrived

    def can_respond_locally(self, operation: Operation, strong: bool) -> bool:
        return False

    def tentative_length(self) -> int:
        return 0

    def must_be_replaced(self) -> bool:
        return False


class FakeReplica:
    """Driver, replica, journal and membership of the dispatcher."""

    def __init__(self) -> None:
        self.replica: Any = self
        self.view = FakeView()
        self.invoked_after: list[tuple[Dot, ...]] = []
        self.durable_position = self.end_position = 0
        self.accepts_calls = True
        self.blocking_reason: str | None = None
        self.configuration = Configuration(0, ())
        self.is_member = True
        self.fault: StorageFault | None = None
        self.pending_bytes = self.backlog = self.pending_batches = 0
        self.has_volatile_request = False

    def invoke(
        self, operation: Operation, strong: bool, session: int, after: tuple[Dot, ...] = ()
    ) -> Dot:
        self.invoked_after.append(after)
        return Dot(0, len(self.invoked_after))

    def subscribe(self, listener: EffectListener) -> None:
        pass

    def observe_tasks(self, observer: object) -> None:
        pass

    def blocked_reason(self) -> str | None:
        return self.blocking_reason

    def connected_members(self) -> list[int]:
        return [2]

    def can_commit(self, silence_s_max: float) -> bool:
        return True

    def validate_change(self, name: str, arguments: tuple[Any, ...]) -> Operation:
        raise NotImplementedError


class DispatcherFixture:
    """Dispatcher with one client."""

    def __init__(
        self,
        limits: CallLimits = CallLimits(),  # noqa: B008
        datatype: DataType = KV,
    ) -> None:
        self.replica = FakeReplica()
        self.capabilities = Capabilities(datatype)
        self.counts: Counter[str] = Counter()
        config = ServerConfig(members={0: "127.0.0.1:1"})
        tokens, replica = AccessTokens(config.security), self.replica
        self.resolver = OperationResolver(self.capabilities, tokens, replica)
        self.admission = AdmissionControl(config, replica, replica, replica, AdmissionLimits())
        self.dispatcher = CallDispatcher(
            self.replica,
            self.replica,
            self.replica,
            self.admission,
            self.resolver,
            lambda reason: self.counts.update([reason]),
            limits,
        )
        self.sink = FakeSink()
        self.calls = ClientCalls(self.dispatcher, self.sink)

    def call(self, number: int, **options: Any) -> None:
        self.calls.submit(CallRequest(number, "put", ("a", 1), **options))

    def respond(self, id: Dot, *kinds: ResponseKind) -> None:
        self.dispatcher.respond([Response(id, 1, kind, Outcome(None)) for kind in kinds])

    def set_capabilities(self, replica: int, operations: Sequence[OperationArity]) -> None:
        self.capabilities.record_peer(replica, operations)

    @property
    def is_clear(self) -> bool:
        """True if nothing is retained of any call."""
        dispatcher = self.dispatcher
        return not (
            dispatcher.in_flight
            or dispatcher.queued_count
            or dispatcher._queued_by_missing
            or dispatcher.open_calls()
            or dispatcher._unattended_calls
            or self.calls.by_number
            or self.calls.pending_count
        )


def totals(latencies: CallLatencies) -> dict[str, int]:
    """Return the count of each kind that was observed."""
    return {
        kind: sum(histogram.counts)
        for kind, histogram in latencies.by_response().items()
        if sum(histogram.counts)
    }


# --- dependencies -----------------------------------------------------------------------------


async def test_call_waits_for_its_dependencies_and_passes_them_to_the_replica() -> None:
    fixture = DispatcherFixture()
    dispatcher = fixture.dispatcher
    fixture.call(1, after=(DEPENDENCY,))
    fixture.call(2, after=(DEPENDENCY,))
    assert dispatcher.queued_count == 2
    fixture.replica.view.arrived.add(DEPENDENCY)
    dispatcher.release(DEPENDENCY)
    assert not dispatcher.queued_count
    assert fixture.sink.ids == [Dot(0, 1), Dot(0, 2)]
    assert fixture.replica.invoked_after == [(DEPENDENCY,)] * 2


@pytest.mark.parametrize("first", [0, 1, 2])
async def test_call_waits_for_all_its_dependencies(first: int) -> None:
    fixture = DispatcherFixture()
    dependencies = (Dot(1, 7), Dot(2, 5), Dot(1, 9))
    fixture.call(1, after=dependencies)
    for index in range(3):
        assert not fixture.sink.ids
        arrived = dependencies[(first + index) % 3]
        fixture.replica.view.arrived.add(arrived)
        fixture.dispatcher.release(arrived)
    assert fixture.sink.ids == [Dot(0, 1)]
    assert fixture.replica.invoked_after == [dependencies]


async def test_blocked_reason_is_empty_as_soon_as_the_replica_is_ready() -> None:
    """Clients would otherwise switch to another replica, although the next check unblocks calls."""
    fixture = DispatcherFixture()
    replica, dispatcher = fixture.replica, fixture.dispatcher
    replica.accepts_calls, replica.blocking_reason = False, "it waits for replica 2"
    assert dispatcher.blocked_reason() == "it waits for replica 2"
    replica.blocking_reason = None
    assert dispatcher.blocked_reason() == ""
    fixture.call(1)
    fixture.call(2)
    assert dispatcher.queued_count == 2
    replica.accepts_calls = True
    dispatcher.release_barrier()
    assert fixture.sink.ids == [Dot(0, 1), Dot(0, 2)]


async def test_call_that_expires_before_the_replica_has_joined_is_rejected() -> None:
    fixture = DispatcherFixture()
    fixture.replica.accepts_calls = False
    fixture.call(1, wait_ms=1)
    while not fixture.sink.rejections:
        await asyncio.sleep(0.001)
    assert fixture.sink.rejections == [RejectReason.DEADLINE]
    assert fixture.is_clear


async def test_queued_call_is_checked_for_unsupported_operations_when_it_is_issued() -> None:
    """Until then a peer may have been restarted, and a read may have become a local read."""
    fixture = DispatcherFixture()
    fixture.set_capabilities(2, [("get", 1, 1)])
    fixture.call(1, after=(DEPENDENCY,))
    assert fixture.dispatcher.queued_count == 1
    assert fixture.sink.rejections == []
    fixture.replica.view.arrived.add(DEPENDENCY)
    fixture.dispatcher.release(DEPENDENCY)
    assert fixture.sink.rejections == [RejectReason.UNKNOWN_OPERATION]
    assert fixture.sink.ids == []
    fixture.set_capabilities(2, [])
    fixture.call(1)
    assert fixture.sink.ids == [Dot(0, 1)]


# --- states of a call -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kinds", "received"),
    [
        ({}, (TENTATIVE, FINAL), [TENTATIVE, FINAL]),
        ({"is_single_response": True}, (TENTATIVE, FINAL), [TENTATIVE]),
        ({"strong": True}, (TENTATIVE, STABLE), [TENTATIVE, STABLE]),
        ({"strong": True, "is_single_response": True}, (TENTATIVE, STABLE), [STABLE]),
        ({"strong": True}, (STABLE,), [STABLE]),
    ],
)
async def test_client_receives_the_responses_that_it_needs(
    options: dict[str, bool], kinds: tuple[ResponseKind, ...], received: list[ResponseKind]
) -> None:
    fixture = DispatcherFixture()
    fixture.call(1, **options)
    assert fixture.dispatcher.in_flight == 1
    fixture.respond(Dot(0, 1), *kinds)
    assert fixture.sink.responses == [(1, kind) for kind in received]
    assert fixture.is_clear
    assert not fixture.admission.pending_strong


async def test_weak_call_is_not_in_flight_after_its_first_response() -> None:
    fixture = DispatcherFixture()
    fixture.call(1)
    fixture.respond(Dot(0, 1), TENTATIVE)
    assert fixture.dispatcher.in_flight == 0
    assert fixture.dispatcher.open_calls() == (Dot(0, 1),)
    fixture.call(1)  # the number is free again, and the first call gets no more responses
    fixture.respond(Dot(0, 1), FINAL)
    fixture.respond(Dot(0, 2), TENTATIVE, FINAL)
    assert fixture.sink.responses == [(1, TENTATIVE)] * 2 + [(1, FINAL)]
    assert fixture.is_clear


async def test_number_of_a_pending_call_cannot_be_used_again() -> None:
    fixture = DispatcherFixture()
    fixture.call(1)
    with pytest.raises(MalformedMessage, match="call 1 is in progress"):
        fixture.call(1)


async def test_oldest_call_gets_no_final_response_above_the_limit() -> None:
    fixture = DispatcherFixture(CallLimits(awaiting_final_max=2))
    for number in (1, 2, 3):
        fixture.call(number)
        fixture.respond(Dot(0, number), TENTATIVE)
    assert fixture.sink.rejections == [RejectReason.BUSY]
    assert fixture.dispatcher.open_calls() == (Dot(0, 2), Dot(0, 3))
    assert not fixture.counts, "the call was not rejected"


async def test_abandoned_call_has_an_unknown_outcome() -> None:
    fixture = DispatcherFixture()
    fixture.call(1)
    fixture.dispatcher.abandon([Dot(0, 1)])
    assert fixture.sink.rejections == [RejectReason.UNKNOWN_OUTCOME]
    assert fixture.counts == {RejectReason.UNKNOWN_OUTCOME: 1}
    assert fixture.is_clear


# --- latencies --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_each_kind_of_response_is_measured_once(is_cancelled: bool) -> None:
    """A slow call that its client cancels is measured, too."""
    fixture = DispatcherFixture()
    fixture.call(1)
    fixture.call(2, strong=True)
    if is_cancelled:
        fixture.calls.cancel_all()
        assert fixture.dispatcher.in_flight == 0
    fixture.respond(Dot(0, 1), TENTATIVE)
    fixture.respond(Dot(0, 2), TENTATIVE, TENTATIVE, STABLE)
    fixture.respond(Dot(0, 1), FINAL)
    assert totals(fixture.dispatcher.latencies) == {
        "weak_tentative": 1,
        "strong_tentative": 1,
        "strong_stable": 1,
        "weak_final": 1,
    }
    assert len(fixture.sink.responses) == (0 if is_cancelled else 5)
    assert fixture.is_clear


async def test_local_read_has_one_response_and_no_final_latency() -> None:
    fixture = DispatcherFixture()
    fixture.call(1)
    call = fixture.dispatcher._open_calls.pop(Dot(0, 1))
    call.id = Dot(0, -1)
    fixture.dispatcher._open_calls[call.id] = call
    fixture.respond(Dot(0, -1), TENTATIVE)
    assert totals(fixture.dispatcher.latencies) == {"weak_tentative": 1}
    assert fixture.is_clear


async def test_calls_without_a_client_are_bounded() -> None:
    fixture = DispatcherFixture(CallLimits(unattended_max=10))
    for number in range(1, 31):
        fixture.call(number)
    fixture.calls.cancel_all()
    assert len(fixture.dispatcher._unattended_calls) == 10
    fixture.respond(Dot(0, 1), FINAL)
    assert totals(fixture.dispatcher.latencies) == {}


# --- overload -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("waiting", "is_rejected"), [(256, False), (257, True)])
async def test_only_many_calls_that_wait_for_their_commit_are_an_overload(
    waiting: int, is_rejected: bool
) -> None:
    fixture = DispatcherFixture()
    admission = fixture.admission
    for event in range(1, waiting + 1):
        admission.uncommitted.add(Dot(0, event))
    for _ in range(6):
        admission.record_tick(0.1)

    assert (admission.rejection(strong=False, local_read=False) is not None) is is_rejected
    assert admission.rejection(strong=False, local_read=True) is None


def test_sql_is_rejected_while_a_peer_runs_another_engine() -> None:
    fixture = DispatcherFixture(datatype=SQL)
    request = CallRequest(1, "sql", ("SELECT 1",))
    same = fixture.capabilities.advertisement()
    fixture.set_capabilities(2, same)
    assert fixture.resolver.rejection(request) is None
    fixture.set_capabilities(
        2,
        [(name.replace("sqlite 3.", "sqlite 2."), *arity) for name, *arity in same],  # type: ignore[misc]
    )

    rejection = fixture.resolver.rejection(request)
    assert rejection is not None
    reason, message = rejection
    assert reason is RejectReason.DIFFERENT_CODE
    assert "replica 2 would execute 'sql' otherwise: it runs sqlite 2." in message
    assert "and this replica sqlite 3." in message
    assert fixture.resolver.rejection(CallRequest(2, ADD_MEMBER, (3, "h:1"), True)) is None


@pytest.mark.parametrize("features", [(), (APPLICATION_BYTES_FEATURE,)])
def test_applications_have_a_bound_in_bytes_once_all_members_have_it(
    features: tuple[str, ...],
) -> None:
    """A member of an earlier version would execute the application otherwise."""
    fixture = DispatcherFixture()
    fixture.replica.configuration = Configuration(0, ((0, "h:1"), (1, "h:2")))
    resolver = fixture.resolver
    arguments = ("totals", "", 1, (), 5, False, False)
    request = CallRequest(1, APPLY, arguments, True)
    fixture.capabilities.record_features(0, (APPLICATION_BYTES_FEATURE,))
    assert resolver.resolve(request, "", "") == Operation(APPLY, arguments)  # 1 is unknown
    fixture.capabilities.record_peer(1, (), features)

    bound = (APPLICATION_BYTES_MAX,) if features else ()
    assert resolver.resolve(request, "", "") == Operation(APPLY, (*arguments, *bound))
    own_bound = CallRequest(1, APPLY, (*arguments, 2**60), True)
    assert resolver.resolve(own_bound, "", "") == Operation(APPLY, (*arguments, *bound))
