"""Calls that come after requests which have not arrived here yet.

Each waits for one of those that are missing, and is looked at again when that arrives. How many
wait is bounded, and for how long: a request may never come.

Where the clients of a replica call, whoever they are: what they may ask, and what becomes of it.

A call that cannot be carried out is refused with the reason, and then it was certainly not done;
one that was issued is answered, tentatively, stably, finally, as answers come. How many may be
under way is bounded.
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

if TYPE_CHECKING:
    from creekdb.server.transport.client_connection import ClientConnection

QUEUED_CALLS_MAX: Final = 4096
QUEUE_TIME_S_MAX: Final = 30.0

_Call = TypeVar("_Call", bound=Hashable)


class DependencyQueue(Generic[_Call]):
    """`again` is called with a call whose request has arrived, `too_late` when it has not."""

    def __init__(
        self, again: Callable[[_Call], None], too_late: Callable[[_Call, Dot], None]
    ) -> None:
        self._retry = again
        self._reject_expired = too_late
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
        """Nobody waits for its answer any more. Answers what it waited for, if it did."""
        found = self._waiting.pop(call, None)
        if found is None:
            return None
        missing, timer = found
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
"""Calls of all clients that wait for an answer."""
DEPENDENCIES_MAX: Final = 64
"""Requests that a call may come after."""


class ResponseSink(Protocol):
    """Who calls at the desk: a connection, for instance."""

    client: str
    """Its name, so that what it asks for again is not done again; empty: it does not ask again."""
    token: str

    def session_id(self, number: int) -> int: ...

    def report_issued(self, number: int, id: Dot) -> None: ...

    def respond(self, number: int, response: Response) -> None: ...

    def reject(self, call: CallRequest, reason: str, message: str) -> None: ...

    def retry(self, number: int) -> None: ...

    def reject_expired(self, number: int, missing: Dot) -> None: ...

    def reject_unknown_outcome(self, number: int) -> None: ...


class CallDispatcher:
    """What all connections of clients share."""

    def __init__(
        self,
        cluster: str,
        replica: int,
        datatype: DataType,
        *,
        invoke: Callable[[Operation, bool, int, tuple[Dot, ...]], Dot],
        has: Callable[[Dot], bool],
        alone: Callable[[Operation, bool], bool],
        refusal: Callable[[bool, bool], tuple[str, str] | None],
        who_cannot: Callable[[str, int], int | None],
        change_members: Callable[[str, tuple[Any, ...]], Operation],
        status: Callable[[], dict[str, Any]],
        count: Callable[[str], None],
        copies: BackupSessions,
        tokens: AccessTokens,
        page: str = "",
    ) -> None:
        """`has(id)`: has the request arrived? `alone(operation, strong)`: is it answered without
        records and messages? `refusal(strong, alone)`: why nothing can be done now, as (reason,
        message), or None. `who_cannot(name, count)`: a replica that has no such operation, or not
        with so many arguments. `change_members(name, arguments)`: the operation that such a call
        stands for, or `BadValue` with the reason. `page`: where browsers find this replica, if that
        is known."""
        self.cluster = cluster
        self.replica = replica
        self.datatype = datatype
        self.invoke = invoke
        self._has_request = has
        self.is_local_read = alone
        self.rejection = refusal
        self._find_incapable_replica = who_cannot
        self._change_members = change_members
        self.status = status
        self.count = count
        self.backup_sessions = copies
        self.tokens = tokens
        self.page_url = page
        self.connections: set[ClientConnection] = set()
        self._open_calls: dict[Dot, tuple[ResponseSink, int]] = {}
        self.in_flight = 0
        """Calls that wait for an answer."""
        self.dependency_queue: DependencyQueue[tuple[ResponseSink, int]] = DependencyQueue(
            _retry_call, _expire_call
        )
        self._session_count = 0
        self.startup_barrier: Dot | None = None
        """What all calls wait for, as if it were a request."""
        self._barrier_reason: Callable[[], str | None] = lambda: None

    def block_calls(self, opening: Dot, why: Callable[[], str | None]) -> None:
        """All calls wait, until it is opened. `why()`: why that takes so long."""
        self.startup_barrier, self._barrier_reason = opening, why

    def unblock_calls(self) -> None:
        opening, self.startup_barrier = self.startup_barrier, None
        if opening is not None:
            self.release_dependents(opening)

    def next_session(self) -> int:
        self._session_count += 1
        return self._session_count

    def dispatch(self, caller: ResponseSink, call: CallRequest) -> None:
        try:
            operation = self._resolve_operation(caller, call)
        except UnknownName as error:
            caller.reject(call, "unknown_operation", str(error))
            return
        except UsageError as error:
            caller.reject(call, "bad_arguments", str(error))
            return
        missing = self.startup_barrier
        if missing is None and call.after:
            missing = next((dot for dot in call.after if not self._has_request(dot)), None)
        alone = missing is None and self.is_local_read(operation, call.strong)
        refusal = self.rejection(call.strong, alone)
        if refusal is None and missing is None and not alone:
            refusal = self._reject_unsupported(call)
        if refusal is None and self.in_flight >= IN_FLIGHT_MAX:
            refusal = "busy", f"{IN_FLIGHT_MAX} calls are under way: try again later"
        if refusal is not None:
            caller.reject(call, *refusal)
            return
        if missing is not None:
            self._enqueue(caller, call, missing)
            return
        try:
            session = caller.session_id(call.session)
            id = self.invoke(operation, call.strong, session, call.after)
        except UsageError as error:
            # Of members it knows best; and it may have been removed in this very turn.
            reason = "bad_arguments" if operation.name == MEMBERSHIP_OPERATION else "stopping"
            caller.reject(call, reason, str(error))
            return
        self._open_calls[id] = caller, call.number
        caller.report_issued(call.number, id)

    def _reject_unsupported(self, call: CallRequest) -> tuple[str, str] | None:
        """Why others could not carry it out, whoever issued it."""
        replica = self._find_incapable_replica(call.operation, len(call.arguments))
        if replica is None:
            return None
        what = f"replica {replica} has no operation '{call.operation}', or none to be called so"
        return "unknown_operation", f"{what}: start it with the module that this one has, then call"

    def _enqueue(self, caller: ResponseSink, call: CallRequest, missing: Dot) -> None:
        if self.dependency_queue.is_full:
            what = f"{len(self.dependency_queue)} calls wait for requests that are not here"
            caller.reject(call, "busy", f"{what}: try again later")
        else:
            self.dependency_queue.enqueue((caller, call.number), missing, call.wait_ms)

    def blocked_reason(self) -> str:
        """Why all calls wait; nothing where they do not, or not for longer than until somebody
        looks whether they still have to."""
        return "" if self.startup_barrier is None else self._barrier_reason() or ""

    def expiry_message(self, missing: Dot) -> str:
        if missing == self.startup_barrier:
            return (
                f"this replica does not take part: {self.blocked_reason() or 'it began just now'}"
            )
        return f"it comes after request {missing}, which did not arrive here in time"

    def release_dependents(self, id: Dot) -> None:
        """A request is here now."""
        self.dependency_queue.release(id)

    def recheck_dependencies(self) -> None:
        """At what waits: perhaps it waits in vain."""
        for id in self.dependency_queue.missing_requests():
            self.dependency_queue.release(id)

    def release_arrived(self) -> None:
        """A checkpoint brought more than can be listed."""
        for id in filter(self._has_request, self.dependency_queue.missing_requests()):
            self.dependency_queue.release(id)

    def replace_tokens(self, tokens: AccessTokens) -> None:
        """Those who may call with none of them are let go."""
        self.tokens = tokens
        for connection in tuple(self.connections):
            connection.recheck_token()

    def respond(self, response: Response) -> None:
        found = self._open_calls.get(response.id)
        if found is not None:
            caller, number = found
            caller.respond(number, response)

    def open_calls(self) -> tuple[Dot, ...]:
        """To which more may be answered."""
        return tuple(self._open_calls)

    def abandon(self, ids: Iterable[Dot]) -> None:
        """What came of these is not known here: nobody is to wait for it."""
        for id in ids:
            found = self._open_calls.get(id)
            if found is not None:
                caller, number = found
                self.count("untold")
                caller.reject_unknown_outcome(number)

    def unregister(self, ids: Iterable[Dot]) -> None:
        for id in ids:
            self._open_calls.pop(id, None)

    def _resolve_operation(self, caller: ResponseSink, call: CallRequest) -> Operation:
        name = call.operation
        if name in (ADD_MEMBER, REMOVE_MEMBER):
            if not self.tokens.can_administer(caller.token):
                raise BadValue("this token may call operations, and not change the members")
            if not call.strong:
                raise BadValue(f"{name} is called strongly")
            return self._change_members(name, call.arguments)
        if name == QUERY_OUTCOME and call.strong:
            return Operation(QUERY_OUTCOME, call.arguments)
        if name.startswith(INTERNAL_PREFIX):
            known = self.datatype.operations
            raise UnknownName(f"operation of {self.datatype.name}", name, known)
        if len(call.after) > DEPENDENCIES_MAX:
            raise BadValue(
                f"after {len(call.after)} requests: at most {DEPENDENCIES_MAX} can be named"
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
