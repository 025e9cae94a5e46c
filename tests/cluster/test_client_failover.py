"""Failover of clients. Sessions continue, and reported outcomes stay true."""

import asyncio
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from creekdb import NotDone, Unknown, connect
from creekdb.client.call_router import IN_FLIGHT_MAX
from creekdb.client.database import RETRY_AFTER_REJECTION_S, AsyncCallProxy, Database
from creekdb.client.proxies import Session
from creekdb.protocol.effects import Event, Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.server.runtime.config import SecurityConfig
from creekdb.wire import messages
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import (
    SHORT_WAITS,
    TIMEOUT_S,
    InProcessCluster,
    running_cluster,
)


async def test_a_session_reads_its_writes_at_every_replica(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        session = db.session()
        writes = 0
        for _ in range(6):  # the client returns to earlier replicas
            for _ in range(100):
                writes += 1
                await session.weak.increment("n")
            assert db._router.connection is not None
            db._router.connection.abort()
            assert await session.weak.get("n") == writes
        assert all(len(seen) <= 3 for seen in db._router._session_contexts.values())


async def test_a_client_with_a_revoked_token_retries_rarely(tmp_path: Path) -> None:
    tokens = {"ann": "secret"}
    async with (
        running_cluster(tmp_path, 1, security=SecurityConfig(tokens=tokens)) as cluster,
        cluster.client(token="secret") as db,
    ):
        await db.weak.put("a", 1)
        await cluster.stop()
        await cluster.start(security=SecurityConfig(tokens={"ann": "another"}))
        rejections = cluster.servers[0].rejections
        async with asyncio.timeout(TIMEOUT_S):
            while not rejections[RejectReason.TOKEN]:
                await asyncio.sleep(0.01)
        await asyncio.sleep(RETRY_AFTER_REJECTION_S / 2)
        assert rejections[RejectReason.TOKEN] <= 2
        with pytest.raises(NotDone, match="the token is missing or unknown"):
            await db.weak.put("a", 2)


async def write_only_at_replica_0(
    cluster: InProcessCluster, session: Session[AsyncCallProxy]
) -> None:
    """Write a weak request that only replica 0 has, and stop all replicas."""
    await session.strong.put("a", 1)
    await cluster.stop(1, 2)
    await session.weak.put("a", 2)
    await cluster.stop(0)


async def test_a_session_does_not_continue_at_a_replica_without_its_writes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        session = db.session()
        assert db.replica == 0
        await write_only_at_replica_0(cluster, session)
        await cluster.start(1, 2, limits=SHORT_WAITS)
        await cluster.until_moved(db, from_replica=0)
        with pytest.raises(NotDone, match="did not arrive in time") as rejection:
            await session.weak.get("a")
        assert rejection.value.reason == RejectReason.DEADLINE
        assert await db.session().weak.get("a") == 1  # other sessions need not wait


async def test_a_session_waits_for_its_writes_at_another_replica(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        session = db.session()
        await write_only_at_replica_0(cluster, session)
        await cluster.start(1, 2)
        await cluster.until_moved(db, from_replica=0)
        call = session.weak.get("a")
        assert await db.session().weak.get("a") == 1  # sent after the call
        assert not call.has_response
        await cluster.start(0)
        assert await call == 2


class StubReplica:
    """Replica whose behaviour the test defines."""

    def __init__(
        self, behaviour: Callable[["StubReplica", messages.ClientMessage], None], replica: int = 0
    ) -> None:
        self._behave = behaviour
        self._replica = replica
        self.calls: list[messages.CallRequest] = []
        self.clients: list[str] = []
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> "StubReplica":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for each in self._serving:
            each.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def send(self, message: messages.ServerMessage) -> None:
        assert self._writer is not None
        self._writer.write(messages.encode_frame(message))

    def close_connection(self) -> None:
        assert self._writer is not None
        self._writer.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.create_task(self._serve_and_close(reader, writer)))

    async def _serve_and_close(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writer = writer
        with closing(writer), suppress(OSError):
            await self._serve(reader)

    async def _serve(self, reader: asyncio.StreamReader) -> None:
        frames = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX)
        while data := await reader.read(65536):
            for payload in frames.feed(data):
                message = messages.decode_client_message(payload)
                if isinstance(message, messages.ClientHello):
                    self.clients.append(message.client)
                    self.send(messages.Welcome(1, "creek", self._replica, "kv", (("put", False),)))
                else:
                    if isinstance(message, messages.CallRequest):
                        self.calls.append(message)
                    self._behave(self, message)


def close_connection(stub: StubReplica, message: messages.ClientMessage) -> None:
    stub.close_connection()


def reject_busy(stub: StubReplica, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.send(messages.Rejected(message.number, RejectReason.BUSY, "try later"))


def reject_stopping(stub: StubReplica, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.send(messages.Rejected(message.number, RejectReason.STOPPING, "being stopped"))
    stub.close_connection()


def reject_disk(stub: StubReplica, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.send(messages.Rejected(message.number, RejectReason.DISK, "no space left"))


def reject_no_majority(stub: StubReplica, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.send(messages.Rejected(message.number, RejectReason.NO_MAJORITY, "reaches 0 of 2 others"))


def issue_and_close(stub: StubReplica, message: messages.ClientMessage) -> None:
    """Issue the call without a response. The request may not be on disk."""
    assert isinstance(message, messages.CallRequest)
    stub.send(messages.CallIssued(message.number, Dot(0, 7)))
    stub.close_connection()


def ignore(stub: StubReplica, message: messages.ClientMessage) -> None:
    pass


def respond(stub: StubReplica, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.send(messages.CallResponse(message.number, "tentative", "done"))


def issue_and_respond(stub: StubReplica, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.send(messages.CallIssued(message.number, Dot(0, 7)))
    respond(stub, message)


async def call_two_stubs(
    first_behaviour: Any, second_behaviour: Any
) -> tuple[Any, StubReplica, StubReplica]:
    """Return the outcome of a call at two stubs, of which the client tries the first one first."""
    async with (
        StubReplica(first_behaviour, 0) as first,
        StubReplica(second_behaviour, 1) as second,
    ):
        async with connect((first.address, second.address), patience=0.5) as db:
            try:
                outcome = await db.weak.put("a", 1)
            except (NotDone, Unknown) as error:
                outcome = error
        return outcome, first, second


async def test_a_cancelled_close_fails_the_open_calls_and_disconnects() -> None:
    """A caller waited until the timeout of its call, or for ever without one."""
    async with StubReplica(ignore) as stub:
        db = await connect(stub.address, timeout=None)
        call = db.weak.put("a", 1)
        closing = asyncio.create_task(db.close())
        await asyncio.sleep(0)
        closing.cancel()
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(Unknown, match="closed before a response"):
                await call
            await asyncio.gather(*stub._serving)  # ends with the connection
        with suppress(asyncio.CancelledError):
            await closing


async def test_a_timeout_of_ages_survives_a_failover() -> None:
    """In milliseconds, it exceeded the integers of a message, and no call ended any more."""
    async with StubReplica(issue_and_respond, 0) as first, StubReplica(respond, 1) as second:
        async with connect((first.address, second.address), timeout=1e18) as db:
            assert await db.weak.put("a", 1) == "done"
            first.close_connection()
            async with asyncio.timeout(TIMEOUT_S):
                assert await db.weak.put("a", 2) == "done"
        assert second.calls[0].after == (Dot(0, 7),)


async def test_a_retry_has_the_number_of_the_call() -> None:
    outcome, first, second = await call_two_stubs(close_connection, respond)
    assert outcome == "done"
    assert [call.number for call in first.calls] == [call.number for call in second.calls]


async def test_a_retry_does_not_depend_on_the_request_of_the_failed_replica() -> None:
    outcome, _, second = await call_two_stubs(issue_and_close, respond)
    assert outcome == "done"
    assert [call.after for call in second.calls] == [()]


async def test_a_call_rejected_by_its_only_replica_is_not_done() -> None:
    outcome, _, second = await call_two_stubs(reject_busy, respond)
    assert isinstance(outcome, NotDone)
    assert outcome.reason == RejectReason.BUSY
    assert not second.calls


@pytest.mark.parametrize(
    "reason", [RejectReason.BUSY, RejectReason.BAD_ARGUMENTS, RejectReason.UNKNOWN_OPERATION]
)
async def test_a_retry_rejected_by_the_second_replica_is_unknown(reason: str) -> None:
    def reject(stub: StubReplica, message: messages.ClientMessage) -> None:
        assert isinstance(message, messages.CallRequest)
        stub.send(messages.Rejected(message.number, reason, "rejected"))

    outcome, _, _ = await call_two_stubs(close_connection, reject)
    # The releases of the replicas may differ, and so may their reasons.
    assert isinstance(outcome, Unknown)


@pytest.mark.parametrize(("is_certain", "error"), [(True, NotDone), (False, Unknown)])
async def test_a_reason_of_a_newer_replica_is_judged_by_its_certainty(
    is_certain: bool, error: type[NotDone | Unknown]
) -> None:
    def reject(stub: StubReplica, message: messages.ClientMessage) -> None:
        assert isinstance(message, messages.CallRequest)
        stub.send(messages.Rejected(message.number, "newer_reason", "rejected", is_certain))

    outcome, _, second = await call_two_stubs(reject, respond)
    assert type(outcome) is error
    assert getattr(outcome, "reason", "newer_reason") == "newer_reason"
    assert not second.calls


async def test_calls_rejected_by_a_stopping_replica_are_retried_elsewhere() -> None:
    outcome, _, _ = await call_two_stubs(reject_stopping, respond)
    assert outcome == "done"
    outcome, _, _ = await call_two_stubs(reject_stopping, reject_busy)
    assert isinstance(outcome, NotDone)  # no replica executed the call


@pytest.mark.parametrize("fault", [reject_disk, reject_no_majority])
async def test_calls_rejected_by_an_impaired_replica_are_retried_elsewhere(fault: Any) -> None:
    outcome, first, second = await call_two_stubs(fault, respond)
    assert outcome == "done"
    assert [call.number for call in first.calls] == [call.number for call in second.calls]
    outcome, _, _ = await call_two_stubs(close_connection, fault)
    assert isinstance(outcome, Unknown)  # the failed replica may have executed the call


async def test_the_last_reason_is_reported_if_all_replicas_reject() -> None:
    outcome, first, second = await call_two_stubs(reject_no_majority, reject_disk)
    assert isinstance(outcome, NotDone)
    # The client tries the first replica again at the end.
    assert outcome.reason == RejectReason.NO_MAJORITY
    assert (len(first.calls), len(second.calls)) == (2, 1)


async def test_the_reason_is_reported_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # never accepts a connection
        unresponsive = f"127.0.0.1:{hanging.getsockname()[1]}"
        async with (
            StubReplica(reject_disk) as first,
            connect((first.address, unresponsive)) as db,
        ):
            with pytest.raises(NotDone, match="no space left") as rejection:
                await db.weak.within(0.2).put("a", 1)
            assert rejection.value.reason == RejectReason.DISK


async def test_calls_rejected_together_keep_their_order_elsewhere() -> None:
    async with StubReplica(reject_disk) as first, StubReplica(respond, 1) as second:
        async with connect((first.address, second.address)) as db:
            calls = [db.weak.put("a", each) for each in range(50)]
            assert [await call for call in calls] == ["done"] * 50
            assert db.replica == 1
        assert [call.arguments[1] for call in second.calls] == list(range(50))


async def test_a_client_leaves_an_unresponsive_replica() -> None:
    outcome, first, second = await call_two_stubs(ignore, respond)
    assert outcome == "done"
    assert len(first.calls) == len(second.calls) == 1


@pytest.mark.parametrize(
    "greeting", [messages.frame_payload(b"\xc1"), b"\xff\xff\xff\xff", b"220 mail"]
)
async def test_a_server_of_another_protocol_is_named(greeting: bytes) -> None:
    async def send_greeting(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    server = await asyncio.start_server(send_greeting, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(
        NotDone, match=f"tried for 0.1 s: {address}: the server is not a Creek replica"
    ):
        async with connect(address, patience=0.1):
            pass
    server.close()


async def test_a_retried_call_executes_once_after_many_later_calls(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        assert await call_retried_elsewhere(cluster, db) == 1
        for _ in range(3):
            await asyncio.gather(*(response_of(db.weak.put("m", each)) for each in range(500)))
        await db.strong.put("m", 0)  # commits all of them
        await cluster.start(0)
        await cluster.until_connected()
        await cluster.until_quiescent()
        assert await db.strong.get("n") == 1


async def test_a_retried_call_executes_once_after_its_record_expired(tmp_path: Path) -> None:
    forget_after = 0.6
    async with (
        running_cluster(tmp_path, forget_after=forget_after) as cluster,
        cluster.client() as db,
    ):
        assert await call_retried_elsewhere(cluster, db) == 1
        await asyncio.sleep(4 * forget_after)
        await cluster.start(0)
        await cluster.until_connected()
        await cluster.until_quiescent()
        assert await db.strong.get("n") == 1


class SilentListener:
    """Listener that drops all responses."""

    def observe(self, events: tuple[Event, ...]) -> None:
        pass

    def respond(self, responses: Sequence[Response]) -> None:
        pass


async def call_retried_elsewhere(cluster: InProcessCluster, db: Database) -> Any:
    """Return the response to a call that is retried at another replica.

    Replica 0 stops with the request on its disk. It sent neither the request nor a response.
    """
    server = cluster.servers[0]
    assert db.replica == 0
    server.peers.disconnect((1, 2))
    server.driver.subscribe(SilentListener())
    call = db.weak.increment("n")
    async with asyncio.timeout(TIMEOUT_S):
        while not server.driver.executor.executions or server.driver.backlog:
            await asyncio.sleep(0.01)
    await cluster.stop(0)
    return await call


async def response_of(call: Any) -> Any:
    return await call


async def test_later_calls_do_not_reuse_the_slots_of_retried_calls() -> None:
    together = 600  # exceeds the limit of calls in flight

    def close_when_full(stub: StubReplica, message: messages.ClientMessage) -> None:
        if len(stub.calls) == IN_FLIGHT_MAX:
            stub.close_connection()

    async with StubReplica(close_when_full) as first, StubReplica(respond, 1) as second:
        async with connect((first.address, second.address)) as db:
            calls = [db.weak.put("a", each) for each in range(together)]
            assert [await call for call in calls] == ["done"] * together
            for each in range(2 * CALLS_PER_CLIENT_MAX):
                assert await db.weak.put("b", each) == "done"
        retried, later = second.calls[:IN_FLIGHT_MAX], second.calls[IN_FLIGHT_MAX:]
        assert retried == first.calls
        assert len(later) == together - IN_FLIGHT_MAX + 2 * CALLS_PER_CLIENT_MAX
        assert [call.arguments[1] for call in later[: together - IN_FLIGHT_MAX]] == list(
            range(IN_FLIGHT_MAX, together)
        )
        numbers = [call.number for call in later]
        assert numbers == sorted(set(numbers))
        slots = {call.number % CALLS_PER_CLIENT_MAX for call in retried}
        assert slots.isdisjoint(number % CALLS_PER_CLIENT_MAX for number in numbers)


async def test_too_many_retried_calls_change_the_client_name() -> None:
    together = 2 * IN_FLIGHT_MAX
    recorded: list[tuple[str, int]] = []

    def close_when_full(stub: StubReplica, message: messages.ClientMessage) -> None:
        if len(stub.calls) == IN_FLIGHT_MAX:
            stub.close_connection()

    def respond_to_half(stub: StubReplica, message: messages.ClientMessage) -> None:
        if len(stub.calls) <= IN_FLIGHT_MAX:
            respond(stub, message)
        elif len(stub.calls) == 2 * IN_FLIGHT_MAX:
            stub.close_connection()

    def record_and_respond(stub: StubReplica, message: messages.ClientMessage) -> None:
        assert isinstance(message, messages.CallRequest)
        recorded.append((stub.clients[-1], message.number))
        respond(stub, message)

    async with (
        StubReplica(close_when_full) as first,
        StubReplica(respond_to_half, 1) as second,
        StubReplica(record_and_respond, 2) as third,
        connect((first.address, second.address, third.address)) as db,
    ):
        calls = [db.weak.put("a", each) for each in range(together)]
        assert [await call for call in calls] == ["done"] * together
        for each in range(2 * CALLS_PER_CLIENT_MAX):
            assert await db.weak.put("b", each) == "done"
        retried = [call.number for call in (*first.calls, *second.calls)][: 3 * IN_FLIGHT_MAX]
        later = [number for name, number in recorded if name == first.clients[0]]
        slots = {number % CALLS_PER_CLIENT_MAX for number in retried}
        assert slots.isdisjoint(
            number % CALLS_PER_CLIENT_MAX for number in later if number not in retried
        )


async def test_a_client_without_retries_changes_its_name_on_failover() -> None:
    def respond_and_close(stub: StubReplica, message: messages.ClientMessage) -> None:
        respond(stub, message)
        stub.close_connection()

    async with (
        StubReplica(close_connection) as first,
        StubReplica(respond_and_close, 1) as second,
    ):
        async with connect((first.address, second.address)) as db:
            assert await db.weak.put("a", 1) == "done"
            async with asyncio.timeout(TIMEOUT_S):
                while len(first.clients) < 2:  # the client returns to the first replica
                    await asyncio.sleep(0.01)
        assert first.clients[0] == second.clients[0], "a retried call keeps the client name"
        assert first.clients[1] != first.clients[0]


async def test_a_status_request_waits_for_the_next_connection() -> None:
    def respond_to_status(stub: StubReplica, message: messages.ClientMessage) -> None:
        assert isinstance(message, messages.StatusRequest)
        stub.send(messages.StatusResponse(message.number, {"replica": 1}))

    async with (
        StubReplica(close_connection) as first,
        StubReplica(respond_to_status, 1) as second,
        connect((first.address, second.address)) as db,
    ):
        first.close_connection()
        async with asyncio.timeout(TIMEOUT_S):
            while db._router.connection is not None:
                await asyncio.sleep(0)
        assert await db.status() == {"replica": 1}
        assert len(second.clients) == 1, "the client has one connection"
    with pytest.raises(NotDone, match="not connected"):
        await db.status()


async def test_a_client_skips_a_replica_that_has_not_joined(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.stop(0, 2)
        shutil.rmtree(tmp_path / "0")
        await cluster.start(0, limits=SHORT_WAITS)  # it waits for replica 2
        async with cluster.client(0, 1) as db:
            await db.weak.put("lamp", 3)
            assert db.replica == 1
        async with cluster.client(0) as pinned:
            with pytest.raises(NotDone, match="has not joined yet: the journal was empty"):
                await pinned.weak.get("lamp")
            await cluster.start(2)
            await cluster.until_connected()
            await pinned.strong.put("lamp", 4)
            assert await pinned.weak.get("lamp") == 4


async def test_a_session_that_has_only_read_locally_continues_at_another_replica(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, replicas=2) as cluster, cluster.client(0, 1) as db:
        session = db.session()
        assert await session.weak.get("a") is None
        await cluster.stop(0)
        assert await session.weak.within(10).put("a", 1) is None
