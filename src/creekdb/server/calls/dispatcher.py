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
from creekdb.protocol.membership.configuration import MEMBERS
from creekdb.protocol.request import Operation
from creekdb.server.backup.sessions import Copies
from creekdb.server.membership.changes import ADD, REMOVE
from creekdb.server.security.authentication import Tokens
from creekdb.wire.deduplication import ENDED, INTERNAL, call_once
from creekdb.wire.messages import Call

if TYPE_CHECKING:
    from creekdb.server.transport.client_connection import Connection

WAITING_MAX: Final = 4096
WAIT_S_MAX: Final = 30.0

_Call = TypeVar("_Call", bound=Hashable)


class WaitingRoom(Generic[_Call]):
    """`again` is called with a call whose request has arrived, `too_late` when it has not."""

    def __init__(
        self, again: Callable[[_Call], None], too_late: Callable[[_Call, Dot], None]
    ) -> None:
        self._again = again
        self._too_late = too_late
        self._by_missing: dict[Dot, dict[_Call, None]] = {}
        self._waiting: dict[_Call, tuple[Dot, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    def missing(self) -> tuple[Dot, ...]:
        return tuple(self._by_missing)

    def enter(self, call: _Call, missing: Dot, wait_ms: int) -> None:
        wait_s = min(wait_ms / 1000 or WAIT_S_MAX, WAIT_S_MAX)
        timer = asyncio.get_running_loop().call_later(wait_s, self._expire, call)
        self._waiting[call] = missing, timer
        self._by_missing.setdefault(missing, {})[call] = None

    def leave(self, call: _Call) -> Dot | None:
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

    def arrived(self, id: Dot) -> None:
        for call in tuple(self._by_missing.get(id, ())):
            self.leave(call)
            self._again(call)

    def _expire(self, call: _Call) -> None:
        missing = self.leave(call)
        if missing is not None:
            self._too_late(call, missing)


UNDER_WAY_MAX: Final = 65_536
"""Calls of all clients that wait for an answer."""
AFTER_MAX: Final = 64
"""Requests that a call may come after."""


class Caller(Protocol):
    """Who calls at the desk: a connection, for instance."""

    client: str
    """Its name, so that what it asks for again is not done again; empty: it does not ask again."""
    token: str

    def session(self, number: int) -> int: ...

    def issued(self, number: int, id: Dot) -> None: ...

    def answer(self, number: int, response: Response) -> None: ...

    def refuse(self, call: Call, reason: str, message: str) -> None: ...

    def again(self, number: int) -> None: ...

    def too_late(self, number: int, missing: Dot) -> None: ...

    def untold(self, number: int) -> None: ...


class Desk:
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
        copies: Copies,
        tokens: Tokens,
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
        self._has = has
        self.alone = alone
        self.refusal = refusal
        self._who_cannot = who_cannot
        self._change_members = change_members
        self.status = status
        self.count = count
        self.copies = copies
        self.tokens = tokens
        self.page = page
        self.connections: set[Connection] = set()
        self._asked: dict[Dot, tuple[Caller, int]] = {}
        self.under_way = 0
        """Calls that wait for an answer."""
        self.waiting: WaitingRoom[tuple[Caller, int]] = WaitingRoom(_again, _too_late)
        self._sessions = 0
        self.opening: Dot | None = None
        """What all calls wait for, as if it were a request."""
        self._why_closed: Callable[[], str | None] = lambda: None

    def close(self, opening: Dot, why: Callable[[], str | None]) -> None:
        """All calls wait, until it is opened. `why()`: why that takes so long."""
        self.opening, self._why_closed = opening, why

    def open(self) -> None:
        opening, self.opening = self.opening, None
        if opening is not None:
            self.arrived(opening)

    def next_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def call(self, caller: Caller, call: Call) -> None:
        try:
            operation = self._operation(caller, call)
        except UnknownName as error:
            caller.refuse(call, "unknown_operation", str(error))
            return
        except UsageError as error:
            caller.refuse(call, "bad_arguments", str(error))
            return
        missing = self.opening
        if missing is None and call.after:
            missing = next((dot for dot in call.after if not self._has(dot)), None)
        alone = missing is None and self.alone(operation, call.strong)
        refusal = self.refusal(call.strong, alone)
        if refusal is None and missing is None and not alone:
            refusal = self._incapable(call)
        if refusal is None and self.under_way >= UNDER_WAY_MAX:
            refusal = "busy", f"{UNDER_WAY_MAX} calls are under way: try again later"
        if refusal is not None:
            caller.refuse(call, *refusal)
            return
        if missing is not None:
            self._wait(caller, call, missing)
            return
        try:
            session = caller.session(call.session)
            id = self.invoke(operation, call.strong, session, call.after)
        except UsageError as error:
            # Of members it knows best; and it may have been removed in this very turn.
            reason = "bad_arguments" if operation.name == MEMBERS else "stopping"
            caller.refuse(call, reason, str(error))
            return
        self._asked[id] = caller, call.number
        caller.issued(call.number, id)

    def _incapable(self, call: Call) -> tuple[str, str] | None:
        """Why others could not carry it out, whoever issued it."""
        replica = self._who_cannot(call.operation, len(call.arguments))
        if replica is None:
            return None
        what = f"replica {replica} has no operation '{call.operation}', or none to be called so"
        return "unknown_operation", f"{what}: start it with the module that this one has, then call"

    def _wait(self, caller: Caller, call: Call, missing: Dot) -> None:
        if self.waiting.is_full:
            what = f"{len(self.waiting)} calls wait for requests that are not here"
            caller.refuse(call, "busy", f"{what}: try again later")
        else:
            self.waiting.enter((caller, call.number), missing, call.wait_ms)

    def why_closed(self) -> str:
        """Why all calls wait; nothing where they do not, or not for longer than until somebody
        looks whether they still have to."""
        return "" if self.opening is None else self._why_closed() or ""

    def why_too_late(self, missing: Dot) -> str:
        if missing == self.opening:
            return f"this replica does not take part: {self.why_closed() or 'it began just now'}"
        return f"it comes after request {missing}, which did not arrive here in time"

    def arrived(self, id: Dot) -> None:
        """A request is here now."""
        self.waiting.arrived(id)

    def look_again(self) -> None:
        """At what waits: perhaps it waits in vain."""
        for id in self.waiting.missing():
            self.waiting.arrived(id)

    def arrived_all(self) -> None:
        """A checkpoint brought more than can be listed."""
        for id in filter(self._has, self.waiting.missing()):
            self.waiting.arrived(id)

    def change_tokens(self, tokens: Tokens) -> None:
        """Those who may call with none of them are let go."""
        self.tokens = tokens
        for connection in tuple(self.connections):
            connection.look_at_token()

    def respond(self, response: Response) -> None:
        found = self._asked.get(response.id)
        if found is not None:
            caller, number = found
            caller.answer(number, response)

    def asked(self) -> tuple[Dot, ...]:
        """To which more may be answered."""
        return tuple(self._asked)

    def give_up(self, ids: Iterable[Dot]) -> None:
        """What came of these is not known here: nobody is to wait for it."""
        for id in ids:
            found = self._asked.get(id)
            if found is not None:
                caller, number = found
                self.count("untold")
                caller.untold(number)

    def forget(self, ids: Iterable[Dot]) -> None:
        for id in ids:
            self._asked.pop(id, None)

    def _operation(self, caller: Caller, call: Call) -> Operation:
        name = call.operation
        if name in (ADD, REMOVE):
            if not self.tokens.allow_all(caller.token):
                raise BadValue("this token may call operations, and not change the members")
            if not call.strong:
                raise BadValue(f"{name} is called strongly")
            return self._change_members(name, call.arguments)
        if name == ENDED and call.strong:
            return Operation(ENDED, call.arguments)
        if name.startswith(INTERNAL):
            known = self.datatype.operations
            raise UnknownName(f"operation of {self.datatype.name}", name, known)
        if len(call.after) > AFTER_MAX:
            raise BadValue(f"after {len(call.after)} requests: at most {AFTER_MAX} can be named")
        operation = self.datatype.call(name, *call.arguments)
        if self.datatype.is_readonly(name) or not caller.client:
            return operation
        return call_once(caller.client, call.number, operation)


def _again(call: tuple[Caller, int]) -> None:
    caller, number = call
    caller.again(number)


def _too_late(call: tuple[Caller, int], missing: Dot) -> None:
    caller, number = call
    caller.too_late(number, missing)
