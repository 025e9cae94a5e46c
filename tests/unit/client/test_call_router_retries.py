"""Retries, causal contexts and failures of calls, without a network."""

from typing import Any, cast

import pytest

from creekdb.client import NotDone, Unknown
from creekdb.client.call_router import IN_FLIGHT_MAX, CallRouter
from creekdb.client.calls import Call
from creekdb.client.replica_connection import ReplicaConnection
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire import messages
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX
from creekdb.wire.reject_reason import RejectReason


class FakeConnection:
    """Connection that keeps the messages of the client."""

    def __init__(self) -> None:
        self.messages: list[messages.ClientMessage] = []
        self._frames = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX)

    def write(self, frame: bytes) -> None:
        self.messages += map(messages.decode_client_message, self._frames.feed(frame))

    def close(self) -> None:
        pass

    @property
    def requests(self) -> list[messages.CallRequest]:
        return [each for each in self.messages if isinstance(each, messages.CallRequest)]


class RouterFixture:
    """Router whose connections and responses the test controls."""

    def __init__(self, replica_count: int = 3, sessions_max: int = 16) -> None:
        self.queried: list[Call[Any]] = []
        self.router = CallRouter(replica_count, self._outcome_query, sessions_max)
        self.connection = FakeConnection()

    def connect(self, replica: int) -> FakeConnection:
        """Continue at a replica, as the database does."""
        self.connection = FakeConnection()
        self.router.connection = cast(ReplicaConnection, self.connection)
        self.router.replica = replica
        self.router.resend()
        return self.connection

    def call(self, session: int = 0, strong: bool = False, size: int = 0) -> Call[Any]:
        request = messages.CallRequest(
            self.router.next_number(), "put", (b"x" * size,), strong, session
        )
        call: Call[Any] = Call(request, 60.0)
        self.router.submit(call)
        return call

    def respond(
        self, call: Call[Any], id: Dot, kind: ResponseKind = ResponseKind.TENTATIVE
    ) -> None:
        number = call.message.number
        self.router.on_message(messages.CallIssued(number, id))
        self.router.on_message(messages.CallResponse(number, kind.value))

    def reject(self, call: Call[Any], reason: RejectReason, is_certain: bool = True) -> None:
        rejected = messages.Rejected(call.message.number, reason, "rejected", is_certain)
        self.router.on_message(rejected)

    def _outcome_query(self, call: Call[Any]) -> Any:
        self.queried.append(call)
        return None


async def failure_of(call: Call[Any]) -> BaseException:
    assert call.is_complete
    with pytest.raises((NotDone, Unknown)) as raised:
        await call
    return raised.value


async def test_calls_in_flight_are_retried_in_order_before_queued_ones() -> None:
    fixture = RouterFixture()
    fixture.connect(0)
    calls = [fixture.call() for _ in range(3)]
    fixture.router.on_connection_lost()
    queued = fixture.call()
    requests = fixture.connect(1).requests

    assert [each.number for each in requests] == [each.message.number for each in (*calls, queued)]
    assert [each.attempts for each in (*calls, queued)] == [2, 2, 2, 1]


async def test_a_call_with_a_response_is_not_retried() -> None:
    fixture = RouterFixture()
    fixture.connect(0)
    done, open_call = fixture.call(), fixture.call()
    fixture.respond(done, Dot(0, 1))
    fixture.router.on_connection_lost()

    assert [each.number for each in fixture.connect(1).requests] == [open_call.message.number]
    assert fixture.queried == [done], "its final response was lost with the replica"


async def test_a_session_waits_for_its_calls_at_another_replica() -> None:
    fixture = RouterFixture()
    fixture.connect(0)
    for session, event in ((1, 5), (1, 7), (2, 6)):
        fixture.respond(fixture.call(session), Dot(0, event))
    fixture.call(session=1)
    assert fixture.connection.requests[-1].after == (), "the replica has its own requests"

    connection = fixture.connect(1)
    for session in (1, 2, 3):
        fixture.call(session)
    after = {each.session: each.after for each in connection.requests}

    assert after == {1: (Dot(0, 7),), 2: (Dot(0, 6),), 3: ()}
    assert all(0 < each.wait_ms < 60_000 for each in connection.requests if each.after)


async def test_merged_sessions_wait_for_the_latest_request_of_all() -> None:
    fixture = RouterFixture(sessions_max=1)
    fixture.connect(0)
    for session, event in ((1, 9), (2, 4), (3, 6)):
        fixture.respond(fixture.call(session), Dot(0, event))
    connection = fixture.connect(1)
    for session in (1, 2, 3):
        fixture.call(session)

    after = {each.session: each.after for each in connection.requests}
    assert after == {1: (Dot(0, 9),), 2: (Dot(0, 9),), 3: (Dot(0, 6),)}


async def test_calls_in_flight_are_bounded() -> None:
    fixture = RouterFixture()
    connection = fixture.connect(0)
    calls = [fixture.call() for _ in range(IN_FLIGHT_MAX + 1)]
    assert len(connection.requests) == IN_FLIGHT_MAX

    fixture.respond(calls[0], Dot(0, 1))
    assert len(connection.requests) == IN_FLIGHT_MAX + 1


async def test_a_new_call_does_not_take_the_slot_of_a_retried_one() -> None:
    fixture = RouterFixture()
    fixture.connect(0)
    retried = fixture.call()
    fixture.router.on_connection_lost()
    fixture.connect(1)
    numbers = [fixture.router.next_number() for _ in range(CALLS_PER_CLIENT_MAX)]

    slots = [number % CALLS_PER_CLIENT_MAX for number in numbers]
    assert retried.message.number % CALLS_PER_CLIENT_MAX not in slots
    assert not fixture.router.release_slots(), "the retried call is still open"
    fixture.respond(retried, Dot(1, 1), ResponseKind.FINAL)
    assert fixture.router.release_slots()


async def test_a_certain_rejection_moves_the_call_to_each_replica_once() -> None:
    fixture = RouterFixture(replica_count=2)
    fixture.connect(0)
    call = fixture.call()
    for replica in (0, 1):
        fixture.reject(call, RejectReason.STOPPING)
        assert not call.is_complete
        fixture.router.on_connection_lost()
        assert len(fixture.connect(1 - replica).requests) == 1
    fixture.reject(call, RejectReason.STOPPING)

    failure = await failure_of(call)
    assert isinstance(failure, NotDone)
    assert failure.reason == RejectReason.STOPPING


async def test_a_rejected_retry_has_an_unknown_outcome() -> None:
    fixture = RouterFixture()
    fixture.connect(0)
    call = fixture.call()
    fixture.router.on_connection_lost()
    fixture.connect(1)
    fixture.reject(call, RejectReason.BUSY)

    assert isinstance(await failure_of(call), Unknown), "the first replica may have executed it"


async def test_an_uncertain_rejection_is_not_retried_elsewhere() -> None:
    fixture = RouterFixture()
    fixture.connect(0)
    call = fixture.call()
    fixture.reject(call, RejectReason.STOPPING, is_certain=False)

    assert isinstance(await failure_of(call), Unknown)


async def test_an_expired_response_is_requested_again_under_the_same_number() -> None:
    fixture = RouterFixture()
    connection = fixture.connect(0)
    call = fixture.call()
    fixture.reject(call, RejectReason.UNKNOWN_OUTCOME, is_certain=False)

    assert [each.number for each in connection.requests] == [call.message.number] * 2
    assert not call.is_complete


async def test_closing_distinguishes_sent_calls_from_unsent_ones() -> None:
    fixture = RouterFixture()
    fixture.connect(0)
    sent = fixture.call()
    fixture.router.on_connection_lost()
    unsent = fixture.call()
    fixture.router.fail_all(RejectReason.CLOSED, "closed")

    assert isinstance(await failure_of(sent), Unknown)
    assert isinstance(await failure_of(unsent), NotDone)
    assert not fixture.router.has_open_calls()


async def test_a_call_above_the_frame_limit_fails_and_the_next_one_is_sent() -> None:
    fixture = RouterFixture()
    connection = fixture.connect(0)
    large = fixture.call(size=messages.CLIENT_FRAME_BYTES_MAX)
    small = fixture.call()

    failure = await failure_of(large)
    assert isinstance(failure, NotDone)
    assert failure.reason == RejectReason.TOO_LARGE
    assert [each.number for each in connection.requests] == [small.message.number]


async def test_a_retry_above_the_frame_limit_has_an_unknown_outcome() -> None:
    """Its dependencies make it larger than the first attempt, which a replica may have executed."""
    fixture = RouterFixture()
    fixture.connect(0)
    fixture.respond(fixture.call(session=1), Dot(0, 5))
    large = fixture.call(session=1, size=messages.CLIENT_FRAME_BYTES_MAX - 100)
    overhead = len(messages.encode_frame(large.message)) - (messages.CLIENT_FRAME_BYTES_MAX - 100)
    fixture.reject(large, RejectReason.BAD_ARGUMENTS)
    size = messages.CLIENT_FRAME_BYTES_MAX - overhead
    large, small = fixture.call(session=1, size=size), fixture.call()
    assert large.attempts == 1

    fixture.router.on_connection_lost()
    connection = fixture.connect(1)
    assert isinstance(await failure_of(large), Unknown)
    assert [each.number for each in connection.requests] == [small.message.number]
    fixture.respond(small, Dot(1, 1), ResponseKind.FINAL)
    assert not fixture.router.has_open_calls()


@pytest.mark.parametrize("value", [2**70, object(), "\ud800"])
async def test_a_call_that_cannot_be_encoded_fails_and_the_next_one_is_sent(value: Any) -> None:
    fixture = RouterFixture()
    connection = fixture.connect(0)
    number = fixture.router.next_number()
    unsendable: Call[Any] = Call(messages.CallRequest(number, "creek:put", (value,)), 60.0)
    fixture.router.submit(unsendable)
    small = fixture.call()

    failure = await failure_of(unsendable)
    assert isinstance(failure, NotDone)
    assert failure.reason == RejectReason.BAD_ARGUMENTS
    assert [each.number for each in connection.requests] == [small.message.number]
    fixture.respond(small, Dot(0, 1), ResponseKind.FINAL)
    assert not fixture.router.has_open_calls()


async def test_another_cluster_has_no_requests_of_the_contexts() -> None:
    fixture = RouterFixture()
    fixture.connect(0)
    fixture.respond(fixture.call(session=1), Dot(0, 5))
    fixture.router.clear_session_contexts()
    connection = fixture.connect(1)
    fixture.call(session=1)

    assert connection.requests[-1].after == ()
