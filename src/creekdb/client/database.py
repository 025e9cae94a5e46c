"""A client's connection to a cluster: to one replica, and to another when that is gone.

What becomes of its calls meanwhile is told in `creekdb.client.call_router`.
"""

import asyncio
import ssl
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from creekdb.client.arguments import by_name, issued, listed, seconds
from creekdb.client.blocking import Blocking
from creekdb.client.call_router import Exchange
from creekdb.client.calls import Call
from creekdb.client.errors import NotDone, not_connected
from creekdb.client.failure_detector import Silence
from creekdb.client.proxies import Caller, Chooses, How, Session
from creekdb.client.replica_connection import PAUSE_S, Finder, Line, trusting
from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.serializable import is_row, refuse_uncarriable
from creekdb.wire import messages
from creekdb.wire.addresses import address_of
from creekdb.wire.deduplication import ENDED

TIMEOUT_S: Final = 60.0
PATIENCE_S: Final = 10.0
UNWANTED_S: Final = 1.0
"""Between two tries where nobody will have us: each of them is counted there."""
INTERNAL: Final = "creek."
"""Names of what is asked of the cluster itself begin so."""


class Database(Chooses):
    """What `connect` gives: `db.weak.name(…)` and `db.strong.name(…)` call operations."""

    def __init__(
        self,
        addresses: Iterable[tuple[str, int]],
        *,
        datatype: DataType | str = "",
        token: str = "",
        secured: ssl.SSLContext | None = None,
        timeout: float | None = TIMEOUT_S,
        patience: float = PATIENCE_S,
        refused: float | None = None,
    ) -> None:
        self._finder = Finder(addresses, secured, patience)
        self._datatype = datatype if isinstance(datatype, DataType) else None
        name = datatype.name if isinstance(datatype, DataType) else datatype
        self._hello = messages.Hello(messages.WIRE_VERSION, uuid.uuid4().hex, token, name)
        self._timeout = timeout
        self._patience = patience
        self._refused = refused
        self._exchange = Exchange(len(self._finder.addresses), self._ended)
        self._sessions = 0
        self._keeper: asyncio.Task[None] | None = None
        self._blocking: Blocking | None = None
        self._is_open = False
        self.welcome: messages.Welcome | None = None
        self._operations: dict[str, bool] = {}
        self._weak = Caller(self.ask, How(strong=False), self.known_operations)
        self._strong = Caller(self.ask, How(strong=True), self.known_operations)

    def __repr__(self) -> str:
        at = ", ".join(self._finder.texts)
        if not self._is_open:
            return f"<Creek at {at}, not connected: 'with' or 'async with' connects>"
        what = "" if self.welcome is None else f" of '{self.welcome.datatype}'"
        return f"<Creek at {at}: replica {self.replica}{what}>"

    # --- for people -----------------------------------------------------------------------------

    async def __aenter__(self) -> "Database":
        line = await self._reach(self._refused)
        self._is_open = True
        self._keeper = asyncio.get_running_loop().create_task(self._keep_up(line))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._exchange.line is not None:
            self._exchange.line.close()
        self._exchange.give_up("closed", "the connection was closed before there was an answer")

    def __enter__(self) -> Blocking:
        """Without asyncio."""
        self._blocking = Blocking(self)
        self._blocking.open()
        return self._blocking

    def __exit__(self, *_: object) -> None:
        if self._blocking is not None:
            self._blocking.close()

    @property
    def weak(self) -> Caller[Call]:
        """Calls that are answered at once, tentatively: `await db.weak.name(…)`."""
        return self._weak

    @property
    def strong(self) -> Caller[Call]:
        """Calls that are answered when a majority has fixed their place:
        `await db.strong.name(…)`."""
        return self._strong

    def session(self) -> Session[Call]:
        """Others than this one need not see what it did; it sees all that it did itself."""
        return Session(self.ask, self.new_session(), self.known_operations)

    async def status(self) -> dict[str, Any]:
        """Of the replica that one is connected to."""
        line = await self._at_hand()
        try:
            async with asyncio.timeout(self._timeout):
                return await line.status(self._exchange.next_number())
        except TimeoutError:
            message = f"the replica did not say how it is in {self._timeout:g} s"
            raise NotDone("deadline", message) from None

    def found_so_far(self) -> str:
        """What came of looking for a replica at each address: for who waits for it."""
        return self._finder.so_far()

    @property
    def replica(self) -> int | None:
        """The one that one is connected to, or was last."""
        return self._exchange.replica

    # --- calls ----------------------------------------------------------------------------------

    def new_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def known_operations(self) -> tuple[str, ...]:
        """What can be called, by its name: as the data type that was given says, or the replica."""
        return tuple(self._operations) if self._datatype is None else self._datatype.operations

    def ask(self, how: How, name: str, /, *arguments: Any, **named: Any) -> Call:
        if not self._is_open:
            raise not_connected()  # also to those who would not wait for it
        strong, session, after, timeout = how
        message = messages.Call(
            self._exchange.next_number(),
            name,
            arguments,
            strong,
            session,
            tuple([dot for each in after if (dot := issued(each)).event > 0]) if after else (),
        )
        call = Call(message, self._timeout if timeout is None else timeout)
        failure = by_name(name, named) if named else self._failure_of(message)
        if failure is None:
            self._exchange.ask(call)
        else:
            call.failed(failure)
        return call

    def _ended(self, call: Call) -> Callable[[], Call]:
        """How it ended, asked of a replica that has it, when somebody wants to know."""
        assert call.id is not None
        how = How(True, self.new_session(), (call.id,), call.timeout)
        return partial(self.ask, how, ENDED, self._hello.client, call.message.number)

    def _failure_of(self, message: messages.Call) -> NotDone | None:
        """Why it cannot work, as far as that can be told from here."""
        try:
            if message.operation.startswith(INTERNAL):
                pass  # the replica knows
            elif self._datatype is not None:
                self._datatype.call(message.operation, *message.arguments)
            else:
                self._check(message)
        except UnknownName as error:
            return NotDone("unknown_operation", str(error))
        except UsageError as error:
            return NotDone("bad_arguments", str(error))
        return None

    def _check(self, message: messages.Call) -> None:
        """By what the replica has told."""
        assert self.welcome is not None
        if message.operation not in self._operations:
            what = f"operation of {self.welcome.datatype}"
            raise UnknownName(what, message.operation, self.known_operations())
        if is_row(message.arguments):
            return  # as almost always
        for position, argument in enumerate(message.arguments, 1):
            refuse_uncarriable(argument, f"argument {position} of {message.operation}")

    async def _at_hand(self) -> Line:
        """To a replica, once there is one."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        while self._is_open and loop.time() < until:
            if self._exchange.line is not None:
                return self._exchange.line
            await asyncio.sleep(PAUSE_S)
        if not self._is_open:
            raise not_connected()
        raise NotDone("unreachable", f"no replica was reached in {self._patience:g} s")

    # --- keeping a replica at hand ----------------------------------------------------------------

    async def _keep_up(self, line: Line) -> None:
        while True:
            await self._silence_of(line).until_gone()
            self._exchange.lost()
            line = await self._reach_some_time()
            self._exchange.send_again()

    def _silence_of(self, line: Line) -> Silence:
        exchange, others = self._exchange, len(self._finder.addresses) > 1
        return Silence(line, self._patience, exchange.is_waited_for, exchange.next_number, others)

    async def _reach_some_time(self) -> Line:
        while True:
            try:
                return await self._reach()
            except (NotDone, UsageError) as error:
                self._exchange.give_up("unreachable", str(error))
                await asyncio.sleep(PAUSE_S if isinstance(error, NotDone) else UNWANTED_S)

    async def _reach(self, refused: float | None = None) -> Line:
        """The next replica that answers."""
        exchange, before = self._exchange, self.welcome
        if exchange.may_be_renamed():
            self._hello = msgspec.structs.replace(self._hello, client=uuid.uuid4().hex)
            exchange.renamed()
        line, welcome = await self._finder.find(self._hello, exchange.heard, refused)
        if before is not None and before.cluster != welcome.cluster:
            exchange.forget_seen()  # restored from a backup
        exchange.line, exchange.replica = line, welcome.replica
        exchange.waits = bool(welcome.waits)
        self.welcome = welcome
        self._operations = dict(welcome.operations)
        return line


def connect(
    addresses: str | Iterable[str],
    datatype: DataType | str = "",
    *,
    token: str = "",
    authority: str | None = None,
    timeout: float | None = TIMEOUT_S,
    patience: float = PATIENCE_S,
    refused: float | None = None,
) -> Database:
    """A cluster, by the addresses (`HOST:PORT`) of one or more of its replicas: for `async with`,
    or for `with`, where calls give their answers without `await`.

    `datatype`: what one expects to find there; given as such and not by its name, calls are checked
    before they are sent. `authority`: a file with the certificates that are trusted; then the
    connection is encrypted. `timeout`: seconds that a call waits for its answer; None: for ever.
    `patience`: seconds for which replicas are looked for before calls are given up, and for which
    one may be silent, unless it is clear that it is not there (`creekdb.client.failure_detector`).
    `refused`: for how long they are looked for in the beginning, if nobody is at any of the
    addresses for certain; None: `patience`.
    """
    texts = listed(addresses)
    if not isinstance(getattr(datatype, "name", datatype), str):
        what = f"{type(datatype).__name__} {datatype!r}"
        raise BadValue(f"datatype is a creekdb.DataType or its name, not {what}")
    if not texts:
        raise BadValue("no address was given: name at least one replica as HOST:PORT")
    return Database(
        [address_of(text) for text in texts],
        datatype=datatype,
        token=token,
        secured=trusting(authority),
        timeout=None if timeout is None else seconds("timeout", timeout),
        patience=seconds("patience", patience),
        refused=refused,
    )
