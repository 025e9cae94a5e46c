"""What the gateway asks of the replica that it stands before.

A live server, asked as the gateway asks.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from creekdb.execution.datatype import DataType
from creekdb.execution.keys import LAST_PLACE, Place
from creekdb.protocol.effects import Kind, Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.values import Key
from creekdb.server.backup.capture import until_durable
from creekdb.server.calls.dispatcher import Desk
from creekdb.server.observability.metrics import families, lag, text_of
from creekdb.server.runtime.server import Server
from creekdb.wire.addresses import address_of, is_loopback
from creekdb.wire.messages import Answer, Call, Issued, Refused

Items: TypeAlias = Generator[tuple[Key, Any], None, None]
Said: TypeAlias = Issued | Answer | Refused
"""First that a call has its place, and then its answers; or that it is refused."""


class Asked(NamedTuple):
    operation: str
    arguments: tuple[Any, ...]
    strong: bool
    client: str = ""
    """With a name and a number, asked again it is the same call; without, it is another one."""
    number: int = 0
    after: tuple[Dot, ...] = ()
    wait_ms: int = 0
    """How long those before it may take to arrive."""


class Behind(Protocol):
    datatype: DataType

    def invoke(self, asked: Asked, hear: Callable[[Said], None]) -> Callable[[], None]:
        """`hear` is told what comes of it, from now on and until the last answer. Call what is
        returned to hear no more."""

    def allows(self, token: str) -> bool:
        """May one with this token, or with none, ask for anything?"""

    def trusts_this_machine(self) -> bool:
        """May everybody on this machine ask, and nobody else?"""

    def count(self, reason: str) -> None:
        """Something was refused."""

    def status(self) -> dict[str, Any]: ...

    def unready(self) -> list[str]:
        """Why it should not be asked for anything at present."""

    def readable_lengths(self) -> range: ...

    def committed_items(self, length: int, start: Place, stop: Place) -> Items:
        """As `creekdb.schemes.core.replica.Replica` has it, without what is not the data type's. To
        be closed: meanwhile nothing is executed."""

    async def is_durable(self) -> bool:
        """Is what was committed so far on disk? If not, it is waited for, but not for long: what is
        not may come to nothing."""

    async def is_kept(self) -> bool:
        """Is what was called so far as safe as what was answered? If not, the same."""

    def metrics(self) -> str: ...


LAG_MAX: Final = 64
"""Decisions that a replica may be behind and count as ready."""


class LiveReplica:
    """A `Behind`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.datatype = server.desk.datatype

    def invoke(self, asked: Asked, hear: Callable[[Said], None]) -> Callable[[], None]:
        caller = _Caller(self._server.desk, asked, hear)
        caller.begin()
        return caller.enough

    def allows(self, token: str) -> bool:
        return self._server.desk.tokens.allow(token)

    def trusts_this_machine(self) -> bool:
        host, _ = address_of(self._server.config.http)
        return not self._server.desk.tokens.are_needed and is_loopback(host)

    def count(self, reason: str) -> None:
        self._server.desk.count(reason)

    def status(self) -> dict[str, Any]:
        return self._server.status()

    def unready(self) -> list[str]:
        server = self._server
        refusal = server.desk.refusal(False, False)
        reasons = [] if refusal is None else [refusal[1]]
        replica = server.driver.replica
        if server.desk.opening is not None:
            reasons.append("its disk was empty, and it does not take part yet")
        leader = replica.leader()
        if leader is None:
            reasons.append("nobody leads")
        elif leader != server.config.replica and leader not in server.peers.connected():
            reasons.append(f"there is no connection to replica {leader}, which leads")
        behind = lag(replica.progress(), server.config.replica)
        if behind > LAG_MAX:
            reasons.append(f"it is {behind} decisions behind")
        return reasons

    def readable_lengths(self) -> range:
        return self._server.driver.replica.readable_lengths()

    def committed_items(self, length: int, start: Place, stop: Place) -> Items:
        driver = self._server.driver
        stop = min(stop, LAST_PLACE)
        if start < stop:
            with driver.executor.gate:
                yield from driver.replica.committed_items(length, start, stop)

    async def is_durable(self) -> bool:
        self._server.driver.carry_out()  # so that the journal has all that led to it
        return await until_durable(self._server.journal)

    async def is_kept(self) -> bool:
        return self._server.config.durability == "memory" or await self.is_durable()

    def metrics(self) -> str:
        return text_of(families(self._server))


class _Caller:
    """One call, at the desk where the connections of clients call as well."""

    def __init__(self, desk: Desk, asked: Asked, hear: Callable[[Said], None]) -> None:
        self._desk = desk
        self._hear = hear
        self.client = asked.client
        self.token = ""  # members are not changed over HTTP
        self._call = Call(
            asked.number,
            asked.operation,
            asked.arguments,
            asked.strong,
            after=asked.after,
            wait_ms=asked.wait_ms,
        )
        self._id: Dot | None = None
        self._waits = True

    def begin(self) -> None:
        self._desk.under_way += 1
        self._desk.call(self, self._call)

    def enough(self) -> None:
        self._done()
        if self._id is not None:
            self._desk.forget((self._id,))

    # --- what the desk says -------------------------------------------------------------------

    def session(self, number: int) -> int:
        return self._desk.next_session()

    def issued(self, number: int, id: Dot) -> None:
        self._id = id
        self._hear(Issued(number, id))

    def answer(self, number: int, response: Response) -> None:
        outcome = response.outcome
        kind = response.kind
        if kind is not Kind.TENTATIVE or response.id.event < 0:
            self.enough()
        elif not self._call.strong:
            self._done()
        self._hear(Answer(number, kind.value, outcome.value, outcome.error, response.changed))

    def refuse(self, call: Call, reason: str, message: str) -> None:
        self._done()
        self._hear(Refused(call.number, reason, message))

    def again(self, number: int) -> None:
        self._desk.call(self, self._call)

    def too_late(self, number: int, missing: Dot) -> None:
        reason = "not_ready" if missing == self._desk.opening else "deadline"
        self.refuse(self._call, reason, self._desk.why_too_late(missing))

    def untold(self, number: int) -> None:
        self.enough()
        message = "it was done, and what came of it is not known at this replica"
        self._hear(Refused(number, "untold", message, certain=False))

    def _done(self) -> None:
        if self._waits:
            self._waits = False
            self._desk.under_way -= 1
            self._desk.waiting.leave((self, self._call.number))
