"""Dispatch of client calls from TCP and HTTP.

The dispatcher validates a call, admits or rejects it, and routes its responses back. A rejected
call was certainly not executed, and its rejection carries the reason. An issued call receives its
tentative, stable and final responses as the replica produces them. The number of calls in flight
is bounded.

A call may depend on requests that have not arrived at this replica. It waits in the
`DependencyQueue` for one missing request, and is dispatched again when that request arrives. The
queue is bounded in length and in waiting time, because a request may never arrive.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.protocol.effects import Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION
from creekdb.protocol.request import Operation
from creekdb.server.backup.sessions import BackupSessions
from creekdb.server.membership.changes import ADD_MEMBER, REMOVE_MEMBER
from creekdb.server.security.authentication import AccessTokens
from creekdb.wire.deduplication import INTERNAL_PREFIX, QUERY_OUTCOME, wrap_call
from creekdb.wire.messages import CallRequest
from creekdb.wire.reject_reason import RejectReason

if TYPE_CHECKING:
    from creekdb.server.transport.client_connection import ClientConnection

QUEUED_CALLS_MAX: Final = 4096
"""Upper bound for the calls that wait for a dependency."""
QUEUE_TIME_S_MAX: Final = 30.0
"""Upper bound for the waiting time of one call, in seconds."""

_Call = TypeVar("_Call", bound=Hashable)


class DependencyQueue(Generic[_Call]):
    """Queue of calls whose dependencies have not arrived.

    `retry` is called with a call whose missing request has arrived, `reject_expired` with a call
    whose waiting time has passed.
    """

    def __init__(
        self, retry: Callable[[_Call], None], reject_expired: Callable[[_Call, Dot], None]
    ) -> None:
        self._retry = retry
        self._reject_expired = reject_expired
        self._by_missing: dict[Dot, dict[_Call, None]] = {}
        self._waiting: dict[_Call, tuple[Dot, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= QUEUED_CALLS_MAX

    def missing_requests(self) -> tuple[Dot, ...]:
        return tuple(self._by_missing)

    def enqueue(self, call: _Call, missing: Dot, wait_ms: int) -> None:
        wait_s = min(wait_ms / 1000 or QUEUE_TIME_S_MAX, QUEUE_TIME_S_MAX)
        timer = asyncio.get_running_loop().call_later(wait_s, self._expire, call)
        self._waiting[call] = missing, timer
        self._by_missing.setdefault(missing, {})[call] = None

    def remove(self, call: _Call) -> Dot | None:
        """Remove a call. Return the request that it waited for, or None if it was not queued."""
        entry = self._waiting.pop(call, None)
        if entry is None:
            return None
        missing, timer = entry
        timer.cancel()
        calls = self._by_missing[missing]
        del calls[call]
        if not calls:
            del self._by_missing[missing]
        return missing

    def release(self, id: Dot) -> None:
        for call in tuple(self._by_missing.get(id, ())):
            self.remove(call)
            self._retry(call)

    def _expire(self, call: _Call) -> None:
        missing = self.remove(call)
        if missing is not None:
            self._reject_expired(call, missing)


IN_FLIGHT_MAX: Final = 65_536
"""Upper bound for the calls of all clients that await a response."""
DEPENDENCIES_MAX: Final = 64
"""Upper bound for the dependencies of one call."""


class ResponseSink(Protocol):
    """Origin of a call and receiver of its responses, for example a connection."""

    client: str
    """Client name, for the deduplication of retries. Empty if the client does not retry."""
    token: str

    def session_id(self, number: int) -> int: ...

    def report_issued(self, number: int, id: Dot) -> None: ...

    def respond(self, number: int, response: Response) -> None: ...

    def reject(self, call: CallRequest, reason: RejectReason, message: str) -> None: ...

    def retry(self, number: int) -> None: ...

    def reject_expired(self, number: int, missing: Dot) -> None: ...

    def reject_unknown_outcome(self, number: int) -> None: ...


class CallDispatcher:
    """State shared by all client connections of a replica."""

    def __init__(
        self,
        cluster: str,
        replica: int,
        datatype: DataType,
        *,
        invoke: Callable[[Operation, bool, int, tuple[Dot, ...]], Dot],
        has_request: Callable[[Dot], bool],
        is_local_read: Callable[[Operation, bool], bool],
        rejection: Callable[[bool, bool], tuple[RejectReason, str] | None],
        find_incapable_replica: Callable[[str, int], int | None],
        change_members: Callable[[str, tuple[Any, ...]], Operation],
        status: Callable[[], dict[str, Any]],
        count: Callable[[str], None],
        backup_sessions: BackupSessions,
        tokens: AccessTokens,
        page_url: str = "",
    ) -> None:
        """Connect the dispatcher to the replica.

        - `has_request(id)` is True if the request has arrived.
        - `is_local_read(operation, strong)` is True if the call needs no records or messages.
        - `rejection(strong, local_read)` returns the reason and message that every call is
          rejected with at present, or None.
        - `find_incapable_replica(name, count)` returns a replica that does not support the
          operation with `count` arguments, or None.
        - `change_members(name, arguments)` returns the operation for a membership change. It
          raises `BadValue` with the reason for a rejection.
        - `page_url` is the address of the replica's page for browsers, if it is known.
        """
        self.cluster = cluster
        self.replica = replica
        self.datatype = datatype
        self.invoke = invoke
        self._has_request = has_request
        self.is_local_read = is_local_read
        self.rejection = rejection
        self._find_incapable_replica = find_incapable_replica
        self._change_members = change_members
        self.status = status
        self.count = count
        self.backup_sessions = backup_sessions
        self.tokens = tokens
        self.page_url = page_url
        self.connections: set[ClientConnection] = set()
        self._open_calls: dict[Dot, tuple[ResponseSink, int]] = {}
        self.in_flight = 0
        """Number of calls that await a response."""
        self.dependency_queue: DependencyQueue[tuple[ResponseSink, int]] = DependencyQueue(
            _retry_call, _expire_call
        )
        self._session_count = 0
        self.startup_barrier: Dot | None = None
        """Pseudo-request that all calls wait for until the replica has joined."""
        self._barrier_reason: Callable[[], str | None] = lambda: None

    def block_calls(self, barrier: Dot, reason: Callable[[], str | None]) -> None:
        """Queue all calls until `unblock_calls`. `reason()` returns why they are blocked."""
        self.startup_barrier, self._barrier_reason = barrier, reason

    def unblock_calls(self) -> None:
        barrier, self.startup_barrier = self.startup_barrier, None
        if barrier is not None:
            self.release_dependents(barrier)

    def next_session(self) -> int:
        self._session_count += 1
        return self._session_count

    def dispatch(self, caller: ResponseSink, call: CallRequest) -> None:
        try:
            operation = self._resolve_operation(caller, call)
        except UnknownName as error:
            caller.reject(call, RejectReason.UNKNOWN_OPERATION, str(error))
            return
        except UsageError as error:
            caller.reject(call, RejectReason.BAD_ARGUMENTS, str(error))
            return
        missing = self.startup_barrier
        if missing is None and call.after:
            missing = next((dot for dot in call.after if not self._has_request(dot)), None)
        local_read = missing is None and self.is_local_read(operation, call.strong)
        rejection = self.rejection(call.strong, local_read)
        if rejection is None and missing is None and not local_read:
            rejection = self._reject_unsupported(call)
        if rejection is None and self.in_flight >= IN_FLIGHT_MAX:
            message = f"too many calls: {IN_FLIGHT_MAX} are in flight; retry later"
            rejection = RejectReason.BUSY, message
        if rejection is not None:
            caller.reject(call, *rejection)
            return
        if missing is not None:
            self._enqueue(caller, call, missing)
            return
        try:
            session = caller.session_id(call.session)
            id = self.invoke(operation, call.strong, session, call.after)
        except UsageError as error:
            # The replica validates membership changes itself, and it may have been removed in this
            # turn of the loop.
            is_change = operation.name == MEMBERSHIP_OPERATION
            reason = RejectReason.BAD_ARGUMENTS if is_change else RejectReason.STOPPING
            caller.reject(call, reason, str(error))
            return
        self._open_calls[id] = caller, call.number
        caller.report_issued(call.number, id)

    def _reject_unsupported(self, call: CallRequest) -> tuple[RejectReason, str] | None:
        """Return a rejection if a connected replica could not execute the call."""
        replica = self._find_incapable_replica(call.operation, len(call.arguments))
        if replica is None:
            return None
        cause = f"replica {replica} does not support '{call.operation}' with these arguments"
        message = f"{cause}; restart it with the module of this replica, then retry"
        return RejectReason.UNKNOWN_OPERATION, message

    def _enqueue(self, caller: ResponseSink, call: CallRequest, missing: Dot) -> None:
        if self.dependency_queue.is_full:
            cause = (
                f"{len(self.dependency_queue)} calls wait for dependencies that have not arrived"
            )
            caller.reject(call, RejectReason.BUSY, f"too many calls: {cause}; retry later")
        else:
            self.dependency_queue.enqueue((caller, call.number), missing, call.wait_ms)

    def blocked_reason(self) -> str:
        """Return why all calls are blocked, or an empty string.

        The string is also empty while calls are still queued but the next check will release them.
        """
        return "" if self.startup_barrier is None else self._barrier_reason() or ""

    def expiry_message(self, missing: Dot) -> str:
        if missing == self.startup_barrier:
            return (
                f"this replica has not joined yet: {self.blocked_reason() or 'it has just started'}"
            )
        return f"call expired: its dependency {missing} did not arrive in time"

    def release_dependents(self, id: Dot) -> None:
        """Dispatch the calls that wait for the request `id`, which has arrived."""
        self.dependency_queue.release(id)

    def recheck_dependencies(self) -> None:
        """Dispatch all queued calls again. Some of them may have to be rejected now."""
        for id in self.dependency_queue.missing_requests():
            self.dependency_queue.release(id)

    def release_arrived(self) -> None:
        """Dispatch the calls whose dependencies an installed checkpoint contained."""
        for id in filter(self._has_request, self.dependency_queue.missing_requests()):
            self.dependency_queue.release(id)

    def replace_tokens(self, tokens: AccessTokens) -> None:
        """Use these tokens from now on, and close connections whose token is no longer valid."""
        self.tokens = tokens
        for connection in tuple(self.connections):
            connection.recheck_token()

    def respond(self, response: Response) -> None:
        entry = self._open_calls.get(response.id)
        if entry is not None:
            caller, number = entry
            caller.respond(number, response)

    def open_calls(self) -> tuple[Dot, ...]:
        """Return the calls that may receive further responses."""
        return tuple(self._open_calls)

    def abandon(self, ids: Iterable[Dot]) -> None:
        """Report an unknown outcome to the callers. This replica will never learn the outcome."""
        for id in ids:
            entry = self._open_calls.get(id)
            if entry is not None:
                caller, number = entry
                self.count(RejectReason.UNKNOWN_OUTCOME)
                caller.reject_unknown_outcome(number)

    def unregister(self, ids: Iterable[Dot]) -> None:
        for id in ids:
            self._open_calls.pop(id, None)

    def _resolve_operation(self, caller: ResponseSink, call: CallRequest) -> Operation:
        name = call.operation
        if name in (ADD_MEMBER, REMOVE_MEMBER):
            if not self.tokens.can_administer(caller.token):
                raise BadValue(
                    "permission denied: this token may not change the members; use an admin token"
                )
            if not call.strong:
                raise BadValue(f"{name} is a weak call: membership changes must be strong calls")
            return self._change_members(name, call.arguments)
        if name == QUERY_OUTCOME and call.strong:
            return Operation(QUERY_OUTCOME, call.arguments)
        if name.startswith(INTERNAL_PREFIX):
            known = self.datatype.operations
            raise UnknownName(f"operation of {self.datatype.name}", name, known)
        if len(call.after) > DEPENDENCIES_MAX:
            raise BadValue(
                f"too many dependencies: the call names {len(call.after)}, at most "
                f"{DEPENDENCIES_MAX} are allowed"
            )
        operation = self.datatype.call(name, *call.arguments)
        if self.datatype.is_readonly(name) or not caller.client:
            return operation
        return wrap_call(caller.client, call.number, operation)


def _retry_call(call: tuple[ResponseSink, int]) -> None:
    caller, number = call
    caller.retry(number)


def _expire_call(call: tuple[ResponseSink, int], missing: Dot) -> None:
    caller, number = call
    caller.reject_expired(number, missing)
