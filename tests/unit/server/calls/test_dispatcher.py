"""Call dispatcher: calls wait for their dependencies and for the startup barrier."""

from collections.abc import Callable
from typing import Any, cast

from creekdb.datatypes.kv import KV
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation
from creekdb.server.backup.sessions import BackupSessions
from creekdb.server.calls.dispatcher import CallDispatcher
from creekdb.server.security.authentication import AccessTokens
from creekdb.wire.messages import CallRequest
from creekdb.wire.reject_reason import RejectReason

DEPENDENCY = Dot(1, 7)


class FakeClient:
    """Client with two calls."""

    client, token = "ann", ""

    def __init__(self, dispatcher: CallDispatcher) -> None:
        self._dispatcher = dispatcher
        self.calls = {
            number: CallRequest(number, "put", ("a", 1), after=(DEPENDENCY,)) for number in (1, 2)
        }
        self.ids: list[Dot] = []
        self.rejections: list[str] = []

    def call(self) -> None:
        for request in self.calls.values():
            self._dispatcher.dispatch(cast(Any, self), request)

    def retry(self, number: int) -> None:
        self._dispatcher.dispatch(cast(Any, self), self.calls[number])

    def session_id(self, number: int) -> int:
        return number

    def report_issued(self, number: int, id: Dot) -> None:
        self.ids.append(id)

    def reject(self, call: CallRequest, reason: str, message: str) -> None:
        self.rejections.append(reason)


def make_dispatcher(
    invoke: Callable[..., Dot],
    arrived: set[Dot],
    find_incapable_replica: Callable[[str, int], int | None] = lambda name, count: None,
) -> CallDispatcher:
    return CallDispatcher(
        "test",
        0,
        KV,
        invoke=invoke,
        has_request=arrived.__contains__,
        is_local_read=lambda operation, strong: False,
        rejection=lambda strong, local_read: None,
        find_incapable_replica=find_incapable_replica,
        change_members=Operation,
        status=dict,
        count=lambda reason: None,
        backup_sessions=cast(BackupSessions, None),
        tokens=cast(AccessTokens, None),
    )


async def test_call_waits_for_its_dependencies_and_passes_them_to_the_replica() -> None:
    arrived, invoked_after = set[Dot](), list[tuple[Dot, ...]]()

    def invoke(operation: Operation, strong: bool, session: int, after: tuple[Dot, ...]) -> Dot:
        invoked_after.append(after)
        return Dot(0, 1)

    dispatcher = make_dispatcher(invoke, arrived)
    client = FakeClient(dispatcher)
    client.call()
    assert len(dispatcher.dependency_queue) == 2
    arrived.add(DEPENDENCY)
    dispatcher.release_dependents(DEPENDENCY)
    assert not dispatcher.dependency_queue
    assert client.ids == [Dot(0, 1)] * 2
    assert invoked_after == [(DEPENDENCY,)] * 2


async def test_blocked_reason_is_empty_as_soon_as_the_replica_is_ready() -> None:
    """Clients would otherwise switch to another replica, although the next check unblocks calls."""
    reason: list[str | None] = ["it waits for replica 2"]
    dispatcher = make_dispatcher(lambda *_: Dot(0, 1), {DEPENDENCY})
    dispatcher.block_calls(Dot(0, 0), lambda: reason[0])
    assert dispatcher.blocked_reason() == "it waits for replica 2"
    reason[0] = None
    assert dispatcher.blocked_reason() == ""
    client = FakeClient(dispatcher)
    client.call()
    assert len(dispatcher.dependency_queue) == 2
    assert dispatcher.expiry_message(Dot(0, 0)).endswith("it has just started")
    dispatcher.unblock_calls()
    assert client.ids == [Dot(0, 1)] * 2


async def test_queued_call_is_checked_for_unsupported_operations_when_it_is_issued() -> None:
    """Until then a peer may have been restarted, and a read may have become a local read."""
    arrived, incapable = set[Dot](), list[int | None]()
    dispatcher = make_dispatcher(
        lambda *_: Dot(0, 1),
        arrived,
        find_incapable_replica=lambda name, count: incapable[0],
    )
    client = FakeClient(dispatcher)
    incapable[:] = [2]
    client.call()
    assert len(dispatcher.dependency_queue) == 2
    assert client.rejections == []
    arrived.add(DEPENDENCY)
    dispatcher.release_dependents(DEPENDENCY)
    assert client.rejections == [RejectReason.UNKNOWN_OPERATION] * 2
    assert client.ids == []
    incapable[:] = [None]
    client.call()
    assert client.ids == [Dot(0, 1)] * 2
