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

from creekdb.client.arguments import address_list, call_id, checked_seconds, keyword_arguments_error
from creekdb.client.blocking import BlockingDatabase
from creekdb.client.call_router import CallRouter
from creekdb.client.calls import Call
from creekdb.client.errors import NotDone, not_connected_error
from creekdb.client.failure_detector import ReplicaFailureDetector
from creekdb.client.proxies import CallOptions, CallProxy, ConsistencyHints, Session
from creekdb.client.replica_connection import (
    RETRY_PAUSE_S,
    ReplicaConnection,
    ReplicaDiscovery,
    client_tls_context,
)
from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.serializable import is_row, reject_unserializable
from creekdb.wire import messages
from creekdb.wire.addresses import parse_address
from creekdb.wire.deduplication import QUERY_OUTCOME

CALL_TIMEOUT_S: Final = 60.0
DISCOVERY_TIMEOUT_S: Final = 10.0
RETRY_AFTER_REJECTION_S: Final = 1.0
"""Between two tries where nobody will have us: each of them is counted there."""
INTERNAL_PREFIX: Final = "creek."
"""Names of what is asked of the cluster itself begin so."""


class Database(ConsistencyHints):
    """What `connect` gives: `db.weak.name(…)` and `db.strong.name(…)` call operations."""

    def __init__(
        self,
        addresses: Iterable[tuple[str, int]],
        *,
        datatype: DataType | str = "",
        token: str = "",
        secured: ssl.SSLContext | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
        patience: float = DISCOVERY_TIMEOUT_S,
        refused: float | None = None,
    ) -> None:
        self._discovery = ReplicaDiscovery(addresses, secured, patience)
        self._datatype = datatype if isinstance(datatype, DataType) else None
        name = datatype.name if isinstance(datatype, DataType) else datatype
        self._hello = messages.ClientHello(messages.WIRE_VERSION, uuid.uuid4().hex, token, name)
        self._timeout_s = timeout
        self._discovery_timeout_s = patience
        self._refused_timeout_s = refused
        self._router = CallRouter(len(self._discovery.addresses), self._outcome_query)
        self._last_session = 0
        self._connection_task: asyncio.Task[None] | None = None
        self._blocking: BlockingDatabase | None = None
        self._is_open = False
        self.welcome: messages.Welcome | None = None
        self._operations: dict[str, bool] = {}
        self._weak = CallProxy(self.call, CallOptions(strong=False), self.operation_names)
        self._strong = CallProxy(self.call, CallOptions(strong=True), self.operation_names)

    def __repr__(self) -> str:
        at = ", ".join(self._discovery.address_texts)
        if not self._is_open:
            return f"<Creek at {at}, not connected: 'with' or 'async with' connects>"
        what = "" if self.welcome is None else f" of '{self.welcome.datatype}'"
        return f"<Creek at {at}: replica {self.replica}{what}>"

    # --- for people -----------------------------------------------------------------------------

    async def __aenter__(self) -> "Database":
        line = await self._connect_next(self._refused_timeout_s)
        self._is_open = True
        self._connection_task = asyncio.get_running_loop().create_task(
            self._maintain_connection(line)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
        if self._connection_task is not None:
            self._connection_task.cancel()
            await asyncio.gather(self._connection_task, return_exceptions=True)
        if self._router.connection is not None:
            self._router.connection.close()
        self._router.fail_all("closed", "the connection was closed before there was an answer")

    def __enter__(self) -> BlockingDatabase:
        """Without asyncio."""
        self._blocking = BlockingDatabase(self)
        self._blocking.open()
        return self._blocking

    def __exit__(self, *_: object) -> None:
        if self._blocking is not None:
            self._blocking.close()

    @property
    def weak(self) -> CallProxy[Call]:
        """Calls that are answered at once, tentatively: `await db.weak.name(…)`."""
        return self._weak

    @property
    def strong(self) -> CallProxy[Call]:
        """Calls that are answered when a majority has fixed their place:
        `await db.strong.name(…)`."""
        return self._strong

    def session(self) -> Session[Call]:
        """Others than this one need not see what it did; it sees all that it did itself."""
        return Session(self.call, self.new_session(), self.operation_names)

    async def status(self) -> dict[str, Any]:
        """Of the replica that one is connected to."""
        line = await self._wait_for_connection()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await line.request_status(self._router.next_number())
        except TimeoutError:
            message = f"the replica did not say how it is in {self._timeout_s:g} s"
            raise NotDone("deadline", message) from None

    def discovery_progress(self) -> str:
        """What came of looking for a replica at each address: for who waits for it."""
        return self._discovery.progress_text()

    @property
    def replica(self) -> int | None:
        """The one that one is connected to, or was last."""
        return self._router.replica

    # --- calls ----------------------------------------------------------------------------------

    def new_session(self) -> int:
        self._last_session += 1
        return self._last_session

    def operation_names(self) -> tuple[str, ...]:
        """What can be called, by its name: as the data type that was given says, or the replica."""
        return tuple(self._operations) if self._datatype is None else self._datatype.operations

    def call(self, how: CallOptions, name: str, /, *arguments: Any, **named: Any) -> Call:
        if not self._is_open:
            raise not_connected_error()  # also to those who would not wait for it
        strong, session, after, timeout = how
        message = messages.CallRequest(
            self._router.next_number(),
            name,
            arguments,
            strong,
            session,
            tuple([dot for each in after if (dot := call_id(each)).event > 0]) if after else (),
        )
        call = Call(message, self._timeout_s if timeout is None else timeout)
        failure = keyword_arguments_error(name, named) if named else self._validation_error(message)
        if failure is None:
            self._router.submit(call)
        else:
            call.fail(failure)
        return call

    def _outcome_query(self, call: Call) -> Callable[[], Call]:
        """How it ended, asked of a replica that has it, when somebody wants to know."""
        assert call.id is not None
        how = CallOptions(True, self.new_session(), (call.id,), call.timeout_s)
        return partial(self.call, how, QUERY_OUTCOME, self._hello.client, call.message.number)

    def _validation_error(self, message: messages.CallRequest) -> NotDone | None:
        """Why it cannot work, as far as that can be told from here."""
        try:
            if message.operation.startswith(INTERNAL_PREFIX):
                pass  # the replica knows
            elif self._datatype is not None:
                self._datatype.call(message.operation, *message.arguments)
            else:
                self._check_against_welcome(message)
        except UnknownName as error:
            return NotDone("unknown_operation", str(error))
        except UsageError as error:
            return NotDone("bad_arguments", str(error))
        return None

    def _check_against_welcome(self, message: messages.CallRequest) -> None:
        """By what the replica has told."""
        assert self.welcome is not None
        if message.operation not in self._operations:
            what = f"operation of {self.welcome.datatype}"
            raise UnknownName(what, message.operation, self.operation_names())
        if is_row(message.arguments):
            return  # as almost always
        for position, argument in enumerate(message.arguments, 1):
            reject_unserializable(argument, f"argument {position} of {message.operation}")

    async def _wait_for_connection(self) -> ReplicaConnection:
        """To a replica, once there is one."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._discovery_timeout_s
        while self._is_open and loop.time() < until:
            if self._router.connection is not None:
                return self._router.connection
            await asyncio.sleep(RETRY_PAUSE_S)
        if not self._is_open:
            raise not_connected_error()
        raise NotDone("unreachable", f"no replica was reached in {self._discovery_timeout_s:g} s")

    # --- keeping a replica at hand ----------------------------------------------------------------

    async def _maintain_connection(self, line: ReplicaConnection) -> None:
        while True:
            await self._failure_detector(line).wait_until_lost()
            self._router.on_connection_lost()
            line = await self._reconnect()
            self._router.resend()

    def _failure_detector(self, line: ReplicaConnection) -> ReplicaFailureDetector:
        exchange, others = self._router, len(self._discovery.addresses) > 1
        return ReplicaFailureDetector(
            line, self._discovery_timeout_s, exchange.has_open_calls, exchange.next_number, others
        )

    async def _reconnect(self) -> ReplicaConnection:
        while True:
            try:
                return await self._connect_next()
            except (NotDone, UsageError) as error:
                self._router.fail_all("unreachable", str(error))
                await asyncio.sleep(
                    RETRY_PAUSE_S if isinstance(error, NotDone) else RETRY_AFTER_REJECTION_S
                )

    async def _connect_next(self, refused: float | None = None) -> ReplicaConnection:
        """The next replica that answers."""
        exchange, before = self._router, self.welcome
        if exchange.can_change_client_id():
            self._hello = msgspec.structs.replace(self._hello, client=uuid.uuid4().hex)
            exchange.on_client_id_changed()
        line, welcome = await self._discovery.find(self._hello, exchange.on_message, refused)
        if before is not None and before.cluster != welcome.cluster:
            exchange.clear_session_contexts()  # restored from a backup
        exchange.connection, exchange.replica = line, welcome.replica
        exchange.is_replica_joining = bool(welcome.not_ready_reason)
        self.welcome = welcome
        self._operations = dict(welcome.operations)
        return line


def connect(
    addresses: str | Iterable[str],
    datatype: DataType | str = "",
    *,
    token: str = "",
    authority: str | None = None,
    timeout: float | None = CALL_TIMEOUT_S,
    patience: float = DISCOVERY_TIMEOUT_S,
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
    texts = address_list(addresses)
    if not isinstance(getattr(datatype, "name", datatype), str):
        what = f"{type(datatype).__name__} {datatype!r}"
        raise BadValue(f"datatype is a creekdb.DataType or its name, not {what}")
    if not texts:
        raise BadValue("no address was given: name at least one replica as HOST:PORT")
    return Database(
        [parse_address(text) for text in texts],
        datatype=datatype,
        token=token,
        secured=client_tls_context(authority),
        timeout=None if timeout is None else checked_seconds("timeout", timeout),
        patience=checked_seconds("patience", patience),
        refused=refused,
    )
